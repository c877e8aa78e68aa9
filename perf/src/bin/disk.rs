//! What a disk takes: one stream of batches, each durable before the next is written, by each way that a journal could
//! write them. Prints a Markdown table. One write is under way at a time, through an io_uring as the server has it.
//!
//! `cargo run --release -p rallypoint-perf --bin disk -- FOLDER [SECONDS [busy | journal]]`. `busy`: the thread is pinned and never
//! sleeps, as a core that has requests to serve meanwhile; its CPU time then says nothing. `journal`: only the way in which the
//! journal writes, batches of 16 KiB.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use io_uring::squeue::Flags;
use io_uring::{EnterFlags, IoUring, opcode, types};

const FILE_BYTES: u64 = 256 << 20;
const BLOCK_BYTES: usize = 4096;
/// "Over time" is what somebody waits who comes at any moment, as one does each 10 us. A stall of 10 ms is one slow batch in
/// thousands, but it is a hundredth of a second for all who come meanwhile.
const ARRIVAL_NS: u64 = 10_000;

#[derive(Clone, Copy)]
struct Case {
    /// Zeros written beforehand; otherwise only fallocate, which leaves extents that a write must convert first.
    zeroed: bool,
    direct: bool,
    /// RWF_DSYNC on the write; otherwise an fdatasync linked behind it.
    dsync: bool,
    batch_bytes: usize,
    is_busy: bool,
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("usage: disk FOLDER [SECONDS]");
    let seconds = arguments.next().map_or(2.0, |text| text.parse().expect("SECONDS is a number"));
    let word = arguments.next();
    let is_busy = word.as_deref() == Some("busy");
    if is_busy {
        core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
    }
    println!(
        "| batch | file | write | sync | batches/s | MB/s | p50 us | p99 us | p99 us over time | max us | CPU us/batch |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    if word.as_deref() == Some("journal") {
        let case = Case { zeroed: true, direct: true, dsync: false, batch_bytes: 16 << 10, is_busy };
        return run(Path::new(&folder), case, Duration::from_secs_f64(seconds));
    }
    for batch_bytes in [4 << 10, 64 << 10] {
        for zeroed in [false, true] {
            for (direct, dsync) in [(false, false), (true, false), (false, true), (true, true)] {
                let case = Case { zeroed, direct, dsync, batch_bytes, is_busy };
                run(Path::new(&folder), case, Duration::from_secs_f64(seconds))?;
            }
        }
    }
    Ok(())
}

fn run(folder: &Path, case: Case, time: Duration) -> std::io::Result<()> {
    let path = folder.join("rallypoint-disk-measurement");
    let file = create(&path, case)?;
    let mut memory = vec![0x5a_u8; case.batch_bytes + BLOCK_BYTES];
    let aligned = memory.as_ptr().align_offset(BLOCK_BYTES);
    let batch = &mut memory[aligned..aligned + case.batch_bytes];
    let mut ring: IoUring =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().build(8)?;
    let mut latencies = Histogram::<u64>::new(3).expect("three digits are possible");
    let mut over_time = Histogram::<u64>::new(3).expect("three digits are possible");
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut offset = 0;
    while offset + case.batch_bytes as u64 <= FILE_BYTES && start.elapsed() < time {
        let begun = Instant::now();
        batch[..8].copy_from_slice(&offset.to_le_bytes());
        write_durably(&mut ring, &file, batch, offset, case)?;
        let latency_ns = begun.elapsed().as_nanos() as u64;
        latencies.record(latency_ns).expect("the histogram grows");
        over_time.record_correct(latency_ns, ARRIVAL_NS).expect("the histogram grows");
        offset += case.batch_bytes as u64;
    }
    let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_time() - cpu);
    std::fs::remove_file(&path)?;
    let batches = latencies.len() as f64;
    println!(
        "| {} KiB | {} | {} | {} | {:.0} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} |",
        case.batch_bytes >> 10,
        if case.zeroed { "zeros" } else { "fallocate" },
        if case.direct { "O_DIRECT" } else { "buffered" },
        if case.dsync { "RWF_DSYNC" } else { "fdatasync" },
        batches / elapsed,
        offset as f64 / elapsed / 1e6,
        latencies.value_at_quantile(0.5) as f64 / 1e3,
        latencies.value_at_quantile(0.99) as f64 / 1e3,
        over_time.value_at_quantile(0.99) as f64 / 1e3,
        latencies.max() as f64 / 1e3,
        cpu.as_secs_f64() * 1e6 / batches,
    );
    Ok(())
}

fn create(path: &Path, case: Case) -> std::io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(path)?;
    // SAFETY: the descriptor is open; no memory is passed.
    let allocated = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, FILE_BYTES as libc::off_t) };
    if allocated != 0 {
        return Err(std::io::Error::last_os_error());
    }
    if case.zeroed {
        let zeros = vec![0; 1 << 20];
        for offset in (0..FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset)?;
        }
    }
    file.sync_all()?;
    let flags = if case.direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

fn write_durably(ring: &mut IoUring, file: &File, batch: &[u8], offset: u64, case: Case) -> std::io::Result<()> {
    let file = types::Fd(file.as_raw_fd());
    let write = opcode::Write::new(file, batch.as_ptr(), batch.len() as u32).offset(offset);
    let entries = if case.dsync {
        vec![write.rw_flags(libc::RWF_DSYNC).build()]
    } else {
        let sync = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC);
        vec![write.build().flags(Flags::IO_LINK), sync.build()]
    };
    // SAFETY: `batch` and the file outlive the completions, which are awaited below.
    unsafe { ring.submission().push_multiple(&entries) }.expect("the ring is empty");
    ring.submit_and_wait(if case.is_busy { 0 } else { entries.len() })?;
    while ring.completion().len() < entries.len() {
        // SAFETY: no argument is passed, and nothing is submitted.
        unsafe { ring.submitter().enter::<libc::sigset_t>(0, 0, EnterFlags::GETEVENTS.bits(), None) }?;
    }
    for (completion, wanted) in ring.completion().zip([batch.len() as i32, 0]) {
        if completion.result() < 0 {
            return Err(std::io::Error::from_raw_os_error(-completion.result()));
        }
        assert_eq!(completion.result(), wanted, "a short write");
    }
    Ok(())
}

/// User and system time of the process, the ring's workers included.
fn cpu_time() -> Duration {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let duration =
        |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

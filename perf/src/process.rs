//! What the kernel says of the server's process and of our own: CPU time, memory, and the CPU we run on.

use std::collections::{HashMap, HashSet};
use std::fs::{read_dir, read_link, read_to_string};
use std::path::Path;

/// CPU time of a process since the meter was made, in nanoseconds, summed over its threads (those that ended meanwhile
/// count up to the last reading only).
pub(crate) struct CpuMeter {
    pid: u32,
    start: HashMap<String, Times>,
}

/// Nanoseconds on a CPU, and ready but waiting for one (somebody else had it).
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) running_ns: u64,
    pub(crate) waiting_ns: u64,
}

impl CpuMeter {
    pub(crate) fn new(pid: u32) -> Result<CpuMeter, String> {
        Ok(CpuMeter { pid, start: thread_times(pid)? })
    }

    pub(crate) fn used(&self) -> Result<Times, String> {
        let mut sum = Times::default();
        for (thread, now) in thread_times(self.pid)? {
            let start = self.start.get(&thread).copied().unwrap_or_default();
            sum.running_ns += now.running_ns.saturating_sub(start.running_ns);
            sum.waiting_ns += now.waiting_ns.saturating_sub(start.waiting_ns);
        }
        Ok(sum)
    }
}

fn thread_times(pid: u32) -> Result<HashMap<String, Times>, String> {
    let threads = format!("/proc/{pid}/task");
    let mut times = HashMap::new();
    for thread in read_dir(&threads).map_err(|error| format!("{threads}: {error}"))?.flatten() {
        let Ok(text) = read_to_string(thread.path().join("schedstat")) else { continue }; // it just ended
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
        if let (Some(running_ns), Some(waiting_ns)) = (numbers.next(), numbers.next()) {
            times.insert(thread.file_name().to_string_lossy().into_owned(), Times { running_ns, waiting_ns });
        }
    }
    Ok(times)
}

/// User memory of a process, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) rss_bytes: i64,
    pub(crate) pss_bytes: i64,
    pub(crate) anonymous_bytes: i64,
}

impl Memory {
    /// Reads smaps_rollup.
    pub(crate) fn of(pid: u32) -> Result<Memory, String> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        Memory::parse(&text).ok_or_else(|| format!("{path}: Rss, Pss or Anonymous is missing"))
    }

    fn parse(text: &str) -> Option<Memory> {
        let field = |name: &str| -> Option<i64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_whitespace().next()?.parse::<i64>().ok()? * 1024)
        };
        Some(Memory { rss_bytes: field("Rss:")?, pss_bytes: field("Pss:")?, anonymous_bytes: field("Anonymous:")? })
    }
}

/// The process that listens on a TCP port of this machine.
pub(crate) fn listening_pid(port: u16) -> Option<u32> {
    let mut sockets = HashSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        sockets
            .extend(read_to_string(table).unwrap_or_default().lines().filter_map(|line| listening_inode(line, port)));
    }
    read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let has_it = |file: &Path| read_link(file).is_ok_and(|link| sockets.contains(link.to_string_lossy().as_ref()));
        read_dir(process.path().join("fd")).ok()?.flatten().any(|file| has_it(&file.path())).then_some(pid)
    })
}

/// `socket:[INODE]` if the line of /proc/net/tcp is a listener (state 0A) on the port.
fn listening_inode(line: &str, port: u16) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let local_port = u16::from_str_radix(words.get(1)?.rsplit(':').next()?, 16).ok()?;
    (local_port == port && *words.get(3)? == "0A").then(|| words.get(9).map(|inode| format!("socket:[{inode}]")))?
}

/// Pins this thread to a CPU (0 is the first allowed one; none given: the last). Gives the CPU's id.
pub(crate) fn pin(cpu: Option<usize>) -> Result<usize, String> {
    let allowed = core_affinity::get_core_ids().unwrap_or_default();
    let core = match cpu {
        Some(id) => allowed.iter().find(|core| core.id == id),
        None => allowed.last(),
    };
    let core = *core.ok_or_else(|| format!("CPU {cpu:?} is not among the allowed {allowed:?}"))?;
    if core_affinity::set_for_current(core) { Ok(core.id) } else { Err(format!("cannot pin to CPU {}", core.id)) }
}

/// Raises the soft limit of open files to the hard one, and fails if that is less than `needed`.
pub(crate) fn need_open_files(needed: usize) -> Result<(), String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write the one struct that is given.
    let is_set = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
    };
    if is_set && limit.rlim_cur as usize >= needed {
        return Ok(());
    }
    Err(format!("{needed} open files are needed, {} are allowed (ulimit -Hn)", limit.rlim_cur))
}

/// Ends this process by SIGALRM after so many seconds: nothing here runs for ever.
pub(crate) fn end_after(seconds: u32) {
    // SAFETY: alarm has no memory effects.
    unsafe { libc::alarm(seconds) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_rollup_is_read_in_bytes() {
        let text = "00400000-7ffe [rollup]\nRss:   8 kB\nPss:   7 kB\nPss_Dirty: 1 kB\nAnonymous:   4 kB\n";
        let memory = Memory::parse(text).expect("all three are there");
        assert_eq!((memory.rss_bytes, memory.pss_bytes, memory.anonymous_bytes), (8192, 7168, 4096));
        assert!(Memory::parse("Rss: 8 kB").is_none());
    }

    #[test]
    fn our_own_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        assert_eq!(listening_pid(port), Some(std::process::id()));
    }

    #[test]
    fn the_meter_sees_our_own_work() {
        let meter = CpuMeter::new(std::process::id()).expect("our own threads");
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 30 {}
        assert!(meter.used().expect("our own threads").running_ns > 1_000_000);
    }
}

//! The journal on real files.
#![allow(clippy::disallowed_methods, reason = "a test may block")]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::super::block::BLOCK_BYTES;
use super::super::entry::EntryWriter;
use super::super::failure::OpenError;
use super::super::layout::{Layout, Placement};
use super::super::replay::Replayed;
use super::super::store::{Durability, Entries, Store, StoreState, StoreWrite, WriteFailure};
use super::super::stream::{Stream, StreamSettings};
use super::*;
use crate::clock::Now;

struct Numbered(u32);

impl Entries for Numbered {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        entries.record(|key| key.extend(self.0.to_le_bytes()), |value| value.resize(value.len() + 100, 1));
    }
}

fn layout(folder: &Path) -> Result<Layout, OpenError> {
    let placement = Placement { streams: 1, name: "one", stream_of: &|_| 0 };
    Layout::open(Arc::new(Folder::new(folder)), placement, &mut |_| {})
}

/// Once the thread of the one before has ended.
fn unlocked_layout(folder: &Path) -> Layout {
    let start = Instant::now();
    loop {
        match layout(folder) {
            Err(OpenError::Locked { .. }) => assert!(start.elapsed() < Duration::from_secs(20), "it takes too long"),
            opened => return opened.expect("it opens"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn open(layout: &Layout) -> (Stream, Vec<u32>) {
    let mut replay = layout.replay(0, [0]).expect("it opens");
    let mut numbers = Vec::new();
    let mut take = |replayed: Replayed<'_>| {
        if let Replayed::Entry(entry) = replayed {
            numbers.push(u32::from_le_bytes(entry.key.try_into().expect("four bytes")));
        }
    };
    while replay.step(100, &mut take).expect("it replays") {}
    let segment_bytes = 16 * BLOCK_BYTES as u64;
    let settings = StreamSettings {
        mode: Durability::Fsync,
        segment_bytes,
        prepare_step_bytes: BLOCK_BYTES as u64,
        snapshot_after_bytes: 2 * segment_bytes,
        room_bytes: 0,
    };
    let mut stream = Stream::open(&replay, settings).expect("it opens");
    stream.replayed(replay);
    (stream, numbers)
}

/// As the ring would, without one.
fn write(write: &StoreWrite) -> Result<(), WriteFailure> {
    let options = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).clone();
    let file = options.open(format!("/proc/self/fd/{}", write.file)).expect("the stream keeps it open");
    file.write_all_at(&write.data, write.offset).map_err(WriteFailure::Write)
}

/// What a core has beside its stream. Its clock runs as fast as the turns.
struct Core {
    worker: Worker,
    done: Arc<Mutex<Vec<JobDone>>>,
    now: Now,
}

impl Core {
    fn new(layout: &Layout) -> Core {
        Core {
            worker: Worker::start(layout.disk().clone(), layout.lock()).expect("a thread"),
            done: Arc::default(),
            now: Now::default(),
        }
    }

    fn turn(&mut self, stream: &mut Stream) {
        while let Some(next) = stream.poll_write(self.now) {
            stream.written(next.token, write(&next), self.now);
        }
        while let Some(job) = stream.poll_job(self.now) {
            let done = self.done.clone();
            self.worker.submit(job, Box::new(move |end| done.lock().expect("no panic").push(end)));
        }
        for end in self.done.lock().expect("no panic").drain(..) {
            stream.job_done(end, self.now);
        }
        self.now = self.now.after(Duration::from_millis(1));
    }

    fn turns(&mut self, stream: &mut Stream, until: impl Fn(&Stream) -> bool) {
        let start = Instant::now();
        while !until(stream) {
            assert!(start.elapsed() < Duration::from_secs(20), "it takes too long");
            self.turn(stream);
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn real_files_keep_what_was_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut expected = Vec::new();
    for _ in 0..3 {
        let layout = unlocked_layout(folder.path());
        assert!(matches!(self::layout(folder.path()), Err(OpenError::Locked { .. })));
        let (mut stream, numbers) = open(&layout);
        assert_eq!(numbers, expected);
        let mut core = Core::new(&layout);
        for _ in 0..1_000 {
            let number = expected.len() as u32;
            let position = stream.append(0, 1, &Numbered(number)).expect("room");
            if number % 100 == 99 {
                core.turns(&mut stream, |stream| stream.durable() >= position);
            }
            expected.push(number);
        }
    }
    let (_, numbers) = open(&unlocked_layout(folder.path()));
    assert_eq!(numbers, expected);
}

#[test]
fn a_folder_is_locked_until_the_last_job_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = layout(folder.path()).expect("it opens");
    let worker = Worker::start(layout.disk().clone(), layout.lock()).expect("a thread");
    let (go_on, wait) = channel::<()>();
    let job = Job::remove_snapshots("", Vec::new());
    worker.submit(job, Box::new(move |_| wait.recv().expect("it is let go on")));
    drop((worker, layout));
    assert!(matches!(self::layout(folder.path()), Err(OpenError::Locked { .. })));
    go_on.send(()).expect("it waits");
    unlocked_layout(folder.path());
}

#[test]
fn a_snapshot_shortens_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = layout(folder.path()).expect("it opens");
    let (mut stream, _) = open(&layout);
    let mut core = Core::new(&layout);
    while stream.snapshot_due(core.now).is_none() {
        let position = stream.append(0, 1, &Numbered(1)).expect("room");
        core.turns(&mut stream, |stream| stream.durable() >= position);
    }
    let before = stream.log_bytes();
    stream.begin_snapshot(0, 1);
    stream.snapshot_records(&Numbered(1));
    stream.complete_snapshot();
    let segments = |stream: &Stream| stream.log_bytes() < before / 2 && stream.snapshot_under_way().is_none();
    core.turns(&mut stream, segments);
    drop(stream);
    let (_, numbers) = open(&layout);
    assert!(numbers.len() < 300 && numbers.iter().all(|number| *number == 1), "{}", numbers.len());
}

/// `cargo test -- --ignored` as root.
#[test]
#[ignore = "mounts a small tmpfs: needs root"]
fn a_full_file_system_refuses_until_there_is_space() {
    let folder = tempfile::tempdir().expect("a folder");
    let system = |command: &str, arguments: &[&str]| {
        let status = std::process::Command::new(command).args(arguments).arg(folder.path()).status();
        assert!(status.expect("it runs").success(), "{command}");
    };
    system("mount", &["-t", "tmpfs", "-o", "size=400k", "tmpfs"]);
    let layout = layout(folder.path()).expect("it opens");
    let (mut stream, _) = open(&layout);
    let mut core = Core::new(&layout);
    core.turns(&mut stream, |stream| stream.deadline_ms().is_none());

    let ballast = folder.path().join("ballast");
    std::fs::write(&ballast, vec![0; 200_000]).expect("room for that");
    let mut accepted = Vec::new();
    while stream.state() == StoreState::Open {
        let number = accepted.len() as u32;
        if let Ok(position) = stream.append(0, 1, &Numbered(number)) {
            core.turns(&mut stream, |s| s.durable() >= position || s.state() == StoreState::Full);
            if stream.durable() >= position {
                accepted.push(number);
            }
        }
    }
    assert!(stream.poll_failed().is_some());
    assert!(accepted.len() > 100, "{} were taken", accepted.len());
    std::fs::remove_file(&ballast).expect("it is there");
    core.turns(&mut stream, |stream| stream.state() == StoreState::Open);
    let number = accepted.len() as u32;
    let position = stream.append(0, 1, &Numbered(number)).expect("room again");
    accepted.push(number);
    core.turns(&mut stream, |stream| stream.durable() >= position);
    drop(stream);
    let (_, numbers) = open(&layout);
    assert_eq!(numbers, accepted);
    drop(layout);
    system("umount", &["-l"]);
}

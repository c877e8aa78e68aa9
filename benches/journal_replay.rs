//! How fast a journal of committed offsets is written and read back, on one thread: by the clock, and by the time that the
//! thread was on a CPU (the same, if nobody else had it).
//!
//! `cargo bench --bench journal_replay -- [OFFSETS [TIMES [FOLDER]]]`: so many offsets (default 100,000), each committed so
//! many times (10), in a folder (a temporary one).
#![allow(clippy::disallowed_methods, reason = "it measures time and writes files")]

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rallypoint::clock::Now;
use rallypoint::group::settings::{GroupSettings, OffsetSettings};
use rallypoint::group::{CommittedOffset, Groups, Ids, OffsetKey, Record};
use rallypoint::journal::codec::{Decoder, Records};
use rallypoint::journal::files::Folder;
use rallypoint::journal::layout::{Layout, Placement};
use rallypoint::journal::replay::{Replay, Replayed};
use rallypoint::journal::store::{Durability, Store};
use rallypoint::journal::stream::{Stream, StreamSettings};

const OFFSETS_PER_GROUP: u32 = 100;
const PARTITIONS: i32 = 50;

fn main() {
    // `cargo bench` adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let mut number = |default: u32| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (offsets, times) = (number(100_000), number(10));
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = arguments.next().map_or(temporary.path().to_owned(), Into::into);
    write(&folder, offsets, times);
    read("read, checksums", &folder, &mut |_| {});
    let (mut decoder, mut records) = (Decoder::default(), 0);
    read("and decode", &folder, &mut |replayed| {
        if let Replayed::Entry(entry) = replayed {
            let record = decoder.decode(entry.key, entry.value).expect("it parses");
            records += u64::from(record.is_some());
        }
    });
    assert_eq!(records, u64::from(offsets) * u64::from(times));
    let mut groups = Groups::new(GroupSettings::default(), OffsetSettings::default(), Box::new(NoIds), Now::default());
    read("and apply", &folder, &mut |replayed| {
        if let Replayed::Entry(entry) = replayed {
            let record = decoder.decode(entry.key, entry.value).expect("it parses");
            groups.apply(entry.partition, &record.expect("a known type"));
        }
    });
    println!("{} groups", groups.len());
}

struct NoIds;

impl Ids for NoIds {
    fn next(&mut self) -> [u8; 16] {
        [0; 16]
    }
}

fn layout(folder: &Path) -> Layout {
    let placement = Placement { streams: 1, name: "one", stream_of: &|_| 0 };
    Layout::open(Arc::new(Folder::new(folder)), placement, &mut |_| {}).expect("it opens")
}

fn replay(layout: &Layout, take: &mut dyn FnMut(Replayed<'_>)) -> Replay {
    let mut replay = layout.replay(0, 0..PARTITIONS).expect("it opens");
    while replay.step(10_000, take).expect("it replays") {}
    replay
}

fn write(folder: &Path, offsets: u32, times: u32) {
    let layout = layout(folder);
    let settings = StreamSettings { mode: Durability::Os, ..StreamSettings::default() };
    let replay = replay(&layout, &mut |_| {});
    let mut stream = Stream::open(&replay, settings).expect("it opens");
    stream.replayed(replay);
    let (meter, mut records) = (Meter::start(), Vec::new());
    for time in 0..times {
        for group in 0..offsets / OFFSETS_PER_GROUP {
            let group_id: Rc<str> = format!("consumer-group-{group:06}").into();
            let topic: Rc<str> = format!("topic-{:03}", group % 100).into();
            records.clear();
            records.extend((0..OFFSETS_PER_GROUP).map(|partition| commit(&group_id, &topic, partition, time)));
            stream.append(group as i32 % PARTITIONS, 0, &Records(&records)).expect("room");
            turn(&layout, &mut stream);
        }
    }
    let megabytes = stream.log_bytes() / 1_000_000;
    meter.print(&format!("write {megabytes} MB"), u64::from(offsets) * u64::from(times));
}

/// The clock and the time on a CPU, since it was made.
struct Meter {
    start: Instant,
    cpu_ns: u64,
}

impl Meter {
    fn start() -> Meter {
        Meter { start: Instant::now(), cpu_ns: cpu_ns() }
    }

    fn print(&self, what: &str, records: u64) {
        let millions = records as f64 / 1e6;
        let (seconds, cpu_seconds) = (self.start.elapsed().as_secs_f64(), (cpu_ns() - self.cpu_ns) as f64 / 1e9);
        let (by_clock, by_cpu) = (millions / seconds, millions / cpu_seconds);
        println!(
            "{what}: {millions:.1} million records in {seconds:.2} s: {by_clock:.2} million/s, {by_cpu:.2} per CPU second"
        );
    }
}

/// Nanoseconds that this thread was on a CPU.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says it");
    text.split(' ').next().and_then(|field| field.parse().ok()).expect("its first field")
}

fn commit(group_id: &Rc<str>, topic: &Rc<str>, partition: u32, time: u32) -> Record {
    let key = OffsetKey { group_id: group_id.clone(), topic: topic.clone(), partition: partition as i32 };
    let offset = CommittedOffset {
        offset: i64::from(time),
        leader_epoch: -1,
        metadata: None,
        commit_timestamp_ms: 1_700_000_000_000,
        expire_timestamp_ms: -1,
        topic_id: [0; 16],
    };
    Record::OffsetCommit { key, offset }
}

fn turn(layout: &Layout, stream: &mut Stream) {
    let now = Now::default();
    while let Some(write) = stream.poll_write(now) {
        let file = OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", write.file)).expect("it is open");
        file.write_all_at(&write.data, write.offset).expect("written");
        stream.written(write.token, Ok(()), now);
    }
    while let Some(job) = stream.poll_job(now) {
        stream.job_done(job.run(layout.disk().as_ref()), now);
    }
}

fn read(what: &str, folder: &Path, take: &mut dyn FnMut(Replayed<'_>)) {
    let layout = layout(folder);
    let meter = Meter::start();
    let progress = replay(&layout, take).progress();
    meter.print(what, progress.entries);
}

//! Re-distribution, interrupted at every step.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::block::BLOCK_BYTES;
use super::super::entry::EntryWriter;
use super::super::store::{Entries, Store};
use super::super::stream::{Stream, StreamSettings};
use super::super::testing::{Fault, MemoryDisk};
use super::*;
use crate::clock::Now;
use crate::journal::store::Durability;

const PARTITIONS: i32 = 7;

/// Every record of each partition, in order: key, value, leader epoch.
pub(in crate::journal) type Content = BTreeMap<i32, Vec<(Vec<u8>, Option<Vec<u8>>, i32)>>;

struct One<'a>(&'a [u8], Option<&'a [u8]>);

impl Entries for One<'_> {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        match self.1 {
            Some(value) => entries.record(|key| key.extend(self.0), |bytes| bytes.extend(value)),
            None => entries.tombstone(|key| key.extend(self.0)),
        }
    }
}

pub(in crate::journal) fn open(disk: &MemoryDisk, streams: usize) -> Result<Layout, OpenError> {
    let stream_of = |partition: i32| partition as usize % streams;
    let name = format!("modulo {streams}");
    let mut last = Progress::default();
    let mut progress = |now: Progress| {
        assert!(now.bytes_done >= last.bytes_done && now.bytes_done <= now.bytes_total);
        last = now;
    };
    Layout::open(Arc::new(disk.clone()), Placement { streams, name: &name, stream_of: &stream_of }, &mut progress)
}

pub(in crate::journal) fn read(layout: &Layout) -> Content {
    let mut content = Content::new();
    let streams = layout.manifest().streams.len();
    for core in 0..streams {
        let partitions = (0..PARTITIONS).filter(|partition| *partition as usize % streams == core);
        let mut replay = layout.replay(core, partitions).expect("it opens");
        let mut take = |replayed: Replayed<'_>| {
            if let Replayed::Entry(entry) = replayed {
                assert_eq!(entry.partition as usize % streams, core, "the partition is on its stream");
                let record = (entry.key.to_vec(), entry.value.map(<[u8]>::to_vec), entry.leader_epoch);
                content.entry(entry.partition).or_default().push(record);
            }
        };
        while replay.step(50, &mut take).expect("it replays") {}
    }
    content
}

/// A journal of so many streams with random records.
pub(in crate::journal) fn filled(streams: usize) -> (MemoryDisk, Content) {
    let disk = MemoryDisk::default();
    let layout = open(&disk, streams).expect("a new one");
    let mut random = SmallRng::seed_from_u64(7);
    let mut content = Content::new();
    let settings = StreamSettings {
        mode: Durability::Fsync,
        segment_bytes: 4 * BLOCK_BYTES as u64,
        prepare_step_bytes: BLOCK_BYTES as u64,
        snapshot_after_bytes: 1 << 30,
        room_bytes: 0,
    };
    for core in 0..streams {
        let mut replay = layout.replay(core, []).expect("it opens");
        while replay.step(1, &mut |_| {}).expect("it is empty") {}
        let mut stream = Stream::open(&replay, settings).expect("it opens");
        stream.replayed(replay);
        for _ in 0..100 {
            let partition = random.random_range(0..PARTITIONS) / streams as i32 * streams as i32 + core as i32;
            if partition >= PARTITIONS {
                continue;
            }
            let (key, value) = ([random.random_range(0..10)], vec![random.random(); random.random_range(0..600)]);
            let value = random.random_ratio(4, 5).then_some(value);
            let leader_epoch = random.random_range(0..3);
            stream.append(partition, leader_epoch, &One(&key, value.as_deref())).expect("room");
            content.entry(partition).or_default().push((key.to_vec(), value, leader_epoch));
            while let Some(write) = stream.poll_write(Now::default()) {
                disk.write(write.file, write.offset, &write.data).expect("a write");
                disk.sync(write.file).expect("a sync");
                stream.written(write.token, Ok(()), Now::default());
                while let Some(job) = stream.poll_job(Now::default()) {
                    stream.job_done(job.run(&disk), Now::default());
                }
            }
        }
    }
    (disk, content)
}

fn generations(disk: &MemoryDisk) -> usize {
    disk.list("").expect("a folder").iter().filter(|name| generation_of_folder(name).is_some()).count()
}

#[test]
fn a_journal_is_made_found_and_kept_from_a_second_server() {
    let (disk, content) = filled(2);
    let layout = open(&disk, 2).expect("it is there");
    let manifest = layout.manifest();
    assert_eq!((manifest.generation, &manifest.streams[..], &manifest.placement[..]), (1, &[1, 2][..], "modulo 2"));
    assert_eq!(read(&layout), content);
    assert!(matches!(open(&disk, 2), Err(OpenError::Locked { .. })));
    drop(layout);
    open(&disk, 2).expect("free again");
}

#[test]
fn another_number_of_cores_has_all_records_in_order() {
    let (disk, content) = filled(2);
    for (generation, streams) in [(2, 3), (3, 1), (4, 5), (5, 2)] {
        let layout = open(&disk, streams).expect("re-distributed");
        assert_eq!((layout.manifest().generation, layout.manifest().streams.len()), (generation, streams));
        assert_eq!(read(&layout), content);
        assert_eq!(generations(&disk), 1);
    }
}

#[test]
fn interrupted_anywhere_it_loses_nothing() {
    let (disk, content) = filled(2);
    let mut random = SmallRng::seed_from_u64(11);
    for step in 0.. {
        let interrupted = disk.killed();
        interrupted.fail_at(step, Fault::PowerOff);
        let is_over = open(&interrupted, 3).is_ok();
        for round in 0..6 {
            let choose = &mut |n| random.random_range(0..n);
            let image = if round == 0 { interrupted.killed() } else { interrupted.crash(choose) };
            // Back to the old number as well: whatever is there, all of it is there.
            let streams = [3, 2, 1][round % 3];
            let layout = open(&image, streams).unwrap_or_else(|error| panic!("step {step}, round {round}: {error}"));
            assert_eq!(read(&layout), content, "step {step}, round {round}");
            assert_eq!(generations(&image), 1, "step {step}, round {round}");
        }
        if is_over {
            assert!(step > 40, "{step} steps were tried");
            break;
        }
    }
}

#[test]
fn interrupted_again_after_a_restart_it_loses_nothing() {
    let (disk, content) = filled(2);
    let mut random = SmallRng::seed_from_u64(13);
    let is_interrupted = |disk: &MemoryDisk, step| {
        disk.fail_at(step, Fault::PowerOff);
        open(disk, 3).is_err()
    };
    for first in 0.. {
        let killed = disk.killed();
        let goes_on = is_interrupted(&killed, first);
        let has_switched = Manifest::read(&killed).expect("it is whole").is_some_and(|found| found.generation == 2);
        for second in (0..).step_by(if has_switched { 1 } else { 9 }) {
            let restarted = killed.killed();
            let restart_goes_on = is_interrupted(&restarted, second);
            for _ in 0..3 {
                let image = restarted.crash(&mut |n| random.random_range(0..n));
                let layout = open(&image, 3).unwrap_or_else(|error| panic!("steps {first} and {second}: {error}"));
                assert!(read(&layout) == content, "steps {first} and {second}");
            }
            if !restart_goes_on {
                break;
            }
        }
        if !goes_on {
            break;
        }
    }
}

#[test]
fn a_copy_keeps_few_files_open() {
    const PARTITIONS: i32 = OPEN_FILES_MAX as i32 + 20;
    let disk = MemoryDisk::default();
    let manifest = Manifest { generation: 1, streams: vec![1], placement: "one".to_owned(), kept: Vec::new() };
    create_folders(&disk, &manifest).expect("nothing fails");
    let mut copy = Copy::new(&disk, &manifest);
    let (value, rounds) = (vec![7; PIECE_BYTES], 3);
    for round in 0..rounds {
        for partition in 0..PARTITIONS {
            let (key, value) = (&[round][..], Some(&value[..]));
            let entry = Entry { position: 0, synced: None, partition, leader_epoch: 0, more: false, key, value };
            copy.entry(&entry, 0).expect("nothing fails");
        }
    }
    copy.finish().expect("nothing fails");
    assert_eq!(disk.most_open_files(), OPEN_FILES_MAX);

    let mut replay = Replay::new(Arc::new(disk), &manifest.stream_folder(1), 1, []).expect("it opens");
    let mut keys = BTreeMap::<i32, Vec<u8>>::new();
    let mut take = |replayed: Replayed<'_>| {
        if let Replayed::Entry(entry) = replayed {
            assert_eq!(entry.value, Some(&value[..]));
            keys.entry(entry.partition).or_default().extend(entry.key);
        }
    };
    while replay.step(1_000, &mut take).expect("it replays") {}
    assert_eq!(keys.len(), PARTITIONS as usize);
    assert!(keys.values().all(|keys| keys[..] == [0, 1, 2]));
}

#[test]
fn failures_of_the_disk_are_reported_and_lose_nothing() {
    let (disk, content) = filled(2);
    for fault in [Fault::Full, Fault::Failing] {
        for step in 0.. {
            let failing = disk.killed();
            failing.fail_at(step, fault);
            if open(&failing, 3).is_ok() {
                break;
            }
            let layout = open(&failing, 3).unwrap_or_else(|error| panic!("{fault:?} at {step}: {error}"));
            assert_eq!(read(&layout), content, "{fault:?} at {step}");
        }
    }
}

#[test]
fn a_lost_manifest_is_not_taken_for_a_new_journal() {
    let (disk, _) = filled(2);
    disk.remove(super::super::manifest::FILE_NAME).expect("it is there");
    let error = open(&disk, 2).err().expect("refused");
    assert!(error.to_string().contains("MANIFEST is missing"), "{error}");
    assert!(matches!(error, OpenError::Misplaced { .. }));
}

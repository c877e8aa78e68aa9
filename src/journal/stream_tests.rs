//! A stream on a disk that fails: whatever happens, and whatever part of the unsynced writes survives, what was reported
//! durable is there afterwards, in order, whole appends only, and nothing else. What a former life has left is read while the
//! first partitions take appends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::JournalPosition;
use super::super::block::BLOCK_BYTES;
use super::super::disk::{self, Disk};
use super::super::entry::EntryWriter;
use super::super::failure::OpenError;
use super::super::job::Job;
use super::super::replay::{Replay, Replayed};
use super::super::store::{Durability, Entries, Store, StoreState, StoreWrite, WriteFailure};
use super::super::testing::{self, Fault, MemoryDisk};
use super::{Stream, StreamSettings};
use crate::clock::Now;

const STREAM: u32 = 4;
const PARTITIONS: i32 = 3;

type Records = Vec<(u8, Option<Vec<u8>>)>;
type State = BTreeMap<(i32, u8), Vec<u8>>;

struct Listed(Records);

impl Entries for Listed {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        for (key, value) in &self.0 {
            match value {
                Some(value) => entries.record(|bytes| bytes.push(*key), |bytes| bytes.extend_from_slice(value)),
                None => entries.tombstone(|bytes| bytes.push(*key)),
            }
        }
    }
}

/// One append as the owner remembers it.
#[derive(Clone, Debug)]
struct Append {
    partition: i32,
    records: Records,
    position: JournalPosition,
}

fn apply(state: &mut State, partition: i32, records: &Records) {
    for (key, value) in records {
        match value {
            Some(value) => state.insert((partition, *key), value.clone()),
            None => state.remove(&(partition, *key)),
        };
    }
}

/// A journal that is read.
struct Start {
    replay: Replay,
    state: State,
    loaded: BTreeSet<i32>,
}

impl Start {
    fn new(disk: &MemoryDisk) -> Result<Start, OpenError> {
        let replay = Replay::new(Arc::new(disk.clone()), "s", STREAM, 0..PARTITIONS)?;
        Ok(Start { replay, state: State::new(), loaded: BTreeSet::new() })
    }

    fn step(&mut self, budget: usize) -> Result<bool, OpenError> {
        let Start { replay, state, loaded } = self;
        let reads_on = replay.step(budget, &mut |replayed: Replayed<'_>| match replayed {
            Replayed::Entry(entry) => {
                assert!(!loaded.contains(&entry.partition), "partition {} was said to be loaded", entry.partition);
                let value = entry.value.map(<[u8]>::to_vec);
                apply(state, entry.partition, &vec![(entry.key[0], value)]);
            }
            Replayed::Loaded(partition) => assert!(loaded.insert(partition), "it was said before"),
        })?;
        let said: Vec<_> = (0..PARTITIONS).filter(|partition| replay.is_loaded(*partition)).collect();
        assert!(loaded.iter().eq(&said));
        if !reads_on {
            assert_eq!(loaded.len(), PARTITIONS as usize);
            let progress = replay.progress();
            assert_eq!(progress.bytes_done, progress.bytes_total);
        }
        Ok(reads_on)
    }
}

fn replay(disk: &MemoryDisk) -> Result<State, OpenError> {
    let mut start = Start::new(disk)?;
    while start.step(7)? {}
    Ok(start.state)
}

fn of_partition(state: &State, partition: i32) -> impl Iterator<Item = (&(i32, u8), &Vec<u8>)> {
    state.range((partition, 0)..=(partition, u8::MAX))
}

/// The owner of a stream: a core, its ring and its helper, all at a random pace.
struct Owner {
    random: SmallRng,
    disk: MemoryDisk,
    stream: Stream,
    /// Until all is read.
    start: Option<Start>,
    now: Now,
    appends: Vec<Append>,
    /// Appends that failed, and how many there were before them. A start may find the last of these until the journal is open again.
    failed: Vec<(usize, Vec<Append>)>,
    /// Of all appends that did not fail.
    state: State,
    /// Of what the journal had when it was opened.
    before: State,
    write: Option<StoreWrite>,
    jobs: Vec<Job>,
    /// Keys of the snapshot that is being taken that were not given yet.
    to_give: Option<(i32, Vec<u8>)>,
    snapshots: bool,
    has_long_appends: bool,
}

impl Owner {
    fn open(seed: u64, disk: MemoryDisk, settings: StreamSettings, snapshots: bool) -> Result<Owner, OpenError> {
        let state = replay(&disk)?;
        let mut start = Start::new(&disk)?;
        while !start.replay.is_checked() {
            start.step(5)?;
        }
        let stream = Stream::open(&start.replay, settings)?;
        Ok(Owner {
            random: SmallRng::seed_from_u64(seed),
            disk,
            stream,
            start: Some(start),
            now: Now::default(),
            appends: Vec::new(),
            failed: Vec::new(),
            before: state.clone(),
            state,
            write: None,
            jobs: Vec::new(),
            to_give: None,
            snapshots,
            has_long_appends: false,
        })
    }

    fn turn(&mut self) {
        self.now.monotonic_ms += self.random.random_range(0..200);
        self.read_on();
        match self.random.random_range(0..10) {
            0..4 => self.append(),
            4..7 => self.write(),
            7..9 => self.job(),
            _ => self.snapshot(),
        }
    }

    /// A partition that is said to be loaded has what it had; nobody else has read what was appended since.
    fn read_on(&mut self) {
        let Some(start) = &mut self.start else { return };
        if self.random.random_ratio(1, 3) {
            return;
        }
        let loaded_before = start.loaded.clone();
        let reads_on = start.step(self.random.random_range(1..6)).expect("it was read before");
        for partition in start.loaded.difference(&loaded_before) {
            assert!(of_partition(&start.state, *partition).eq(of_partition(&self.before, *partition)));
        }
        if !reads_on {
            self.stream.replayed(self.start.take().expect("it was read").replay);
        }
    }

    fn append(&mut self) {
        let partition = self.random.random_range(0..PARTITIONS);
        if self.start.as_ref().is_some_and(|start| !start.loaded.contains(&partition)) {
            return;
        }
        // A long one takes several segments.
        let count = if self.has_long_appends && self.random.random_ratio(1, 8) { 8..14 } else { 1..4 };
        let records: Records = (0..self.random.random_range(count.clone()))
            .map(|_| {
                // Of few lengths, so that what was cut off would fit into what comes after it.
                let length = [0, 20, 600, 600, 600, 3_000][self.random.random_range(0..6)];
                let length = if count.start > 1 { 3_000 } else { length };
                let value = (0..length).map(|_| self.random.random()).collect();
                (self.random.random_range(0..6), self.random.random_ratio(3, 4).then_some(value))
            })
            .collect();
        let Ok(position) = self.stream.append(partition, 1, &Listed(records.clone())) else {
            assert_ne!(self.stream.state(), StoreState::Open);
            return;
        };
        apply(&mut self.state, partition, &records);
        self.appends.push(Append { partition, records, position });
    }

    fn write(&mut self) {
        let write = self.write.take().or_else(|| self.stream.poll_write(self.now));
        self.undo_what_failed();
        let Some(write) = write else { return };
        if self.random.random_ratio(1, 3) {
            self.write = Some(write);
            return;
        }
        let written = self.disk.write(write.file, write.offset, &write.data).map_err(WriteFailure::Write);
        let synced = written
            .and_then(|()| if write.sync { self.disk.sync(write.file).map_err(WriteFailure::Sync) } else { Ok(()) });
        self.stream.written(write.token, synced, self.now);
        self.undo_what_failed();
    }

    fn undo_what_failed(&mut self) {
        let Some(failed) = self.stream.poll_failed() else { return };
        let kept = self.appends.partition_point(|append| append.position <= failed.after);
        let gone = self.appends.split_off(kept);
        assert!(gone.iter().all(|append| append.position <= failed.through));
        self.failed.push((kept, gone));
        self.state = self.before.clone();
        for append in &self.appends {
            apply(&mut self.state, append.partition, &append.records);
        }
    }

    fn job(&mut self) {
        self.jobs.extend(std::iter::from_fn(|| self.stream.poll_job(self.now)));
        if !self.jobs.is_empty() {
            let done = self.jobs.remove(0).run(&self.disk);
            self.stream.job_done(done, self.now);
        }
    }

    fn snapshot(&mut self) {
        if self.stream.snapshot_under_way().is_none() {
            self.to_give = None;
        }
        if let Some((partition, keys)) = &mut self.to_give {
            let given: Vec<_> = keys.drain(..keys.len().min(2)).collect();
            let value = |key: u8| Some((key, Some(self.state.get(&(*partition, key))?.clone())));
            self.stream.snapshot_records(&Listed(given.into_iter().filter_map(value).collect()));
            if keys.is_empty() {
                self.stream.complete_snapshot();
                self.to_give = None;
            }
        } else if let Some(partition) = self.stream.snapshot_due(self.now).filter(|_| self.snapshots) {
            assert!(self.start.is_none(), "no snapshot while the log is read");
            self.stream.begin_snapshot(partition, 1);
            let keys = self.state.keys().filter(|(of, _)| *of == partition).map(|(_, key)| *key).collect();
            self.to_give = Some((partition, keys));
        }
    }

    /// Whether what a start reads comes from the appends up to some point at or behind `at_least`. If anything may be lost, so may
    /// what cut off an append that failed.
    fn is_prefix(&self, found: &State, at_least: JournalPosition, cuts_may_be_lost: bool) -> bool {
        let needed = self.appends.partition_point(|append| append.position <= at_least);
        let is_open = self.stream.state() == StoreState::Open;
        let last = self.failed.last().filter(|_| !is_open);
        let failed = if cuts_may_be_lost { self.failed.iter().collect() } else { Vec::from_iter(last) };
        let whole = (self.appends.len(), Vec::new());
        failed.into_iter().chain([&whole]).any(|(kept, gone)| {
            let appends: Vec<&Append> = self.appends[..*kept].iter().chain(gone).collect();
            let mut state = self.before.clone();
            (0..=appends.len()).any(|count| {
                if let Some(append) = count.checked_sub(1).map(|last| appends[last]) {
                    apply(&mut state, append.partition, &append.records);
                }
                count >= needed && state == *found
            })
        })
    }
}

fn settings(mode: Durability) -> StreamSettings {
    let segment_bytes = 4 * BLOCK_BYTES as u64;
    let prepare_step_bytes = BLOCK_BYTES as u64;
    StreamSettings { mode, segment_bytes, prepare_step_bytes, snapshot_after_bytes: 2 * segment_bytes, room_bytes: 0 }
}

/// Lives of one journal, each ended by a failure of the power (if `power` can fail), the process or the disk.
fn lives(seed: u64, mode: Durability, power: bool, snapshots: bool) {
    lives_with(seed, mode, power, snapshots, false);
}

fn lives_with(seed: u64, mode: Durability, power: bool, snapshots: bool, has_long_appends: bool) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut disk = MemoryDisk::with_folder("s");
    for life in 0..6 {
        for _ in 0..random.random_range(0..4) {
            disk.fail_at(random.random_range(10..500), Fault::Full);
        }
        disk.fail_at(random.random_range(10..500), [Fault::PowerOff, Fault::Failing][random.random_range(0..2)]);
        let power_fails = power && random.random_ratio(2, 3);
        let mut after = |disk: &MemoryDisk| {
            if power_fails { disk.crash(&mut |n| random.random_range(0..n)) } else { disk.killed() }
        };
        let mut owner = match Owner::open(seed + life, disk.clone(), settings(mode), snapshots) {
            Ok(owner) => owner,
            Err(OpenError::Io { .. }) => {
                disk = after(&disk);
                continue;
            }
            Err(error) => panic!("seed {seed}, life {life}: {error}"),
        };
        owner.has_long_appends = has_long_appends;
        let turns = owner.random.random_range(100..600);
        for _ in 0..turns {
            owner.turn();
            if disk.is_off() {
                break;
            }
        }
        let promises_nothing = power_fails && mode != Durability::Fsync;
        let promised = if promises_nothing { JournalPosition::default() } else { owner.stream.durable() };
        let image = after(&disk);
        let found = replay(&image).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        assert!(
            owner.is_prefix(&found, promised, promises_nothing),
            "seed {seed}, life {life}: no prefix with all up to {promised:?} gives what is there"
        );
        disk = image;
    }
}

proptest! {
    #![proptest_config(testing::cases(12))]


    #[test]
    fn durable_survives_power_failures(seed in 0..u64::MAX / 2) {
        lives(seed, Durability::Fsync, true, true);
    }

    #[test]
    fn durable_survives_kills(seed in 0..u64::MAX / 2) {
        lives(seed, Durability::Fsync, false, true);
        lives(seed, Durability::Os, false, true);
    }

    #[test]
    fn an_append_of_several_segments_is_there_or_is_not(seed in 0..u64::MAX / 2) {
        lives_with(seed, Durability::Fsync, true, false, true);
        lives_with(seed, Durability::Fsync, false, true, true);
        lives_with(seed, Durability::Os, false, false, true);
    }

    #[test]
    fn without_sync_a_power_failure_leaves_a_prefix(seed in 0..u64::MAX / 2) {
        lives(seed, Durability::Os, true, false);
    }
}

/// A write that failed came back, because what had cut it off was lost; a segment had an older header than the next one follows;
/// of an append that a full disk had stopped only the last segments were left, the others being covered by snapshots.
#[test]
fn seeds_that_failed_once() {
    for seed in [2_913_188_557_609_481_432, 4_599_440_372_832_736_899] {
        lives(seed, Durability::Os, true, false);
    }
    lives_with(6_565_132_884_203_294_119, Durability::Fsync, false, true, true);
}

/// A stream that is opened, and what does its writes and jobs.
struct Simple {
    disk: MemoryDisk,
    stream: Stream,
}

impl Simple {
    fn open(disk: &MemoryDisk) -> (Simple, Start) {
        Simple::open_with(disk, settings(Durability::Fsync))
    }

    fn open_with(disk: &MemoryDisk, settings: StreamSettings) -> (Simple, Start) {
        let mut start = Start::new(disk).expect("it opens");
        while !start.replay.is_checked() {
            assert!(start.step(1).expect("it is whole"));
        }
        let stream = Stream::open(&start.replay, settings).expect("it opens");
        (Simple { disk: disk.clone(), stream }, start)
    }

    fn opened(disk: &MemoryDisk) -> Simple {
        let (mut simple, mut start) = Simple::open(disk);
        while start.step(100).expect("it is whole") {}
        simple.stream.replayed(start.replay);
        simple.settle();
        simple
    }

    fn append(&mut self, partition: i32, key: u8, value: &[u8]) {
        self.stream.append(partition, 1, &Listed(vec![(key, Some(value.to_vec()))])).expect("room");
        self.settle();
    }

    fn settle(&mut self) {
        let now = Now::default();
        loop {
            let job = self.stream.poll_job(now);
            let is_idle = job.is_none();
            if let Some(job) = job {
                self.stream.job_done(job.run(&self.disk), now);
            }
            let Some(write) = self.stream.poll_write(now) else {
                if is_idle {
                    return;
                }
                continue;
            };
            self.disk.write(write.file, write.offset, &write.data).expect("a write");
            self.disk.sync(write.file).expect("a sync");
            self.stream.written(write.token, Ok(()), now);
        }
    }

    /// A snapshot of a partition that has one key.
    fn snapshot(&mut self, partition: i32, key: u8, value: &[u8]) {
        self.stream.begin_snapshot(partition, 1);
        self.stream.snapshot_records(&Listed(vec![(key, Some(value.to_vec()))]));
        self.stream.complete_snapshot();
        self.settle();
    }
}

fn segments(disk: &MemoryDisk) -> usize {
    disk.paths().iter().filter(|path| path.contains("segment-")).count()
}

/// Partition 0 has a snapshot and nothing behind it, 1 a snapshot and a tail, 2 a tail alone.
fn filled() -> MemoryDisk {
    let disk = MemoryDisk::with_folder("s");
    let mut life = Simple::opened(&disk);
    life.append(1, 1, b"covered");
    life.append(0, 0, b"in a snapshot");
    life.snapshot(1, 1, b"covered");
    life.snapshot(0, 0, b"in a snapshot");
    for number in 0..12 {
        life.append(2, 2, &[number; 3_000]);
        life.append(1, 1, &[number; 600]);
    }
    life.append(2, 2, b"last");
    disk.killed()
}

#[test]
fn a_partition_without_a_tail_is_loaded_first_and_nothing_before_the_log_is_checked() {
    let disk = filled();
    let mut start = Start::new(&disk).expect("it opens");
    let (mut order, mut reads_on) = (Vec::new(), true);
    while reads_on {
        let before = start.loaded.clone();
        reads_on = start.step(1).expect("it is whole");
        order.extend(start.loaded.difference(&before).map(|partition| (*partition, start.replay.progress().entries)));
        assert!(start.replay.is_checked() || order.is_empty());
    }
    // Its one record; then the other snapshot and the log.
    let entries = start.replay.progress().entries;
    assert_eq!(order, [(0, 1), (1, entries - 1), (2, entries)]);
}

#[test]
fn what_is_appended_while_the_log_is_read_is_there_afterwards_and_holds_the_log() {
    let disk = filled();
    let (mut life, mut start) = Simple::open(&disk);
    let segments_before = segments(&disk);
    while !start.loaded.contains(&0) {
        assert!(start.step(1).expect("it is whole"));
    }
    // More than what is kept of the log, over some segments, between the steps.
    let mut number = 0;
    loop {
        number += 1;
        life.append(0, number, &[number; 2_000]);
        assert_eq!(life.stream.snapshot_due(Now::default()), None);
        assert_eq!(start.state.get(&(0, number)), None, "what was appended since is not read");
        if !start.step(1).expect("it is whole") {
            break;
        }
    }
    assert!(number > 24 && segments(&disk) > segments_before, "nothing goes before all is read");
    let mut expected = start.state.clone();
    expected.extend((1..=number).map(|number| ((0, number), vec![number; 2_000])));
    assert_eq!(replay(&disk.killed()).expect("a crash before the end"), expected);

    life.stream.replayed(start.replay);
    life.settle();
    assert_eq!(replay(&disk.killed()).expect("a crash after the end"), expected);
    // The oldest entries that are needed are those that the replay has found, not those that came meanwhile.
    let due = [life.stream.snapshot_due(Now::default()), None];
    assert_eq!(due[0], Some(2));
    life.snapshot(2, 2, b"last");
    let last_of_1 = expected[&(1, 1)].clone();
    assert_eq!(life.stream.snapshot_due(Now::default()), Some(1));
    life.snapshot(1, 1, &last_of_1);
    assert!(segments(&disk) < segments_before + number as usize / 8, "{} segments are left", segments(&disk));
    assert_eq!(replay(&disk.killed()).expect("without the log's begin"), expected);
}

#[test]
fn a_superseded_snapshot_goes_when_the_newer_one_was_read() {
    let disk = MemoryDisk::with_folder("s");
    let mut life = Simple::opened(&disk);
    life.append(0, 0, b"old");
    life.snapshot(0, 0, b"old");
    let name = disk.paths().into_iter().find(|path| path.contains("snapshot-")).expect("a snapshot");
    let old = disk::read(&disk, &name).expect("it reads");
    life.append(0, 0, b"new");
    life.snapshot(0, 0, b"new");
    disk.create(&name).and_then(|file| file.write_at(0, &old)).expect("it is there again");
    let (mut life, mut start) = Simple::open(&disk.killed());
    let is_there = |life: &Simple| life.disk.paths().contains(&name);
    while start.step(1).expect("it is whole") {
        life.settle();
        assert!(is_there(&life));
    }
    life.stream.replayed(start.replay);
    life.settle();
    assert!(!is_there(&life));
    assert_eq!(start.state[&(0, 0)], b"new");
}

/// A new stream with segments of 17 blocks.
fn with_long_segments() -> Simple {
    let segment_bytes = 17 * BLOCK_BYTES as u64;
    let long = StreamSettings { segment_bytes, ..settings(Durability::Fsync) };
    let (mut simple, mut start) = Simple::open_with(&MemoryDisk::with_folder("s"), long);
    while start.step(100).expect("it is whole") {}
    simple.stream.replayed(start.replay);
    simple
}

#[test]
fn the_next_segment_is_prepared_while_the_first_half_of_this_one_fills() {
    let block = BLOCK_BYTES as u64;
    let mut life = with_long_segments();
    let mut prepared_bytes = 0;
    for number in 1.. {
        life.append(0, 1, &[0; 1_000]);
        let used_bytes = life.stream.writer.used_bytes();
        assert!((number * 1_000..number * 1_100 + block).contains(&used_bytes), "{number}: {used_bytes}");
        let Some(preparing) = &life.stream.preparing else { break };
        assert!(preparing.done_bytes > prepared_bytes || preparing.done_bytes > 2 * used_bytes);
        prepared_bytes = preparing.done_bytes;
        assert!(
            (2 * used_bytes..=2 * used_bytes + block).contains(&prepared_bytes),
            "{prepared_bytes} for {used_bytes}"
        );
    }
    assert_eq!(life.stream.files.len(), 2);
    let used_blocks = life.stream.writer.used_bytes() / block;
    assert!((7..=8).contains(&used_blocks), "{used_blocks} of 17");
}

#[test]
fn all_of_the_next_segment_is_prepared_if_records_wait_for_it() {
    let mut life = with_long_segments();
    life.append(0, 1, b"first");
    assert_eq!(life.stream.files.len(), 1);
    let too_long_for_the_rest = vec![0; 16 * BLOCK_BYTES - 50];
    life.stream.append(0, 1, &Listed(vec![(0, Some(too_long_for_the_rest))])).expect("room");
    assert!(life.stream.poll_write(Now::default()).is_none(), "it waits");
    life.settle();
    assert_eq!(life.stream.durable(), life.stream.appended());
}

#[test]
fn a_start_prepares_no_segment_while_it_reads_unless_something_was_appended() {
    let disk = filled();
    let prepared = disk.paths().into_iter().filter(|path| path.contains("segment-")).max().expect("a segment");
    disk.remove(&prepared).expect("it is there");
    for appends in [false, true] {
        let (mut life, mut start) = Simple::open(&disk.killed());
        let segments_before = segments(&life.disk);
        while !start.loaded.contains(&0) {
            assert!(start.step(1).expect("it is whole"));
        }
        life.settle();
        assert_eq!(segments(&life.disk), segments_before);
        if appends {
            life.append(0, 9, b"new");
        } else {
            while start.step(100).expect("it is whole") {}
            life.stream.replayed(start.replay);
            life.settle();
        }
        assert_eq!(segments(&life.disk), segments_before + 1);
    }
}

#[path = "stream_faults_tests.rs"]
mod faults;

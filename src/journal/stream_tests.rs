//! A stream on a disk that fails: whatever happens, and whatever part of the unsynced writes survives, what was reported
//! durable is there afterwards, in order, whole appends only, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::JournalPosition;
use super::super::block::BLOCK_BYTES;
use super::super::disk::Disk;
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

fn replay(disk: &MemoryDisk) -> Result<(Replay, State), OpenError> {
    let mut replay = Replay::new(Arc::new(disk.clone()), "s", STREAM, 0..PARTITIONS)?;
    let (mut state, mut loaded) = (State::new(), Vec::new());
    let mut take = |replayed: Replayed<'_>| match replayed {
        Replayed::Entry(entry) => {
            assert!(!loaded.contains(&entry.partition), "partition {} was said to be loaded", entry.partition);
            let value = entry.value.map(<[u8]>::to_vec);
            apply(&mut state, entry.partition, &vec![(entry.key[0], value)]);
        }
        Replayed::Loaded(partition) => loaded.push(partition),
    };
    while replay.step(7, &mut take)? {}
    loaded.sort_unstable();
    assert_eq!(loaded, (0..PARTITIONS).collect::<Vec<_>>());
    let progress = replay.progress();
    assert_eq!(progress.bytes_done, progress.bytes_total);
    Ok((replay, state))
}

/// The owner of a stream: a core, its ring and its helper, all at a random pace.
struct Owner {
    random: SmallRng,
    disk: MemoryDisk,
    stream: Stream,
    now: Now,
    appends: Vec<Append>,
    /// Appends that failed last; a start may find them until the journal is open again.
    failed: Vec<Append>,
    /// Of all appends that did not fail.
    state: State,
    /// Of what the journal had when it was opened.
    before: State,
    write: Option<StoreWrite>,
    jobs: Vec<Job>,
    /// Keys of the snapshot that is being taken that were not given yet.
    to_give: Option<(i32, Vec<u8>)>,
    snapshots: bool,
}

impl Owner {
    fn open(seed: u64, disk: MemoryDisk, settings: StreamSettings, snapshots: bool) -> Result<Owner, OpenError> {
        let (replay, state) = replay(&disk)?;
        let stream = Stream::open(replay, settings)?;
        Ok(Owner {
            random: SmallRng::seed_from_u64(seed),
            disk,
            stream,
            now: Now::default(),
            appends: Vec::new(),
            failed: Vec::new(),
            before: state.clone(),
            state,
            write: None,
            jobs: Vec::new(),
            to_give: None,
            snapshots,
        })
    }

    fn turn(&mut self) {
        self.now.monotonic_ms += self.random.random_range(0..200);
        match self.random.random_range(0..10) {
            0..4 => self.append(),
            4..7 => self.write(),
            7..9 => self.job(),
            _ => self.snapshot(),
        }
    }

    fn append(&mut self) {
        let partition = self.random.random_range(0..PARTITIONS);
        let records: Records = (0..self.random.random_range(1..4))
            .map(|_| {
                // Of few lengths, so that what was cut off would fit into what comes after it.
                let length = [0, 20, 600, 600, 600, 3_000][self.random.random_range(0..6)];
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
        self.failed = self.appends.split_off(kept);
        assert!(self.failed.iter().all(|append| append.position <= failed.through));
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
            self.stream.begin_snapshot(partition, 1);
            let keys = self.state.keys().filter(|(of, _)| *of == partition).map(|(_, key)| *key).collect();
            self.to_give = Some((partition, keys));
        }
    }

    /// How many of the appends are there, given what a start reads.
    fn survived(&self, found: &State, at_least: JournalPosition) -> Option<usize> {
        let mut state = self.before.clone();
        let needed = self.appends.partition_point(|append| append.position <= at_least);
        let failed = if self.stream.state() == StoreState::Open { &[][..] } else { &self.failed };
        for (count, append) in self.appends.iter().chain(failed).enumerate() {
            if count >= needed && state == *found {
                return Some(count);
            }
            apply(&mut state, append.partition, &append.records);
        }
        (state == *found).then_some(self.appends.len() + failed.len())
    }
}

fn settings(mode: Durability) -> StreamSettings {
    let segment_bytes = 4 * BLOCK_BYTES as u64;
    StreamSettings { mode, segment_bytes, snapshot_after_bytes: 2 * segment_bytes, room_bytes: 0 }
}

fn fresh() -> MemoryDisk {
    let disk = MemoryDisk::default();
    disk.create_folder("s").and_then(|()| disk.sync_folder("")).expect("a folder");
    disk
}

/// Lives of one journal, each ended by a failure of the power (if `power` can fail), the process or the disk.
fn lives(seed: u64, mode: Durability, power: bool, snapshots: bool) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut disk = fresh();
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
        let turns = owner.random.random_range(100..600);
        for _ in 0..turns {
            owner.turn();
            if disk.is_off() {
                break;
            }
        }
        let promised =
            if power_fails && mode != Durability::Fsync { JournalPosition::default() } else { owner.stream.durable() };
        let image = after(&disk);
        let (_, found) = replay(&image).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        let survived = owner.survived(&found, promised);
        assert!(
            survived.is_some(),
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
    fn without_sync_a_power_failure_leaves_a_prefix(seed in 0..u64::MAX / 2) {
        lives(seed, Durability::Os, true, false);
    }
}

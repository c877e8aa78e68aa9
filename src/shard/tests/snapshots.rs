//! Snapshots under load, on a disk that fails: groups change while they are taken, the power goes off at any step, and what was
//! acknowledged is there at the next start. And the log stays bounded, however long it goes on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::config::DeclaredTopic;
use crate::ids::InternalTopicKind;
use crate::journal::block::BLOCK_BYTES;
use crate::journal::disk::{Disk, join};
use crate::journal::failure::OpenError;
use crate::journal::job::Job;
use crate::journal::replay::Replay;
use crate::journal::store::Durability;
use crate::journal::stream::StreamSettings;
use crate::journal::testing::{Fault, MemoryDisk};
use crate::wire::Array;
use crate::wire::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use crate::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};

const SEGMENT_BYTES: u64 = 4 * BLOCK_BYTES as u64;
const SETTINGS: StreamSettings = StreamSettings {
    mode: Durability::Fsync,
    segment_bytes: SEGMENT_BYTES,
    prepare_step_bytes: BLOCK_BYTES as u64,
    snapshot_after_bytes: 2 * SEGMENT_BYTES,
    room_bytes: 0,
};
const GROUPS: u32 = 12;
const PARTITIONS: i32 = 6;

/// A group's offset of a partition of the topic; `None`: deleted.
type Values = BTreeMap<(u32, i32), Vec<Value>>;

#[derive(Clone, Debug)]
struct Value {
    offset: Option<i64>,
    position: JournalPosition,
    is_acknowledged: bool,
}

/// A core from a start to its end.
struct Life {
    world: World,
    disk: MemoryDisk,
    jobs: Rc<RefCell<VecDeque<Job>>>,
    random: SmallRng,
    values: Values,
    failures: usize,
}

impl Life {
    fn begin(seed: u64, disk: &MemoryDisk) -> Result<Life, OpenError> {
        let jobs = Rc::new(RefCell::new(VecDeque::new()));
        let replay = Replay::new(Arc::new(disk.clone()), "s", 1, [])?;
        let submitted = jobs.clone();
        let run_job = Box::new(move |job| submitted.borrow_mut().push_back(job));
        let mut journal = Some((Journal::load(replay, SETTINGS, 8), run_job as RunJob));
        let topics = vec![DeclaredTopic { name: "t".into(), partitions: Some(PARTITIONS) }];
        let settings = Settings { topics, ..Settings::default() };
        let world = World::with_journals(1, settings, &[], &mut |_| journal.take().expect("one core"));
        let random = SmallRng::seed_from_u64(seed);
        Ok(Life { world, disk: disk.clone(), jobs, random, values: Values::new(), failures: 0 })
    }

    /// Until all is loaded and there is a topic for the offsets.
    fn start(&mut self) -> std::io::Result<()> {
        self.world.shards[0].control.create_internal(InternalTopicKind::Offsets);
        while self.world.shards[0].is_loading() || self.world.shards[0].views.table(&pin()).offsets.is_none() {
            self.turn()?;
        }
        for group in 0..GROUPS {
            for partition in 0..PARTITIONS {
                let offset = self.offset(group, partition);
                let position = JournalPosition::default();
                self.values.insert((group, partition), vec![Value { offset, position, is_acknowledged: true }]);
            }
        }
        Ok(())
    }

    fn offset(&self, group: u32, partition: i32) -> Option<i64> {
        let offsets = self.world.shards[0].groups.offsets(&format!("g-{group}"))?;
        offsets.get("t", None, partition).map(|found| found.offset)
    }

    /// A turn of the core; its disk and its helper go at their own pace.
    fn turn(&mut self) -> std::io::Result<()> {
        self.world.now = self.world.now.after(Duration::from_millis(1));
        let (shard, network) = (&mut self.world.shards[0], &mut self.world.networks[0]);
        shard.begin(self.world.now);
        shard.turn(self.world.now, network)?;
        for token in std::mem::take(&mut network.writes) {
            shard.written(token, Ok(()));
        }
        if self.random.random_ratio(2, 3)
            && let Some(write) = network.journal.pop_front()
        {
            let written = self.disk.write(write.file, write.offset, &write.data).map_err(WriteFailure::Write);
            let sync = || self.disk.sync(write.file).map_err(WriteFailure::Sync);
            shard.written(write.token, written.and_then(|()| sync()));
        }
        let job = self.jobs.borrow_mut().pop_front();
        if let Some(job) = job {
            shard.mailboxes.send(0, Mail::JobDone(job.run(&self.disk)));
        }
        self.learn();
        Ok(())
    }

    /// What was told of the writes so far.
    fn learn(&mut self) {
        let network = &mut self.world.networks[0];
        let (durable, failed) = (network.durable, std::mem::take(&mut network.failed));
        self.failures += failed.len();
        for value in self.values.values_mut().flatten() {
            if failed.iter().any(|(after, through)| (*after..=*through).contains(&value.position)) {
                value.position = JournalPosition(u64::MAX);
            }
            value.is_acknowledged |= value.position <= durable;
        }
    }

    fn commit(&mut self) {
        let group = self.random.random_range(0..GROUPS);
        let offset = self.random.random_range(1..1 << 40);
        let some = self.random.random_range(1..=PARTITIONS);
        let rows: Vec<_> = (0..some)
            .map(|partition_index| OffsetCommitRequestPartition {
                partition_index,
                committed_offset: offset + i64::from(partition_index),
                ..Default::default()
            })
            .collect();
        let topics =
            [OffsetCommitRequestTopic { name: "t".into(), partitions: Array::Items(&rows), ..Default::default() }];
        let group_id = format!("g-{group}").into();
        let request = OffsetCommitRequest { group_id, topics: Array::Items(&topics), ..Default::default() };
        let (_, verdict, answer) = self.world.send(0, ApiKey::OffsetCommit, 8, &request);
        let answer = answer.expect("an answer");
        let response: OffsetCommitResponse<'_> = read(&answer, ApiKey::OffsetCommit, 8);
        let row = response.topics.iter().next().and_then(|topic| topic.partitions.iter().next()).expect("a row");
        let Some(position) = self.position(verdict, row.error_code) else { return };
        for row in rows {
            self.note(group, row.partition_index, Some(row.committed_offset), position);
        }
    }

    fn delete(&mut self) {
        let group = self.random.random_range(0..GROUPS);
        let request = DeleteGroupsRequest { groups_names: Array::Items(&[format!("g-{group}").into()]) };
        let (_, verdict, answer) = self.world.send(0, ApiKey::DeleteGroups, 2, &request);
        let answer = answer.expect("an answer");
        let response: DeleteGroupsResponse<'_> = read(&answer, ApiKey::DeleteGroups, 2);
        let row = response.results.iter().next().expect("a row");
        let Some(position) = self.position(verdict, row.error_code) else { return };
        for partition in 0..PARTITIONS {
            self.note(group, partition, None, position);
        }
    }

    fn position(&self, verdict: Verdict, error_code: i16) -> Option<JournalPosition> {
        match verdict {
            Verdict::Durable(position) => (error_code == 0).then_some(position),
            Verdict::Answered => {
                assert_ne!(error_code, 0, "what is promised at once is not durable");
                None
            }
            other => panic!("{other:?}"),
        }
    }

    fn note(&mut self, group: u32, partition: i32, offset: Option<i64>, position: JournalPosition) {
        let values = self.values.entry((group, partition)).or_default();
        if let Some(last) = values.iter().rposition(|value| value.is_acknowledged) {
            values.drain(..last);
        }
        values.push(Value { offset, position, is_acknowledged: false });
    }

    /// Some load, until the power is off.
    fn live(&mut self, turns: usize) -> std::io::Result<()> {
        for _ in 0..turns {
            for _ in 0..self.random.random_range(0..6) {
                if self.random.random_ratio(1, 40) { self.delete() } else { self.commit() }
            }
            self.turn()?;
            if self.disk.is_off() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// What is there now is what was acknowledged last, or what came later.
    fn assert_has(&self, before: &Values, what: &str) {
        for ((group, partition), values) in before {
            let found = self.offset(*group, *partition);
            let last = values.iter().rposition(|value| value.is_acknowledged).expect("the first one is");
            let is_there = values[last..].iter().any(|value| value.offset == found);
            assert!(is_there, "{what}: group {group}, partition {partition}: {found:?} of {:?}", &values[last..]);
        }
    }
}

fn files(disk: &MemoryDisk, prefix: &str) -> Vec<u64> {
    let names = disk.list("s").expect("a folder");
    let length = |name: &String| disk.open(&join("s", name)).and_then(|file| file.length()).expect("a file");
    names.iter().filter(|name| name.starts_with(prefix)).map(length).collect()
}

#[test]
fn the_log_stays_bounded_however_much_is_committed() {
    let disk = MemoryDisk::with_folder("s");
    let mut life = Life::begin(1, &disk).expect("an empty journal");
    life.start().expect("a start");
    let mut most_bytes = 0;
    for round in 0..60 {
        life.live(100).expect("nothing fails");
        if round > 5 {
            most_bytes = most_bytes.max(files(&disk, "").iter().sum::<u64>());
        }
    }
    assert!(life.world.networks[0].durable.0 > 40 * SEGMENT_BYTES, "{:?}", life.world.networks[0].durable);
    assert!(!files(&disk, "snapshot-").is_empty());
    assert!(most_bytes < 12 * SEGMENT_BYTES, "{most_bytes} bytes");
    let values = life.values.clone();
    let mut next = Life::begin(2, &disk.killed()).expect("a journal");
    next.start().expect("a start");
    next.assert_has(&values, "after a kill");
}

#[test]
fn a_failure_of_the_power_at_any_step_loses_nothing_that_was_acknowledged() {
    let (mut snapshots, mut failures) = (0, 0);
    for seed in 0..8u64 {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut disk = MemoryDisk::with_folder("s");
        let mut values = Values::new();
        for number in 0..8 {
            let what = format!("seed {seed}, life {number}");
            if random.random_ratio(1, 2) {
                disk.fail_at(random.random_range(50..1_500), Fault::Full);
            }
            disk.fail_at(random.random_range(20..1_500), Fault::PowerOff);
            let mut life = match Life::begin(seed << 8 | number, &disk) {
                Ok(life) => life,
                Err(OpenError::Io { .. }) => {
                    disk = disk.crash(&mut |n| random.random_range(0..n));
                    continue;
                }
                Err(error) => panic!("{what}: {error}"),
            };
            if life.start().is_ok() {
                life.assert_has(&values, &what);
                life.live(1_500).unwrap_or_else(|error| panic!("{what}: {error}"));
                values = std::mem::take(&mut life.values);
            }
            snapshots += files(&disk, "snapshot-").len();
            failures += life.failures;
            disk = disk.crash(&mut |n| random.random_range(0..n));
        }
    }
    assert!(snapshots > 60 && failures > 3, "{snapshots} snapshots, {failures} failed writes");
}

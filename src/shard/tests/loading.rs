//! A start: what of it is served while the rest is still read.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::config::DeclaredTopic;
use crate::group::settings::GroupSettings;
use crate::ids::InternalTopicKind;
use crate::journal::job::Job;
use crate::journal::replay::Replay;
use crate::journal::stream::StreamSettings;
use crate::journal::testing::MemoryDisk;
use crate::wire::Array;
use crate::wire::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::wire::delete_topics::DeleteTopicsRequest;
use crate::wire::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use crate::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use crate::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use crate::wire::list_groups::{ListGroupsRequest, ListGroupsResponse};
use crate::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use crate::wire::sync_group::{SyncGroupRequest, SyncGroupResponse};

/// The last entry of its partition is among the first of the log.
const EARLY: &str = "early";
/// The last entry of the log is of its partition.
const LATE: &str = "late";

/// A core from a start to its end; each turn reads one entry.
pub(super) struct Life {
    pub(super) world: World,
    disk: MemoryDisk,
    jobs: Rc<RefCell<VecDeque<Job>>>,
}

impl Life {
    pub(super) fn begin(disk: &MemoryDisk) -> Life {
        let jobs = Rc::new(RefCell::new(VecDeque::new()));
        let replay = Replay::new(Arc::new(disk.clone()), "s", 1, 0..50).expect("a journal");
        let submitted = jobs.clone();
        let run_job = Box::new(move |job| submitted.borrow_mut().push_back(job));
        let mut journal = Some((Journal::load(replay, StreamSettings::default(), 1), run_job as RunJob));
        let topic = |name: &str| DeclaredTopic { name: name.into(), partitions: Some(1) };
        let group = GroupSettings { initial_rebalance_delay_ms: 0, ..GroupSettings::default() };
        let settings = Settings { topics: vec![topic("t"), topic("gone")], group, ..Settings::default() };
        let mut world = World::with_journals(1, settings, &[], &mut |_| journal.take().expect("one core"));
        world.networks[0].is_late = true;
        // Each life has its own ids.
        let ids = Box::new(Counter(u128::from(disk.paths().len() as u64 + 1) << 64));
        let shard = &mut world.shards[0];
        shard.groups = Groups::new(shard.settings.group.clone(), shard.settings.offsets.clone(), ids, world.now);
        shard.control.create_internal(InternalTopicKind::Offsets);
        let mut life = Life { world, disk: disk.clone(), jobs };
        life.turn_until(|shard| shard.views.table(&pin()).offsets.is_some());
        life
    }

    pub(super) fn turn(&mut self) {
        let (shard, network) = (&mut self.world.shards[0], &mut self.world.networks[0]);
        shard.begin(self.world.now);
        shard.turn(self.world.now, network).expect("nothing fails");
        std::mem::take(&mut network.writes).into_iter().for_each(|token| shard.written(token, Ok(())));
        while let Some(write) = network.journal.pop_front() {
            self.disk.write(write.file, write.offset, &write.data).expect("a write");
            self.disk.sync(write.file).expect("a sync");
            shard.written(write.token, Ok(()));
        }
        while let Some(job) = self.jobs.borrow_mut().pop_front() {
            shard.mailboxes.send(0, Mail::JobDone(job.run(&self.disk)));
        }
    }

    fn turn_until(&mut self, is_done: impl Fn(&Shard) -> bool) {
        while !is_done(&self.world.shards[0]) {
            self.turn();
        }
    }

    pub(super) fn load_all(&mut self) {
        self.turn_until(|shard| !shard.is_loading());
    }

    /// Until one partition is there, and the other is not.
    fn load_early(&mut self) {
        let partition = |shard: &Shard, group_id: &str| {
            shard.views.table(&pin()).offsets.as_ref().expect("they are there").partition_of(group_id)
        };
        self.turn_until(|shard| shard.check_loaded(partition(shard, EARLY)).is_ok());
        let shard = &self.world.shards[0];
        assert_eq!(shard.check_loaded(partition(shard, LATE)), Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    }

    /// An answer that is there at once.
    fn say<'a>(&mut self, api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
        self.world.shards[0].pin();
        self.world.send(0, api, version, request).2.expect("an answer")
    }

    pub(super) fn commit(&mut self, group_id: &str, topic: &str, offset: i64) -> i16 {
        let rows = [OffsetCommitRequestPartition { committed_offset: offset, ..Default::default() }];
        let partitions = Array::Items(&rows[..]);
        let topics = [OffsetCommitRequestTopic { name: topic.into(), partitions, ..Default::default() }];
        let topics = Array::Items(&topics[..]);
        let request = OffsetCommitRequest { group_id: group_id.into(), topics, ..Default::default() };
        let answer = self.say(ApiKey::OffsetCommit, 7, &request);
        let response: OffsetCommitResponse<'_> = read(&answer, ApiKey::OffsetCommit, 7);
        response.topics.iter().next().and_then(|topic| topic.partitions.iter().next()).expect("a row").error_code
    }

    pub(super) fn join(&mut self, group_id: &str, member_id: &str) -> Option<ConnectionId> {
        let protocols = [JoinGroupRequestProtocol { name: "range".into(), metadata: b"" }];
        let request = JoinGroupRequest {
            group_id: group_id.into(),
            member_id: member_id.into(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer".into(),
            protocols: Array::Items(&protocols),
            ..Default::default()
        };
        self.world.shards[0].pin();
        let (connection, verdict, _) = self.world.send(0, ApiKey::JoinGroup, 3, &request);
        matches!(verdict, Verdict::Parked).then_some(connection)
    }

    /// Member id and generation.
    pub(super) fn joined(&mut self, connection: ConnectionId) -> (String, i32) {
        self.turn();
        self.turn();
        let answer = self.world.parked_answer(0, connection, ApiKey::JoinGroup, 3).expect("an answer");
        let joined: JoinGroupResponse<'_> = read(&answer, ApiKey::JoinGroup, 3);
        assert_eq!(joined.error_code, 0);
        (joined.member_id.to_string(), joined.generation_id)
    }

    /// The answer may come at once or not.
    pub(super) fn sync(&mut self, group_id: &str, member_id: &str, generation_id: i32) -> i16 {
        let (group_id, member_id) = (group_id.into(), member_id.into());
        let request = SyncGroupRequest { group_id, member_id, generation_id, ..Default::default() };
        self.world.shards[0].pin();
        let (connection, _, answer) = self.world.send(0, ApiKey::SyncGroup, 2, &request);
        (0..3).for_each(|_| self.turn());
        let answer = answer.or_else(|| self.world.parked_answer(0, connection, ApiKey::SyncGroup, 2));
        read::<SyncGroupResponse<'_>>(&answer.expect("an answer"), ApiKey::SyncGroup, 2).error_code
    }

    pub(super) fn heartbeat(&mut self, group_id: &str, member_id: &str, generation_id: i32) -> i16 {
        let (group_id, member_id) = (group_id.into(), member_id.into());
        let request = HeartbeatRequest { group_id, member_id, generation_id, ..Default::default() };
        let answer = self.say(ApiKey::Heartbeat, 3, &request);
        read::<HeartbeatResponse>(&answer, ApiKey::Heartbeat, 3).error_code
    }

    fn delete_topic(&mut self, name: &str) {
        let topic_names = [name.into()];
        let topic_names = Array::Items(&topic_names[..]);
        let request = DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..Default::default() };
        self.world.send(0, ApiKey::DeleteTopics, 5, &request);
        (0..3).for_each(|_| self.turn());
        assert!(self.world.shards[0].views.catalogue(&pin()).by_name(name).is_none());
    }

    fn create_topic(&mut self, name: &str) {
        let topic =
            CreatableTopic { name: name.into(), num_partitions: 1, replication_factor: 1, ..Default::default() };
        let topics = [topic];
        let request = CreateTopicsRequest { topics: Array::Items(&topics), ..Default::default() };
        self.world.send(0, ApiKey::CreateTopics, 7, &request);
        (0..3).for_each(|_| self.turn());
        assert!(self.world.shards[0].views.catalogue(&pin()).by_name(name).is_some());
    }

    fn described(&mut self) -> Vec<i16> {
        let groups = [EARLY.into(), LATE.into()];
        let request = DescribeGroupsRequest { groups: Array::Items(&groups), ..Default::default() };
        let answer = self.say(ApiKey::DescribeGroups, 2, &request);
        let response: DescribeGroupsResponse<'_> = read(&answer, ApiKey::DescribeGroups, 2);
        response.groups.iter().map(|group| group.error_code).collect()
    }

    fn listed(&mut self) -> (i16, usize) {
        let answer = self.say(ApiKey::ListGroups, 2, &ListGroupsRequest::default());
        let response: ListGroupsResponse<'_> = read(&answer, ApiKey::ListGroups, 2);
        (response.error_code, response.groups.len())
    }

    fn offset(&self, group_id: &str, topic: &str) -> Option<i64> {
        let offsets = self.world.shards[0].groups.offsets(group_id)?;
        offsets.get(topic, None, 0).map(|found| found.offset)
    }
}

/// What a former run has left: a member of the early group, offsets of both. The end of the log is of the late one.
fn filled() -> (MemoryDisk, String) {
    let disk = MemoryDisk::with_folder("s");
    let mut life = Life::begin(&disk);
    life.load_all();
    let ticket = life.join(EARLY, "").expect("it waits");
    let (member_id, generation_id) = life.joined(ticket);
    assert_eq!((generation_id, life.sync(EARLY, &member_id, 1)), (1, 0));
    for offset in 0..200 {
        let group_id = if offset < 5 { "early-simple" } else { LATE };
        assert_eq!([life.commit(group_id, "t", offset), life.commit(group_id, "gone", offset)], [0; 2]);
    }
    (0..3).for_each(|_| life.turn());
    (disk.killed(), member_id)
}

#[test]
fn an_open_partition_is_served_while_another_one_is_loading() {
    let (disk, member_id) = filled();
    let mut life = Life::begin(&disk);
    assert_eq!((life.commit(EARLY, "t", 1), life.heartbeat(EARLY, &member_id, 7)), (14, 0), "the log is checked first");
    life.load_early();
    assert_eq!((life.commit(LATE, "t", 1), life.heartbeat(LATE, "m", 7), life.sync(LATE, "m", 7)), (14, 0, 27));
    assert_eq!((life.join(LATE, ""), life.described(), life.listed()), (None, vec![0, 14], (14, 0)));
    assert_eq!((life.heartbeat(EARLY, &member_id, 1), life.heartbeat(EARLY, &member_id, 7)), (0, 22));

    let second = life.join(EARLY, "").expect("it waits for the first");
    assert_eq!(life.heartbeat(EARLY, &member_id, 1), 27);
    let first = life.join(EARLY, &member_id).expect("it waits for the answers");
    assert_eq!(life.joined(first), (member_id.clone(), 2));
    let (second_id, generation_id) = life.joined(second);
    assert_eq!((generation_id, life.sync(EARLY, &member_id, 2), life.sync(EARLY, &second_id, 2)), (2, 0, 0));
    assert_eq!(life.commit("early-simple", "t", 1_000), 0);
    (0..2).for_each(|_| life.turn());
    let shard = &life.world.shards[0];
    assert!(shard.is_loading() && life.world.networks[0].durable == shard.journal.store().expect("open").appended());

    // Whether the process ends before or after the rest was read: all of it is there.
    let killed = disk.killed();
    life.load_all();
    for mut life in [life, Life::begin(&killed)] {
        life.load_all();
        assert_eq!([life.heartbeat(EARLY, &member_id, 2), life.heartbeat(EARLY, &second_id, 2)], [0; 2]);
        let offsets = ["early-simple", LATE].map(|group_id| life.offset(group_id, "t"));
        assert_eq!((offsets, life.listed(), life.described()), ([Some(1_000), Some(199)], (0, 3), vec![0; 2]));
    }
}

#[test]
fn sessions_of_a_partition_begin_when_it_opens() {
    let (disk, member_id) = filled();
    let mut life = Life::begin(&disk);
    life.world.now = life.world.now.after(Duration::from_secs(60));
    life.load_early();
    life.world.now = life.world.now.after(Duration::from_millis(29_999));
    life.turn();
    assert_eq!(life.world.shards[0].groups.census().members, 1);
    life.world.now = life.world.now.after(Duration::from_millis(1));
    life.turn();
    assert!(life.world.shards[0].is_loading());
    assert_eq!((life.world.shards[0].groups.census().members, life.heartbeat(EARLY, &member_id, 1)), (0, 25));
}

#[test]
fn a_topic_that_is_deleted_meanwhile_goes_from_all_groups() {
    let (disk, _) = filled();
    for goes_early in [true, false] {
        let disk = disk.killed();
        let mut life = Life::begin(&disk);
        if !goes_early {
            life.load_early();
            assert_eq!(life.commit(EARLY, "gone", 5), 25, "it has a member");
            assert_eq!(life.commit("another-early", "gone", 5), 0);
        }
        life.delete_topic("gone");
        assert!(life.world.shards[0].is_loading());
        if !goes_early {
            assert_eq!(life.offset("another-early", "gone"), None);
            life.create_topic("gone");
            assert_eq!(life.commit("another-early", "gone", 6), 0);
            assert!(life.world.shards[0].is_loading());
        }
        life.load_all();
        (0..3).for_each(|_| life.turn());
        let mut next = Life::begin(&disk.killed());
        next.load_all();
        for life in [life, next] {
            let offsets =
                ["early-simple", LATE].map(|group_id| [life.offset(group_id, "t"), life.offset(group_id, "gone")]);
            assert_eq!(offsets, [[Some(4), None], [Some(199), None]]);
            assert_eq!(life.offset("another-early", "gone"), (!goes_early).then_some(6));
        }
    }
}

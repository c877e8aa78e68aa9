//! Which replies wait for the journal, with a store that is durable when the test says so.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::*;
use crate::clock::Now;
use crate::group::settings::GroupSettings;
use crate::journal::store::{
    Change, Durability, FailedPositions, Refused, Store, StoreState, StoreWrite, WriteFailure,
};
use crate::shard::journal::APPENDED_PER_TURN_MAX;
use crate::wire::Array;
use crate::wire::delete_groups::DeleteGroupsRequest;
use crate::wire::describe_groups::DescribeGroupsRequest;
use crate::wire::find_coordinator::FindCoordinatorRequest;
use crate::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use crate::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use crate::wire::leave_group::LeaveGroupRequest;
use crate::wire::list_groups::ListGroupsRequest;
use crate::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use crate::wire::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use crate::wire::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchResponse,
};
use crate::wire::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

/// Takes everything, unless the test says otherwise; durable is what the test has made so.
struct SlowStore {
    appended: JournalPosition,
    durable: Rc<Cell<JournalPosition>>,
    refuses: Rc<Cell<Option<Refused>>>,
    /// How many changes each append had.
    appends: Rc<RefCell<Vec<usize>>>,
    /// How much longer each append makes the log.
    append_bytes: Rc<Cell<u64>>,
    /// How often it was asked what to write.
    polls: Rc<Cell<usize>>,
    /// Said once.
    failed: Rc<Cell<Option<FailedPositions>>>,
    /// Becomes `failed` when it is asked what to write.
    fails_to_write: Rc<Cell<Option<FailedPositions>>>,
}

impl Store for SlowStore {
    fn append_all(&mut self, changes: &[Change<'_>]) -> Result<JournalPosition, Refused> {
        self.appends.borrow_mut().push(changes.len());
        if let Some(refused) = self.refuses.get() {
            return Err(refused);
        }
        self.appended.0 += self.append_bytes.get();
        Ok(self.appended)
    }

    fn durable(&self) -> JournalPosition {
        self.durable.get()
    }

    fn appended(&self) -> JournalPosition {
        self.appended
    }

    fn poll_failed(&mut self) -> Option<FailedPositions> {
        self.failed.take()
    }

    fn mode(&self) -> Durability {
        Durability::Fsync
    }

    fn state(&self) -> StoreState {
        StoreState::Open
    }

    fn poll_write(&mut self, _: Now) -> Option<StoreWrite> {
        self.polls.update(|polls| polls + 1);
        if let Some(failed) = self.fails_to_write.take() {
            self.failed.set(Some(failed));
        }
        None
    }

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>, _: Now) {}

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

fn fetch_all(world: &mut World) -> Verdict {
    let groups = [OffsetFetchRequestGroup { group_id: "g".into(), topics: None, ..Default::default() }];
    let request = OffsetFetchRequest { groups: Array::Items(&groups), ..Default::default() };
    world.send(0, ApiKey::OffsetFetch, 9, &request).1
}

fn delete_offset(world: &mut World) -> Verdict {
    let partitions = [OffsetDeleteRequestPartition { partition_index: 0 }];
    let topics = [OffsetDeleteRequestTopic { name: "t".into(), partitions: Array::Items(&partitions) }];
    let request = OffsetDeleteRequest { group_id: "g".into(), topics: Array::Items(&topics) };
    world.send(0, ApiKey::OffsetDelete, 0, &request).1
}

fn commit(world: &mut World) -> Verdict {
    commit_of(world, "g")
}

fn commit_of(world: &mut World, group_id: &str) -> Verdict {
    let partitions = [OffsetCommitRequestPartition { committed_offset: 5, ..Default::default() }];
    let partitions = Array::Items(&partitions[..]);
    let topics = [OffsetCommitRequestTopic { name: "t".into(), partitions, ..Default::default() }];
    let request =
        OffsetCommitRequest { group_id: group_id.into(), topics: Array::Items(&topics), ..Default::default() };
    world.send(0, ApiKey::OffsetCommit, 8, &request).1
}

fn delete_group(world: &mut World) -> Verdict {
    let names = ["g".into()];
    world.send(0, ApiKey::DeleteGroups, 2, &DeleteGroupsRequest { groups_names: Array::Items(&names) }).1
}

fn describe_group(world: &mut World) -> Verdict {
    let groups = ["g".into()];
    let request = DescribeGroupsRequest { groups: Array::Items(&groups), ..Default::default() };
    world.send(0, ApiKey::DescribeGroups, 5, &request).1
}

fn list_groups(world: &mut World) -> Verdict {
    world.send(0, ApiKey::ListGroups, 5, &ListGroupsRequest::default()).1
}

fn waits_for(verdict: &Verdict) -> u64 {
    match verdict {
        Verdict::Answered => 0,
        Verdict::Durable(position) => position.0,
        other => panic!("{other:?}"),
    }
}

/// What the test and the stores of its world share.
struct Stores {
    durable: Rc<Cell<JournalPosition>>,
    refuses: Rc<Cell<Option<Refused>>>,
    appends: Rc<RefCell<Vec<usize>>>,
    append_bytes: Rc<Cell<u64>>,
    polls: Rc<Cell<usize>>,
    failed: Rc<Cell<Option<FailedPositions>>>,
    fails_to_write: Rc<Cell<Option<FailedPositions>>>,
}

impl Default for Stores {
    fn default() -> Self {
        let append_bytes = Rc::new(Cell::new(1));
        let (durable, refuses, appends, polls, failed, fails_to_write) = Default::default();
        Stores { durable, refuses, appends, append_bytes, polls, failed, fails_to_write }
    }
}

impl Stores {
    /// One core that leads everything, with a topic `t`.
    fn world(&self) -> World {
        self.world_with(GroupSettings::default())
    }

    fn world_with(&self, group: GroupSettings) -> World {
        let topics = vec![crate::config::DeclaredTopic { name: "t".into(), partitions: Some(1) }];
        let settings = Settings { topics, group, ..Settings::default() };
        let mut journals = |_: usize| -> (Journal, RunJob) {
            let store = SlowStore {
                appended: JournalPosition(0),
                durable: self.durable.clone(),
                refuses: self.refuses.clone(),
                appends: self.appends.clone(),
                append_bytes: self.append_bytes.clone(),
                polls: self.polls.clone(),
                failed: self.failed.clone(),
                fails_to_write: self.fails_to_write.clone(),
            };
            (Journal::Open(Box::new(store)), Box::new(|job| unreachable!("nothing on files, but {job:?}")))
        };
        let mut world = World::with_journals(1, settings, &[], &mut journals);
        world.ask(0, ApiKey::FindCoordinator, 3, &FindCoordinatorRequest { key: "g".into(), ..Default::default() });
        world
    }
}

#[test]
fn a_turn_that_has_appended_much_leaves_the_write_to_the_next() {
    let stores = Stores::default();
    let mut world = stores.world();
    let mut polls_of_turns = |bytes: u64| {
        world.settle();
        stores.append_bytes.set(bytes);
        commit(&mut world);
        [(); 2].map(|()| {
            let before = stores.polls.get();
            let (shard, network) = (&mut world.shards[0], &mut world.networks[0]);
            shard.begin(world.now);
            shard.turn(world.now, network).expect("nothing fails");
            assert!(
                stores.polls.get() > before || shard.deadline_ms() <= Some(world.now.monotonic_ms),
                "it is not forgotten"
            );
            stores.polls.get() - before
        })
    };
    assert_eq!(polls_of_turns(APPENDED_PER_TURN_MAX), [1, 1]);
    assert_eq!(polls_of_turns(APPENDED_PER_TURN_MAX + 1), [0, 1]);
}

#[test]
fn what_shows_or_repeats_a_change_waits_until_it_is_durable() {
    let control = Stores::default();
    let (mut world, durable) = (control.world(), &control.durable);
    let mut step = |request: fn(&mut World) -> Verdict| waits_for(&request(&mut world));
    assert_eq!(step(fetch_all), 0, "nothing was changed");
    assert_eq!((step(commit), step(fetch_all)), (1, 1));
    durable.set(JournalPosition(1));
    assert_eq!(step(delete_offset), 2);
    assert_eq!((step(delete_offset), step(fetch_all)), (2, 2), "nothing is there any more, but that is not durable");
    assert_eq!(step(delete_group), 3);
    assert_eq!((step(fetch_all), step(commit), step(delete_offset)), (3, 4, 5));
    durable.set(JournalPosition(5));
    assert_eq!((step(describe_group), step(list_groups)), (0, 0));
    assert_eq!((step(delete_offset), step(delete_group)), (0, 6));
    assert_eq!((step(describe_group), step(list_groups), step(delete_group)), (6, 6, 6), "a crash brings it back");
    durable.set(JournalPosition(6));
    world.settle();
    let mut step = |request: fn(&mut World) -> Verdict| waits_for(&request(&mut world));
    assert_eq!((step(describe_group), step(list_groups), step(delete_group)), (0, 0, 0));
}

/// How many groups each append changed.
fn turn(world: &mut World, control: &Stores) -> Vec<usize> {
    let (shard, network) = (&mut world.shards[0], &mut world.networks[0]);
    shard.begin(world.now);
    shard.turn(world.now, network).expect("nothing fails");
    control.appends.take()
}

fn is_due(world: &World) -> bool {
    world.shards[0].deadline_ms().is_some_and(|deadline_ms| deadline_ms <= world.now.monotonic_ms)
}

fn topic_is_gone(world: &mut World) {
    let id = world.shards[0].views.catalogue(&pin()).by_name("t").expect("it was there").id;
    world.shards[0].mailboxes.send(0, Mail::TopicDeleted { name: "t".into(), id });
}

fn offsets(world: &World) -> usize {
    world.shards[0].groups.census().offsets
}

#[test]
fn a_topic_goes_from_some_groups_in_each_turn_and_again_if_the_journal_refuses_or_fails() {
    const GROUPS: usize = 600;
    let control = Stores::default();
    let mut world = control.world();
    (0..GROUPS).for_each(|number| drop(commit_of(&mut world, &format!("g-{number}"))));
    control.durable.set(JournalPosition(u64::MAX));
    turn(&mut world, &control);
    topic_is_gone(&mut world);
    assert_eq!((turn(&mut world, &control), offsets(&world)), (vec![256], GROUPS - 256));

    control.refuses.set(Some(Refused::Busy));
    assert!(is_due(&world));
    assert_eq!((turn(&mut world, &control), offsets(&world)), (vec![256], GROUPS - 256), "it is undone");
    control.refuses.set(None);
    assert!(!is_due(&world) && turn(&mut world, &control).is_empty(), "not at once");
    world.now = world.now.after(Duration::from_secs(1));
    assert!(is_due(&world));

    // The disk is behind, and then it fails.
    let appended = world.shards[0].journal.store().expect("it is open").appended();
    control.durable.set(appended);
    control.append_bytes.set(APPENDED_PER_TURN_MAX + 1);
    assert_eq!((turn(&mut world, &control), offsets(&world)), (vec![256], GROUPS - 512));
    assert_eq!(turn(&mut world, &control), [0; 0]);
    let through = world.shards[0].journal.store().expect("it is open").appended();
    control.durable.set(through);
    assert_eq!((turn(&mut world, &control), offsets(&world)), (vec![GROUPS - 512], 0));
    control.failed.set(Some(FailedPositions { after: through, through: JournalPosition(u64::MAX) }));
    assert_eq!((turn(&mut world, &control), offsets(&world)), (vec![], GROUPS - 512), "they come back");
    control.durable.set(JournalPosition(u64::MAX));
    let appends: Vec<_> = (0..5).map(|_| turn(&mut world, &control)).collect();
    assert_eq!((appends.concat(), offsets(&world)), (vec![GROUPS - 512], 0));
    assert!(!is_due(&world));
}

#[test]
fn the_offsets_of_a_topic_go_from_a_group_whose_deletion_fails() {
    let control = Stores::default();
    let mut world = control.world();
    commit(&mut world);
    control.durable.set(JournalPosition(1));
    turn(&mut world, &control);
    assert_eq!(waits_for(&delete_group(&mut world)), 2);
    topic_is_gone(&mut world);
    turn(&mut world, &control);
    control.failed.set(Some(FailedPositions { after: JournalPosition(1), through: JournalPosition(2) }));
    turn(&mut world, &control);
    assert_eq!(offsets(&world), 1, "it is there again");
    turn(&mut world, &control);
    assert_eq!(offsets(&world), 0);
}

fn send_join(world: &mut World, group_id: &str) -> (ConnectionId, Verdict, Option<Vec<u8>>) {
    let protocols = [JoinGroupRequestProtocol { name: "range".into(), metadata: b"" }];
    let request = JoinGroupRequest {
        group_id: group_id.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: Array::Items(&protocols),
        ..Default::default()
    };
    world.send(0, ApiKey::JoinGroup, 3, &request)
}

fn join(world: &mut World, group_id: &str) -> (i16, String, i32) {
    let (connection, verdict, answer) = send_join(world, group_id);
    world.advance(3_000);
    let answer = match verdict {
        Verdict::Parked => world.parked_answer(0, connection, ApiKey::JoinGroup, 3).expect("a parked answer"),
        _ => answer.expect("an answer"),
    };
    let joined: JoinGroupResponse<'_> = read(&answer, ApiKey::JoinGroup, 3);
    (joined.error_code, joined.member_id.to_string(), joined.generation_id)
}

fn sync(world: &mut World, group_id: &str, member_id: &str, generation_id: i32) -> i16 {
    let (group_id, member_id) = (group_id.into(), member_id.into());
    let request = SyncGroupRequest { group_id, member_id, generation_id, ..Default::default() };
    let reply = world.ask(0, ApiKey::SyncGroup, 2, &request);
    read::<SyncGroupResponse<'_>>(&reply, ApiKey::SyncGroup, 2).error_code
}

#[test]
fn a_journal_that_takes_nothing_refuses_commits_and_joins_while_heartbeats_and_fetches_go_on() {
    for refused in [Refused::Full, Refused::Fenced, Refused::Busy] {
        let control = Stores::default();
        control.durable.set(JournalPosition(u64::MAX));
        let mut world = control.world();
        commit_of(&mut world, "outside");
        let (error, member_id, generation_id) = join(&mut world, "g");
        assert_eq!((error, sync(&mut world, "g", &member_id, generation_id)), (0, 0));

        control.refuses.set(Some(refused));
        let commit = OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() };
        let (partitions, group_id) = ([commit], "outside".into());
        let topics = [OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: Array::Items(&partitions),
            ..Default::default()
        }];
        let request = OffsetCommitRequest { group_id, topics: Array::Items(&topics), ..Default::default() };
        let reply = world.ask(0, ApiKey::OffsetCommit, 7, &request);
        let response: OffsetCommitResponse<'_> = read(&reply, ApiKey::OffsetCommit, 7);
        let code = response.topics.iter().next().and_then(|topic| topic.partitions.iter().next()).unwrap().error_code;
        assert_eq!(code, 15, "{refused:?}");
        assert_eq!(join(&mut world, "new").0, 15, "{refused:?}");

        let (group_id, member) = ("g".into(), (&*member_id).into());
        let request = HeartbeatRequest { group_id, member_id: member, generation_id, ..Default::default() };
        let reply = world.ask(0, ApiKey::Heartbeat, 3, &request);
        assert_eq!(read::<HeartbeatResponse>(&reply, ApiKey::Heartbeat, 3).error_code, 0);
        let topics = [OffsetFetchRequestTopic { name: "t".into(), partition_indexes: Array::Items(&[0]) }];
        let topics = Some(Array::Items(&topics[..]));
        let request = OffsetFetchRequest { group_id: "outside".into(), topics, ..Default::default() };
        let reply = world.ask(0, ApiKey::OffsetFetch, 5, &request);
        let response: OffsetFetchResponse<'_> = read(&reply, ApiKey::OffsetFetch, 5);
        let shown = response.topics.iter().next().and_then(|topic| topic.partitions.iter().next()).unwrap();
        assert_eq!((response.error_code, shown.error_code, shown.committed_offset), (0, 0, 5));

        control.refuses.set(None);
        assert_eq!((join(&mut world, "new").0, waits_for(&commit_of(&mut world, "outside"))), (0, 0));
    }
}

fn leave_as_nobody(world: &mut World) -> Verdict {
    let request = LeaveGroupRequest { group_id: "g".into(), member_id: "nobody".into(), ..Default::default() };
    world.send(0, ApiKey::LeaveGroup, 1, &request).1
}

const FIRST: FailedPositions = FailedPositions { after: JournalPosition(0), through: JournalPosition(1) };

#[test]
fn what_wrote_nothing_does_not_wait_for_writes_that_have_failed() {
    let control = Stores::default();
    let mut world = control.world();
    assert_eq!(waits_for(&commit(&mut world)), 1);
    control.refuses.set(Some(Refused::Fenced));
    control.failed.set(Some(FIRST));
    assert_eq!(waits_for(&leave_as_nobody(&mut world)), 1, "nothing is undone yet");
    world.settle();
    assert_eq!(world.networks[0].failed, [(FIRST.after, FIRST.through)]);
    let mut step = |request: fn(&mut World) -> Verdict| waits_for(&request(&mut world));
    assert_eq!((step(leave_as_nobody), step(delete_offset), step(fetch_all)), (0, 0, 0));

    // There is space again.
    control.refuses.set(None);
    assert_eq!((step(commit), step(leave_as_nobody)), (2, 2));
    control.durable.set(JournalPosition(2));
    assert_eq!(step(leave_as_nobody), 0);
}

#[test]
fn a_write_that_cannot_even_be_begun_is_told_in_the_same_turn() {
    let control = Stores::default();
    let mut world = control.world();
    assert_eq!(waits_for(&commit(&mut world)), 1);
    control.fails_to_write.set(Some(FIRST));
    let (shard, network) = (&mut world.shards[0], &mut world.networks[0]);
    shard.begin(world.now);
    shard.turn(world.now, network).expect("nothing fails");
    assert_eq!(network.failed, [(FIRST.after, FIRST.through)]);
}

/// Two members wait for their assignments, and they are on their way.
fn begin_to_assign(world: &mut World, group_id: &str) {
    let joins: Vec<_> = (0..2).map(|_| send_join(world, group_id).0).collect();
    (0..2).for_each(|_| world.advance(3_000));
    let ids = joins.into_iter().map(|connection| {
        let answer = world.parked_answer(0, connection, ApiKey::JoinGroup, 3).expect("a parked answer");
        let joined: JoinGroupResponse<'_> = read(&answer, ApiKey::JoinGroup, 3);
        (joined.member_id.to_string(), joined.leader.to_string(), joined.generation_id)
    });
    for (member_id, leader, generation_id) in ids.collect::<Vec<_>>() {
        let assignments = [SyncGroupRequestAssignment { member_id: (&*leader).into(), assignment: b"all" }];
        let request = SyncGroupRequest {
            group_id: group_id.into(),
            member_id: (&*member_id).into(),
            generation_id,
            assignments: if member_id == leader { Array::Items(&assignments) } else { Array::EMPTY },
            ..Default::default()
        };
        assert!(matches!(world.send(0, ApiKey::SyncGroup, 2, &request).1, Verdict::Parked));
    }
}

/// If the record of a large group is refused, what timers wrote in the same turn is not.
#[test]
fn what_timers_write_and_a_large_groups_record_are_appended_apart() {
    let mut turns_with_both = 0;
    for turns_before in 0..10 {
        let control = Stores::default();
        control.durable.set(JournalPosition(u64::MAX));
        let mut world = control.world_with(GroupSettings { members_per_piece: 1, ..GroupSettings::default() });
        let (_, member_id, generation_id) = join(&mut world, "silent");
        assert_eq!(sync(&mut world, "silent", &member_id, generation_id), 0);
        world.now = world.now.after(Duration::from_secs(20));
        begin_to_assign(&mut world, "large");
        control.appends.take();
        let appends = (0..10).map(|number| {
            if number == turns_before {
                world.now = world.now.after(Duration::from_secs(10));
            }
            world.shards[0].begin(world.now);
            world.shards[0].turn(world.now, &mut world.networks[0]).expect("nothing fails");
            control.appends.take()
        });
        let appends: Vec<_> = appends.collect();
        assert!(appends.concat().iter().all(|changes| *changes == 1), "{appends:?}");
        assert_eq!(appends.concat().len(), 2, "{appends:?}");
        turns_with_both += usize::from(appends.contains(&vec![1, 1]));
    }
    assert!(turns_with_both > 0);
}

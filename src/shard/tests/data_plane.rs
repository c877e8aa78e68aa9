//! Fetch, ListOffsets, OffsetForLeaderEpoch and Produce over whole shards, in every version.

use super::turns::answers_of_a_turn;
use super::*;
use crate::config::DeclaredTopic;
use crate::limits;
use crate::topics::message_set::Magic;
use crate::topics::{IfTooLarge, Records};
use crate::wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use crate::wire::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic};
use crate::wire::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use crate::wire::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use crate::wire::{Array, Uuid};

const RECORDS: i64 = 120;

/// Two cores and the topic `t` of two partitions; gives the core that leads partition 0.
fn world() -> (World, usize) {
    let topics = vec![DeclaredTopic { name: "t".into(), partitions: Some(2) }];
    let world = World::new(2, Settings { topics, records_per_partition: RECORDS, ..Settings::default() });
    let leader = topic(&world, |topic| topic.partitions[0].leader.index());
    (world, leader)
}

fn topic<R>(world: &World, look: impl FnOnce(&crate::topics::Topic) -> R) -> R {
    look(world.shards[0].views.catalogue(&pin()).by_name("t").expect("the topic"))
}

/// Index, error, high watermark and records of each partition.
type Row = (i32, i16, i64, Vec<u8>);

struct Fetching {
    partitions: Vec<FetchPartition>,
    max_wait_ms: i32,
    min_bytes: i32,
}

fn from(offset: i64) -> Fetching {
    let partition =
        FetchPartition { partition: 0, fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    Fetching { partitions: vec![partition], max_wait_ms: 0, min_bytes: 1 }
}

fn send(world: &mut World, core: usize, version: i16, fetching: &Fetching) -> (ConnectionId, Verdict, Option<Vec<u8>>) {
    let topics = [FetchTopic {
        topic: "t".into(),
        topic_id: Uuid::from(topic(world, |topic| topic.id)),
        partitions: Array::Items(&fetching.partitions),
    }];
    let request = FetchRequest {
        max_wait_ms: fetching.max_wait_ms,
        min_bytes: fetching.min_bytes,
        topics: Array::Items(&topics),
        ..Default::default()
    };
    world.send(core, ApiKey::Fetch, version, &request)
}

fn rows(answer: &[u8], version: i16) -> Vec<Row> {
    let response: FetchResponse<'_> = read(answer, ApiKey::Fetch, version);
    assert_eq!((response.error_code, response.session_id), (0, 0));
    // As in Kafka, a topic of which nothing was asked is not answered.
    let Some(topic) = response.responses.iter().next() else { return Vec::new() };
    assert_eq!(response.responses.len(), 1);
    assert_eq!((topic.topic.is_empty(), topic.topic_id.is_zero()), (version >= 13, version < 13));
    topic
        .partitions
        .iter()
        .map(|row| {
            assert_eq!(row.last_stable_offset, if version >= 4 { row.high_watermark } else { -1 });
            let records = row.records.expect("no records are empty, not null");
            (row.partition_index, row.error_code, row.high_watermark, records.to_vec())
        })
        .collect()
}

fn fetch(world: &mut World, core: usize, version: i16, fetching: &Fetching) -> Vec<Row> {
    let (_, verdict, answer) = send(world, core, version, fetching);
    assert!(matches!(verdict, Verdict::Answered), "{verdict:?}");
    rows(&answer.expect("an answer"), version)
}

#[test]
fn records_are_fetched_from_the_leader_in_every_version() {
    let (mut world, leader) = world();
    for version in versions(ApiKey::Fetch) {
        let (records, mut all) = (Records::new("t", 0, RECORDS), Vec::new());
        match version {
            0 | 1 => records.append_messages_from(0, Magic::Zero, usize::MAX, IfTooLarge::Cut, &mut all),
            2 | 3 => records.append_messages_from(0, Magic::One, usize::MAX, IfTooLarge::Cut, &mut all),
            _ => records.append_from(0, usize::MAX, false, &mut all),
        };
        assert_eq!(fetch(&mut world, leader, version, &from(0)), [(0, 0, RECORDS, all.clone())], "v{version}");
        let later = fetch(&mut world, leader, version, &from(75)).remove(0).3;
        assert!(all.ends_with(&later) && later.len() < all.len(), "from the batch with the offset on");
        for offset in [-1, RECORDS + 1] {
            assert_eq!(fetch(&mut world, leader, version, &from(offset)), [(0, 1, -1, vec![])], "v{version}");
        }
        assert_eq!(fetch(&mut world, leader, version, &from(RECORDS)), [(0, 0, RECORDS, vec![])], "v{version}");
        assert_eq!(fetch(&mut world, 1 - leader, version, &from(0)), [(0, 6, -1, vec![])], "v{version}");
    }
}

#[test]
fn who_asks_the_wrong_core_is_told_the_right_one_from_v16_on() {
    let (mut world, leader) = world();
    for version in 12..=18 {
        let (_, _, answer) = send(&mut world, 1 - leader, version, &from(0));
        let answer = answer.expect("an answer");
        let response: FetchResponse<'_> = read(&answer, ApiKey::Fetch, version);
        let row = response.responses.iter().next().and_then(|topic| topic.partitions.iter().next()).expect("a row");
        let nodes: Vec<_> = response.node_endpoints.iter().map(|node| (node.node_id, node.port)).collect();
        let node_id = 1 + leader as i32;
        if version >= 16 {
            assert_eq!((row.current_leader.leader_id, row.current_leader.leader_epoch), (node_id, 0));
            assert_eq!(nodes, [(node_id, 9092 + leader as i32)]);
        } else {
            assert_eq!((row.current_leader.leader_id, nodes), (-1, vec![]));
        }
    }
}

#[test]
fn a_fetch_at_the_end_waits_its_time() {
    let (mut world, leader) = world();
    for version in versions(ApiKey::Fetch) {
        let waiting = Fetching { max_wait_ms: 500, ..from(RECORDS) };
        let (connection, verdict, answer) = send(&mut world, leader, version, &waiting);
        assert!(matches!(verdict, Verdict::Parked) && answer.is_none());
        let deadline = world.now.monotonic_ms + 500;
        assert_eq!(world.shards[leader].deadline_ms(), Some(deadline));
        world.advance(499);
        assert_eq!(world.parked_answer(leader, connection, ApiKey::Fetch, version), None);
        world.advance(1);
        let answer = world.parked_answer(leader, connection, ApiKey::Fetch, version).expect("its time is over");
        assert_eq!(rows(&answer, version), [(0, 0, RECORDS, vec![])]);
        assert_ne!(world.shards[leader].deadline_ms(), Some(deadline));
    }
}

#[test]
fn fetches_that_fall_due_together_are_answered_in_many_turns() {
    let (mut world, leader) = world();
    let waiting = Fetching { max_wait_ms: 500, ..from(RECORDS) };
    (0..100).for_each(|_| drop(send(&mut world, leader, 12, &waiting)));
    world.now = world.now.after(Duration::from_millis(500));
    let mut given = Vec::new();
    for is_late in [true, true, true, false, false, false, false] {
        given.push(answers_of_a_turn(&mut world, leader, is_late));
        assert_eq!(world.shards[leader].deadline_ms() <= Some(world.now.monotonic_ms), given.len() < 6);
    }
    assert_eq!(given, [0, 16, 16, 32, 32, 4, 0]);
}

#[test]
fn a_fetch_does_not_wait_for_what_is_there_wrong_or_nobodys() {
    let (mut world, leader) = world();
    let hungry = |min_bytes, offset| Fetching { max_wait_ms: 500, min_bytes, ..from(offset) };
    assert_eq!(fetch(&mut world, leader, 18, &hungry(1, 0)).len(), 1);
    assert_eq!(fetch(&mut world, leader, 18, &hungry(0, RECORDS)).len(), 1);
    assert_eq!(fetch(&mut world, leader, 18, &hungry(1 << 20, -1))[0].1, 1);
    let nothing = Fetching { partitions: Vec::new(), ..hungry(1, 0) };
    assert_eq!(fetch(&mut world, leader, 18, &nothing), []);
    let (_, verdict, _) = send(&mut world, leader, 18, &hungry(1 << 20, 0));
    assert!(matches!(verdict, Verdict::Parked), "there is less than it wants");
    let (connection, ..) = send(&mut world, leader, 18, &hungry(1, RECORDS));
    world.shards[leader].closed(connection);
    world.advance(500);
    assert_eq!(world.parked_answer(leader, connection, ApiKey::Fetch, 18), None, "its connection is gone");
}

#[test]
fn an_answer_holds_as_much_as_the_server_allows_and_no_batch_more() {
    let topics = vec![DeclaredTopic { name: "t".into(), partitions: Some(1) }];
    let settings = Settings { topics, records_per_partition: 1_000_000, ..Settings::default() };
    let mut world = World::new(1, settings);
    let greedy = |partition_max_bytes| {
        let partition = FetchPartition { partition_max_bytes, ..from(0).partitions[0].clone() };
        Fetching { partitions: vec![partition], ..from(0) }
    };
    let records = fetch(&mut world, 0, 18, &greedy(i32::MAX)).remove(0).3;
    let mut one_more = Vec::new();
    Records::new("t", 0, 1_000_000).append_from(0, records.len() + 10_000, false, &mut one_more);
    assert!(records.len() <= limits::FETCH_RESPONSE_MAX_BYTES && one_more.len() > limits::FETCH_RESPONSE_MAX_BYTES);
    assert!(one_more.starts_with(&records));
}

#[test]
fn there_are_no_fetch_sessions() {
    let (mut world, leader) = world();
    for version in 7..=18 {
        for (session_id, session_epoch, error) in [(0, 0, 0), (77, -1, 0), (77, 3, 70), (0, 3, 70)] {
            let request = FetchRequest { session_id, session_epoch, ..Default::default() };
            let (_, _, answer) = world.send(leader, ApiKey::Fetch, version, &request);
            let answer = answer.expect("an answer");
            let response: FetchResponse<'_> = read(&answer, ApiKey::Fetch, version);
            assert_eq!((response.error_code, response.session_id), (error, 0), "v{version} {session_epoch}");
        }
    }
}

#[test]
fn offsets_are_listed_by_the_leader() {
    let (mut world, leader) = world();
    let api = ApiKey::ListOffsets;
    let mut ask = |core: usize, version: i16, asked: &[ListOffsetsPartition]| -> Vec<(i32, i16, i64, i64)> {
        let topics = [ListOffsetsTopic { name: "t".into(), partitions: Array::Items(asked) }];
        let request = ListOffsetsRequest { replica_id: -1, topics: Array::Items(&topics), ..Default::default() };
        let answer = world.ask(core, api, version, &request);
        let response: ListOffsetsResponse<'_> = read(&answer, api, version);
        let partitions = response.topics.iter().next().expect("a topic").partitions.iter();
        let offset = |row: &crate::wire::list_offsets::ListOffsetsPartitionResponse<'_>| {
            if version == 0 { row.old_style_offsets.iter().next().unwrap_or(-1) } else { row.offset }
        };
        partitions.map(|row| (row.partition_index, row.error_code, offset(&row), row.timestamp)).collect()
    };
    let at = |timestamp| ListOffsetsPartition { timestamp, ..Default::default() };
    for version in versions(api) {
        assert_eq!(ask(leader, version, &[at(-1)]), [(0, 0, RECORDS, -1)], "v{version}");
        assert_eq!(ask(leader, version, &[at(-2)]), [(0, 0, 0, -1)], "v{version}");
        assert_eq!(ask(1 - leader, version, &[at(-1)]), [(0, 6, -1, -1)], "v{version}");
        assert_eq!(ask(leader, version, &[at(-1), at(-2)]), [(0, 42, -1, -1)], "v{version}");
        let newest = ask(leader, version, &[at(-3)])[0];
        let expected = if version >= 7 { (0, RECORDS - 1) } else { (35, -1) };
        assert_eq!((newest.1, newest.2), expected, "v{version}");
        let elsewhere = ListOffsetsPartition { partition_index: 9, ..at(-1) };
        assert_eq!(ask(leader, version, &[elsewhere]), [(9, 3, -1, -1)], "v{version}");
    }
}

#[test]
fn leader_epochs_end_at_the_high_watermark() {
    let (mut world, leader) = world();
    let api = ApiKey::OffsetForLeaderEpoch;
    for version in versions(api) {
        for (core, partition, epoch, current, expected) in [
            (leader, 0, 0, -1, (0, 0, RECORDS)),
            (leader, 0, 5, 0, (0, -1, -1)),
            (leader, 0, 0, 3, (75, -1, -1)),
            (leader, 9, 0, -1, (3, -1, -1)),
            (1 - leader, 0, 0, -1, (6, -1, -1)),
        ] {
            let partitions =
                [OffsetForLeaderPartition { partition, current_leader_epoch: current, leader_epoch: epoch }];
            let topics = [OffsetForLeaderTopic { topic: "t".into(), partitions: Array::Items(&partitions) }];
            let request = OffsetForLeaderEpochRequest { replica_id: -1, topics: Array::Items(&topics) };
            let answer = world.ask(core, api, version, &request);
            let response: OffsetForLeaderEpochResponse<'_> = read(&answer, api, version);
            let row = response.topics.iter().next().and_then(|topic| topic.partitions.iter().next()).expect("a row");
            assert_eq!((row.error_code, row.leader_epoch, row.end_offset), expected, "v{version}");
        }
    }
}

#[test]
fn produced_records_are_checked_and_dropped() {
    let (mut world, leader) = world();
    let api = ApiKey::Produce;
    let mut batch = Vec::new();
    Records::new("t", 0, 10).append_from(0, usize::MAX, false, &mut batch);
    let mut corrupt = batch.clone();
    corrupt[70] ^= 1;
    for version in versions(api) {
        for (core, index, acks, records, error) in [
            (leader, 0, -1, Some(&batch), 0),
            (leader, 0, 1, Some(&batch), 0),
            (leader, 0, -1, Some(&corrupt), 2),
            (leader, 0, -1, None, 87),
            (leader, 9, -1, Some(&batch), 3),
            (1 - leader, 0, -1, Some(&batch), 6),
            (leader, 0, 2, Some(&batch), 21),
            (leader, 0, 0, Some(&batch), 0),
            (leader, 0, 0, Some(&corrupt), 2),
        ] {
            let partitions = [PartitionProduceData { index, records: records.map(|records| &records[..]) }];
            let topics = [TopicProduceData {
                name: "t".into(),
                topic_id: topic(&world, |topic| topic.id).into(),
                partition_data: Array::Items(&partitions),
            }];
            let request = ProduceRequest { acks, topic_data: Array::Items(&topics), ..Default::default() };
            let (_, verdict, answer) = world.send(core, api, version, &request);
            if acks == 0 {
                assert_eq!((matches!(verdict, Verdict::Answered), answer), (error == 0, None), "{verdict:?}");
                continue;
            }
            let answer = answer.expect("an answer");
            let response: ProduceResponse<'_> = read(&answer, api, version);
            let row = response.responses.iter().next().and_then(|topic| topic.partition_responses.iter().next());
            let row = row.expect("a row");
            let base_offset = if error == 0 { RECORDS } else { -1 };
            assert_eq!((row.error_code, row.base_offset), (error, base_offset), "v{version}");
            assert_eq!(response.node_endpoints.len(), usize::from(error == 6 && version >= 10));
        }
    }
    assert_eq!(fetch(&mut world, leader, 18, &from(RECORDS)), [(0, 0, RECORDS, vec![])], "nothing was kept");
}

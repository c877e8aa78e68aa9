//! The cases: `api part`. A part stands alone, as the whole request would do it.

use std::hint::black_box;

use rallypoint::clock::Now;
use rallypoint::group::{
    CommitRequest, CopiedAssignments, Groups, JoinRequest, Output, PartitionCommit, SyncRequest, Ticket,
};
use rallypoint::ids::{InternalTopicKind, NodeIndex};
use rallypoint::leadership::pin;
use rallypoint::shard::service::Verdict;
use rallypoint::wire::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use rallypoint::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use rallypoint::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use rallypoint::wire::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use rallypoint::wire::{ApiKey, Array, Cursor, Prefix, RequestHeader, ResponseHeader, Wire, Writer};

use crate::world::{self, CLIENT, CountedIds, GROUP, TOPIC, World};

/// Takes the work to be measured.
pub(crate) type Measure<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

/// Prepares a case and has its work measured.
pub(crate) type Run = Box<dyn Fn(Measure<'_>)>;

const PARTITIONS: [i32; 4] = [0, 1, 2, 3];
const NOW: Now = Now { monotonic_ms: 2_000, unix_ms: 1_800_000_001_000 };

/// All cases by name.
pub(crate) fn all() -> Vec<(String, Run)> {
    let mut cases: Vec<(String, Run)> = Vec::new();
    let mut add = |name: &str, run: Run| cases.push((name.to_owned(), run));
    // What measuring itself costs; to be taken off the others.
    add("nothing", Box::new(|measure| measure(&mut || {})));
    add("turn idle", Box::new(turn));
    add("heartbeat-v4 parse", Box::new(|measure| parse::<HeartbeatRequest<'_>>(measure, &heartbeat())));
    add("heartbeat-v4 look-up", Box::new(look_up_partition));
    add("heartbeat-v4 decide", Box::new(decide_heartbeat));
    add(
        "heartbeat-v4 answer",
        Box::new(|measure| answer(measure, ApiKey::Heartbeat, 4, &HeartbeatResponse::default())),
    );
    add("heartbeat-v4 request", Box::new(|measure| request(measure, &|world| beat(&world.member_id))));
    for version in [0, 4, 6] {
        let name = |part: &str| format!("find-coordinator-v{version} {part}");
        let run = move |measure: Measure<'_>| parse::<FindCoordinatorRequest<'_>>(measure, &find_coordinator(version));
        add(&name("parse"), Box::new(run));
        add(&name("look-up"), Box::new(look_up_endpoint));
        add(&name("answer"), Box::new(move |measure| answer_find(measure, version)));
        add(&name("request"), Box::new(move |measure| request(measure, &|_| find_coordinator(version))));
    }
    add("offset-fetch-v9 parse", Box::new(|measure| parse::<OffsetFetchRequest<'_>>(measure, &offset_fetch("member"))));
    add("offset-fetch-v9 look-up", Box::new(look_up_partition));
    add("offset-fetch-v9 decide", Box::new(decide_offset_fetch));
    add("offset-fetch-v9 answer", Box::new(answer_offset_fetch));
    add("offset-fetch-v9 request", Box::new(|measure| request(measure, &|world| offset_fetch(&world.member_id))));
    add(
        "offset-commit-v9 parse",
        Box::new(|measure| parse::<OffsetCommitRequest<'_>>(measure, &offset_commit("member"))),
    );
    add("offset-commit-v9 look-up", Box::new(look_up_partition));
    add("offset-commit-v9 decide", Box::new(decide_offset_commit));
    add("offset-commit-v9 answer", Box::new(answer_offset_commit));
    add("offset-commit-v9 request", Box::new(|measure| request(measure, &|world| offset_commit(&world.member_id))));
    cases
}

fn heartbeat() -> Vec<u8> {
    beat("orders-consumer-17-00000000-0000-0000-0000-000000000000")
}

fn beat(member_id: &str) -> Vec<u8> {
    let request = HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: 1,
        member_id: member_id.into(),
        group_instance_id: None,
    };
    world::frame(ApiKey::Heartbeat, 4, &request)
}

fn find_coordinator(version: i16) -> Vec<u8> {
    let keys = [GROUP.into()];
    let request = match version {
        4.. => FindCoordinatorRequest { coordinator_keys: Array::Items(&keys), ..Default::default() },
        _ => FindCoordinatorRequest { key: GROUP.into(), ..Default::default() },
    };
    world::frame(ApiKey::FindCoordinator, version, &request)
}

fn offset_fetch(member_id: &str) -> Vec<u8> {
    let topics = [OffsetFetchRequestTopics {
        name: TOPIC.into(),
        partition_indexes: Array::Items(&PARTITIONS),
        ..Default::default()
    }];
    let groups = [OffsetFetchRequestGroup {
        group_id: GROUP.into(),
        member_id: Some(member_id.into()),
        member_epoch: 1,
        topics: Some(Array::Items(&topics)),
    }];
    let request = OffsetFetchRequest { groups: Array::Items(&groups), require_stable: true, ..Default::default() };
    world::frame(ApiKey::OffsetFetch, 9, &request)
}

fn offset_commit(member_id: &str) -> Vec<u8> {
    let partitions = PARTITIONS.map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1_000_000,
        committed_leader_epoch: 0,
        ..Default::default()
    });
    let topics =
        [OffsetCommitRequestTopic { name: TOPIC.into(), partitions: Array::Items(&partitions), ..Default::default() }];
    let request = OffsetCommitRequest {
        group_id: GROUP.into(),
        generation_id_or_member_epoch: 1,
        member_id: member_id.into(),
        topics: Array::Items(&topics),
        ..Default::default()
    };
    world::frame(ApiKey::OffsetCommit, 9, &request)
}

/// Prefix, header and body, as dispatch reads them.
fn parse<'a, T: Wire<'a>>(measure: Measure<'_>, frame: &[u8]) {
    // The frame lives as long as the process, so that it can be borrowed for any lifetime.
    let frame: &'static [u8] = frame.to_vec().leak();
    measure(&mut || {
        let frame = black_box(frame);
        let prefix = Prefix::peek(frame).expect("a prefix");
        let api = ApiKey::from_number(prefix.api_key()).expect("a known API");
        let mut cursor = Cursor::new(frame);
        let header = RequestHeader::read(&mut cursor, api.request_header_version(prefix.api_version()));
        black_box(header.expect("a header"));
        black_box(T::read(&mut cursor, api.version(prefix.api_version())).expect("a body"));
    });
}

/// The whole reply frame of a message.
fn answer<'a>(measure: Measure<'_>, api: ApiKey, version: i16, response: &impl Wire<'a>) {
    let mut replies = Vec::with_capacity(4096);
    measure(&mut || {
        replies.clear();
        let mut writer = Writer::new(&mut replies);
        let start = writer.begin_frame();
        let header = ResponseHeader { correlation_id: black_box(12_345) };
        header.write(&mut writer, api.response_header_version(version));
        black_box(response).write(&mut writer, api.version(version));
        writer.end_frame(start);
        black_box(&replies);
    });
}

/// The whole request, from its frame to its reply frame, in the middle of a batch.
fn request(measure: Measure<'_>, frame: &dyn Fn(&World) -> Vec<u8>) {
    let mut world = World::new();
    let commit = offset_commit(&world.member_id);
    let mut replies = Vec::with_capacity(4096);
    assert!(matches!(world.request(&commit, &mut replies), Verdict::Answered), "memory is durable at once");
    let frame = frame(&world);
    measure(&mut || {
        replies.clear();
        black_box(world.request(black_box(&frame), &mut replies));
    });
    assert!(replies.len() > 8, "it is answered");
}

/// A turn in which there is nothing to do.
fn turn(measure: Measure<'_>) {
    let mut world = World::new();
    measure(&mut || world.turn());
}

fn look_up_partition(measure: Measure<'_>) {
    let world = World::new();
    let guard = pin();
    measure(&mut || {
        let table = world.views.table(black_box(&guard));
        black_box(table.offsets_partition_led_by(NodeIndex(0), black_box(GROUP)).expect("it leads all"));
    });
}

fn look_up_endpoint(measure: Measure<'_>) {
    let world = World::new();
    let guard = pin();
    measure(&mut || {
        let table = world.views.table(black_box(&guard));
        black_box(table.look_up(InternalTopicKind::Offsets, black_box(GROUP), 0).expect("an endpoint"));
    });
}

/// As the real answer is written: from bytes that were encoded with the table.
fn answer_find(measure: Measure<'_>, version: i16) {
    let row = [Coordinator {
        key: GROUP.into(),
        node_id: 1,
        host: "broker.example".into(),
        port: 9092,
        error_code: 0,
        error_message: Some("".into()),
    }];
    let [one] = row.clone();
    let Coordinator { node_id, host, port, .. } = one;
    let response = match version {
        4.. => FindCoordinatorResponse { coordinators: Array::Items(&row), ..Default::default() },
        _ => FindCoordinatorResponse { node_id, host, port, ..Default::default() },
    };
    let version_of = ApiKey::FindCoordinator.version(version);
    let mut body = Vec::new();
    response.write(&mut Writer::new(&mut body), version_of);
    let mut replies = Vec::with_capacity(4096);
    measure(&mut || {
        replies.clear();
        let mut writer = Writer::new(&mut replies);
        let start = writer.begin_frame();
        let header = ResponseHeader { correlation_id: black_box(12_345) };
        header.write(&mut writer, ApiKey::FindCoordinator.response_header_version(version));
        writer.raw(black_box(&body));
        writer.end_frame(start);
        black_box(&replies);
    });
}

fn answer_offset_fetch(measure: Measure<'_>) {
    let partitions = PARTITIONS.map(|partition_index| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: 1_000_000,
        ..Default::default()
    });
    let topics =
        [OffsetFetchResponseTopics { name: TOPIC.into(), partitions: Array::Items(&partitions), ..Default::default() }];
    let groups =
        [OffsetFetchResponseGroup { group_id: GROUP.into(), topics: Array::Items(&topics), ..Default::default() }];
    let response = OffsetFetchResponse { groups: Array::Items(&groups), ..Default::default() };
    answer(measure, ApiKey::OffsetFetch, 9, &response);
}

fn answer_offset_commit(measure: Measure<'_>) {
    let partitions =
        PARTITIONS.map(|partition_index| OffsetCommitResponsePartition { partition_index, ..Default::default() });
    let topics =
        [OffsetCommitResponseTopic { name: TOPIC.into(), partitions: Array::Items(&partitions), ..Default::default() }];
    let response = OffsetCommitResponse { topics: Array::Items(&topics), ..Default::default() };
    answer(measure, ApiKey::OffsetCommit, 9, &response);
}

/// Groups in which one member has joined, and its id.
fn joined() -> (Groups, String) {
    let settings = world::settings();
    let mut groups = Groups::new(settings.group, settings.offsets, Box::new(CountedIds(0)), NOW);
    let ticket = Ticket { connection: 1, correlation_id: 1, version: 9 };
    let mut member_id = String::new();
    for _ in 0..2 {
        let request = JoinRequest {
            group_id: GROUP,
            member_id: &member_id,
            group_instance_id: None,
            client_id: CLIENT,
            client_host: "/10.0.0.17",
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            protocol_type: "consumer",
            protocols: [("range", &[0; 40][..])].into_iter(),
            requires_known_member_id: true,
            knows_skip_assignment: true,
        };
        let answer = groups.join(&request, ticket, NOW).or_else(|| settle(&mut groups));
        member_id = answer.expect("an answer").member_id.to_string();
    }
    let member = member_id.clone();
    let plan = [(&*member, &[0; 60][..])].into_iter();
    let request = SyncRequest {
        group_id: GROUP,
        generation_id: 1,
        member_id: &member_id,
        group_instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: plan.clone(),
        keep: &|| CopiedAssignments::of(plan.clone()),
    };
    groups.sync(&request, ticket, NOW);
    drop(request);
    settle(&mut groups);
    assert!(groups.heartbeat(GROUP, 1, &member_id, None, NOW).is_none(), "the group is stable");
    (groups, member_id)
}

/// Writes what is to be written, and takes the answer of a JoinGroup.
fn settle(groups: &mut Groups) -> Option<rallypoint::group::JoinAnswer> {
    let mut answer = None;
    for _ in 0..3 {
        groups.advance(NOW);
        groups.do_a_piece(NOW);
        if let Some(taken) = groups.take_records(&mut Vec::new()) {
            groups.written(taken.write, Ok(()), NOW);
        }
        while let Some(output) = groups.poll_output() {
            if let Output::Join(_, joined) = output {
                answer = Some(joined);
            }
        }
    }
    answer
}

fn decide_heartbeat(measure: Measure<'_>) {
    let (mut groups, member_id) = joined();
    measure(&mut || {
        black_box(groups.heartbeat(black_box(GROUP), 1, black_box(&member_id), None, NOW));
    });
}

fn commit(groups: &mut Groups, member_id: &str) {
    let request = CommitRequest {
        group_id: black_box(GROUP),
        member_id: black_box(member_id),
        group_instance_id: None,
        generation_id: 1,
        knows_group_id_not_found: true,
    };
    let mut committer = groups.begin_commit(&request, NOW).expect("a member");
    for partition in PARTITIONS {
        let commit = PartitionCommit {
            partition,
            offset: 1_000_000,
            leader_epoch: 0,
            metadata: Some(""),
            commit_timestamp_ms: None,
            retention_ms: None,
        };
        black_box(committer.commit(black_box(TOPIC), [0; 16], commit));
    }
}

fn decide_offset_commit(measure: Measure<'_>) {
    let (mut groups, member_id) = joined();
    let mut records = Vec::new();
    measure(&mut || {
        commit(&mut groups, &member_id);
        let taken = groups.take_records(&mut records).expect("records");
        records.clear();
        groups.written(taken.write, Ok(()), NOW);
    });
}

fn decide_offset_fetch(measure: Measure<'_>) {
    let (mut groups, member_id) = joined();
    commit(&mut groups, &member_id);
    settle(&mut groups);
    measure(&mut || {
        let view = groups.offsets(black_box(GROUP)).expect("a group");
        black_box(view.is_settled());
        for partition in PARTITIONS {
            black_box(view.get(black_box(TOPIC), None, partition).expect("an offset"));
        }
    });
}

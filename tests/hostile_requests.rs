//! Requests that ask for too much at once: very many rows, absurd numbers, answers far larger than the question. Each is answered
//! or refused within bounds, and what it took comes back.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod hostile_support;

use std::borrow::Cow;
use std::io::{Read, Write};

use hostile_support::{
    Client, INVALID_REQUEST, Join, MIB, NONE, Server, commit_error, commit_frame, compare, eventually, frame,
    join_request, my_turn, pump, read, scale,
};
use rallypoint::limits;
use rallypoint::wire::create_topics::{CreatableTopic, CreateTopicsRequest, CreateTopicsResponse};
use rallypoint::wire::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use rallypoint::wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use rallypoint::wire::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use rallypoint::wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use rallypoint::wire::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse};
use rallypoint::wire::{ApiKey, Array};

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const POLICY_VIOLATION: i16 = 44;

#[test]
fn metadata_of_very_many_topics_that_do_not_exist() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::connect(server.address);
    let ask = |client: &mut Client, round: usize, count: usize| {
        let topic = |number| MetadataRequestTopic {
            name: Some(format!("missing-{round}-{number}").into()),
            ..MetadataRequestTopic::default()
        };
        let topics: Vec<MetadataRequestTopic<'_>> = (0..count).map(topic).collect();
        let request = MetadataRequest { topics: Some(Array::Items(&topics)), ..MetadataRequest::default() };
        let reply = client.ask(ApiKey::Metadata, 9, &request);
        let response: MetadataResponse<'_> = read(&reply, ApiKey::Metadata, 9);
        assert_eq!(response.topics.len(), count);
        response.topics.iter().next().expect("a topic").error_code
    };
    let ((), seen) = compare(&server, "metadata of missing topics", || {
        // More than may exist, and then some.
        for round in 0..3 * scale() {
            let error_code = ask(&mut client, round, limits::METADATA_TOPICS_MAX);
            assert_eq!(error_code, UNKNOWN_TOPIC_OR_PARTITION);
        }
        assert_eq!(ask(&mut client, 1_000, limits::METADATA_TOPICS_MAX + 1), INVALID_REQUEST);
    });
    assert!(seen.rss_growth() < 256 * MIB, "{} bytes", seen.rss_growth());
    let lines = server.log().lines().count();
    assert!(lines < 100, "{lines} lines of log");
    server.is_well();
}

#[test]
fn topics_of_absurd_sizes() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::connect(server.address);
    let create = |client: &mut Client, count: usize, num_partitions: i32| {
        let topic = |number| CreatableTopic {
            name: format!("absurd-{number}").into(),
            num_partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        let topics: Vec<CreatableTopic<'_>> = (0..count).map(topic).collect();
        let request = CreateTopicsRequest { topics: Array::Items(&topics), ..CreateTopicsRequest::default() };
        let reply = client.ask(ApiKey::CreateTopics, 5, &request);
        let response: CreateTopicsResponse<'_> = read(&reply, ApiKey::CreateTopics, 5);
        assert_eq!(response.topics.len(), count);
        response.topics.iter().map(|topic| topic.error_code).max()
    };
    let ((), seen) = compare(&server, "topics of absurd sizes", || {
        for num_partitions in [i32::MAX, limits::CREATE_PARTITIONS_MAX as i32 + 1] {
            assert_eq!(create(&mut client, 1, num_partitions), Some(POLICY_VIOLATION));
            assert_eq!(create(&mut client, 1_000, num_partitions), Some(POLICY_VIOLATION));
        }
        let count = 10_000 * (1 + scale().min(9));
        assert_eq!(create(&mut client, count, 1), Some(POLICY_VIOLATION));
        for _ in 0..10 {
            assert_eq!(create(&mut client, 1_000, -7), Some(37), "INVALID_PARTITIONS");
        }
    });
    assert!(seen.rss_growth() < 128 * MIB, "{} bytes", seen.rss_growth());
    server.is_well();
}

#[test]
fn groups_described_by_the_hundred_thousand() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::of_coordinator(server.address, "any");
    let names: Vec<String> = (0..100_000).map(|number| format!("described-{number}")).collect();
    let groups: Vec<Cow<'_, str>> = names.iter().map(|name| (&**name).into()).collect();
    let request = DescribeGroupsRequest { groups: Array::Items(&groups), ..DescribeGroupsRequest::default() };
    let ((), seen) = compare(&server, "100,000 groups described", || {
        for _ in 0..2 * scale() {
            let reply = client.ask(ApiKey::DescribeGroups, 6, &request);
            let response: DescribeGroupsResponse<'_> = read(&reply, ApiKey::DescribeGroups, 6);
            assert_eq!(response.groups.len(), groups.len());
        }
        let fetch = |name: &String| OffsetFetchRequestGroup {
            group_id: name.clone().into(),
            topics: None,
            ..OffsetFetchRequestGroup::default()
        };
        let groups: Vec<OffsetFetchRequestGroup<'_>> = names.iter().map(fetch).collect();
        let request = OffsetFetchRequest { groups: Array::Items(&groups), ..OffsetFetchRequest::default() };
        for _ in 0..2 * scale() {
            let reply = client.ask(ApiKey::OffsetFetch, 8, &request);
            let response: OffsetFetchResponse<'_> = read(&reply, ApiKey::OffsetFetch, 8);
            assert_eq!(response.groups.len(), names.len());
        }
    });
    assert!(seen.rss_growth() < 128 * MIB, "{} bytes", seen.rss_growth());
    server.is_well();
}

/// A group whose member says 4 MB of itself.
fn heavy_group(server: &Server, group_id: &str) {
    let mut client = Client::of_coordinator(server.address, group_id);
    let metadata = vec![7; limits::MEMBER_METADATA_MAX_BYTES - 100];
    let protocols = vec![JoinGroupRequestProtocol { name: "range".into(), metadata: &metadata }];
    let join = Join { protocols, ..join_request(group_id, 60_000) };
    let reply = client.ask(ApiKey::JoinGroup, 3, &join.write());
    assert_eq!(read::<JoinGroupResponse<'_>>(&reply, ApiKey::JoinGroup, 3).error_code, NONE);
}

#[test]
fn an_answer_that_would_be_larger_than_any_may_be() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    heavy_group(&server, "heavy");
    let mut client = Client::of_coordinator(server.address, "heavy");
    let groups = vec![Cow::Borrowed("heavy"); 500_000];
    let request = DescribeGroupsRequest { groups: Array::Items(&groups), ..DescribeGroupsRequest::default() };
    // Its metadata is only shown once the leader has assigned.
    sync_heavy(&mut client, "heavy");
    let ((), seen) = compare(&server, "an answer of 2 TB", || {
        client.send(&frame(ApiKey::DescribeGroups, 0, &request));
        assert!(client.is_ended(), "closed, not answered");
    });
    assert!(server.has_logged("oversized reply"), "{}", server.log());
    assert!(seen.rss_growth() < 2 * limits::RESPONSE_MAX_BYTES, "{} bytes", seen.rss_growth());
    assert_eq!(server.metric("rallypoint_close_reasons_total{reason=\"oversized\"}"), 1.0);
    server.gives_back(&seen);
    server.is_well();
}

/// Makes a group of one Stable.
fn sync_heavy(client: &mut Client, group_id: &str) {
    use rallypoint::wire::sync_group::{SyncGroupRequest, SyncGroupResponse};
    let groups = [Cow::Borrowed(group_id)];
    let request = DescribeGroupsRequest { groups: Array::Items(&groups), ..DescribeGroupsRequest::default() };
    let reply = client.ask(ApiKey::DescribeGroups, 0, &request);
    let response: DescribeGroupsResponse<'_> = read(&reply, ApiKey::DescribeGroups, 0);
    let group = response.groups.iter().next().expect("the group");
    let member = group.members.iter().next().expect("its member");
    let (group_id, member_id) = (group_id.into(), member.member_id);
    let request = SyncGroupRequest { group_id, generation_id: 1, member_id, ..SyncGroupRequest::default() };
    let reply = client.ask(ApiKey::SyncGroup, 0, &request);
    assert_eq!(read::<SyncGroupResponse<'_>>(&reply, ApiKey::SyncGroup, 0).error_code, NONE);
}

/// And its only member.
fn server_of_a_heavy_group() -> (Server, Client) {
    let server = Server::start(1, &[]);
    heavy_group(&server, "heavy");
    let mut client = Client::of_coordinator(server.address, "heavy");
    sync_heavy(&mut client, "heavy");
    (server, client)
}

/// Asks for more than 30 MB.
fn eight_times() -> DescribeGroupsRequest<'static> {
    static GROUPS: [Cow<'_, str>; 8] = [const { Cow::Borrowed("heavy") }; 8];
    DescribeGroupsRequest { groups: Array::Items(&GROUPS), ..DescribeGroupsRequest::default() }
}

const DESCRIBED: &str = "rallypoint_api_requests_total{api=\"DescribeGroups\"";

#[test]
fn large_answers_that_nobody_reads() {
    let _turn = my_turn();
    let (mut server, mut client) = server_of_a_heavy_group();
    let bytes = frame(ApiKey::DescribeGroups, 0, &eight_times());
    let before = server.metric(DESCRIBED) as usize;
    let (clients, seen) = compare(&server, "30 MB answers that nobody reads", || {
        let mut clients = Vec::new();
        for number in 1..=20 * scale() {
            let mut client = Client::connect(server.address);
            client.send(&bytes);
            clients.push(client);
            // One after the other: each takes a while, which is what the good clients wait for.
            eventually("a request", || server.metric(DESCRIBED) as usize >= before + number);
        }
        eventually("the limit", || server.metric("rallypoint_close_reasons_total{reason=\"unread\"}") >= 5.0);
        clients
    });
    assert!(server.has_logged("unread replies"), "{}", server.log());
    // What was being sent to those that are closed goes with the next turn.
    let bound = 2 * limits::UNREAD_REPLIES_MAX_BYTES + limits::RESPONSE_MAX_BYTES;
    assert!(seen.rss_growth() < bound, "{} bytes", seen.rss_growth());
    // Who reads is answered meanwhile.
    let reply = client.ask(ApiKey::DescribeGroups, 0, &eight_times());
    assert!(reply.len() > 30_000_000);
    drop(clients);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn large_answers_that_are_read_but_for_their_end() {
    let _turn = my_turn();
    let (mut server, _client) = server_of_a_heavy_group();
    let bytes = frame(ApiKey::DescribeGroups, 0, &eight_times());
    // More than the sockets hold, far less than the answer.
    let left = 7 * MIB;
    let (clients, seen) = compare(&server, "30 MB answers that are read but for their end", || {
        let read_most = |_| {
            let mut client = Client::connect(server.address);
            socket2::SockRef::from(&client.0).set_recv_buffer_size(128 << 10).expect("an option can be set");
            client.send(&bytes);
            let mut size = [0; 4];
            client.0.read_exact(&mut size).expect("an answer");
            let wanted = i32::from_be_bytes(size) as usize - left;
            // Whoever is closed has its answer cut off.
            let _ = std::io::copy(&mut (&client.0).take(wanted as u64), &mut std::io::sink());
            client
        };
        (0..40 * scale()).map(read_most).collect::<Vec<_>>()
    });
    assert!(server.has_logged("unread replies"), "{}", server.log());
    let bound = 2 * limits::UNREAD_REPLIES_MAX_BYTES + limits::RESPONSE_MAX_BYTES;
    assert!(seen.rss_growth() < bound, "{} bytes", seen.rss_growth());
    drop(clients);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn large_frames_that_really_come() {
    let _turn = my_turn();
    let limits = [("socket.request.max.bytes", "10000000"), ("queued.max.request.bytes", "30000000")];
    let mut server = Server::start(1, &limits);
    let part = [10_000_000i32.to_be_bytes().to_vec(), vec![0; 7_000_000]].concat();
    let (clients, seen) = compare(&server, "large frames, half sent", || {
        let mut clients: Vec<Client> = (0..20 * scale()).map(|_| Client::connect(server.address)).collect();
        for client in &mut clients {
            // Whoever weighs most is closed.
            let _ = client.0.write_all(&part);
        }
        clients
    });
    assert!(server.has_logged("queued requests"), "{}", server.log());
    let closed = server.metric("rallypoint_close_reasons_total{reason=\"queued\"}") as usize;
    assert!((clients.len() - 5..clients.len()).contains(&closed), "{closed} are closed");
    assert!(seen.rss_growth() < 100 * MIB, "{} bytes", seen.rss_growth());
    drop(clients);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn a_fetch_of_everything() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[("rallypoint.topic.records", "1000000")]);
    let mut client = Client::connect(server.address);
    let partition =
        |partition| FetchPartition { partition, partition_max_bytes: i32::MAX, ..FetchPartition::default() };
    let partitions: Vec<FetchPartition> = (0..100).cycle().take(10_000).map(partition).collect();
    let topics = [FetchTopic { topic: "t".into(), partitions: Array::Items(&partitions), ..FetchTopic::default() }];
    let request = FetchRequest { max_bytes: i32::MAX, topics: Array::Items(&topics), ..FetchRequest::default() };
    for version in [4, 12] {
        let (size, seen) = compare(&server, "a fetch of everything", || {
            let mut size = 0;
            for _ in 0..4 * scale() {
                let reply = client.ask(ApiKey::Fetch, version, &request);
                let response: FetchResponse<'_> = read(&reply, ApiKey::Fetch, version);
                assert_eq!(response.responses.len(), 1);
                size = size.max(reply.len());
            }
            size
        });
        println!("v{version}: {size} bytes");
        // The records, and a row for each partition.
        assert!(size < limits::FETCH_RESPONSE_MAX_BYTES + 10_000 * 60, "{size} bytes");
        assert!(seen.rss_growth() < 32 * MIB, "{} bytes", seen.rss_growth());
    }
    server.is_well();
}

#[test]
fn fetches_that_wait_for_ever() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let partition = |partition| FetchPartition {
        partition,
        fetch_offset: 1_000,
        partition_max_bytes: i32::MAX,
        ..FetchPartition::default()
    };
    let each = limits::WAITING_FETCH_PARTITIONS_MAX;
    let partitions: Vec<FetchPartition> = (0..100).cycle().take(each).map(partition).collect();
    let topics = [FetchTopic { topic: "t".into(), partitions: Array::Items(&partitions), ..FetchTopic::default() }];
    let (max_wait_ms, min_bytes) = (i32::MAX, 1);
    let request = FetchRequest { max_wait_ms, min_bytes, topics: Array::Items(&topics), ..FetchRequest::default() };
    let bytes = frame(ApiKey::Fetch, 4, &request);
    let most = limits::WAITING_FETCHES_PARTITIONS_MAX / each;
    let (mut clients, seen) = compare(&server, "fetches that wait for ever", || {
        let mut clients: Vec<Client> = (0..most + 20).map(|_| Client::connect(server.address)).collect();
        for client in &mut clients {
            client.send(&bytes);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eventually("all of them", || server.metric("rallypoint_requests_parked{") >= most as f64);
        clients
    });
    // Those above the limit are answered at once with nothing.
    for client in &mut clients {
        client.0.set_read_timeout(Some(std::time::Duration::from_millis(10))).expect("a time-out can be set");
    }
    eventually("the surplus", || {
        clients.retain_mut(|client| client.try_receive().is_err());
        clients.len() == most
    });
    assert!(seen.rss_growth() < 128 * MIB, "{} bytes", seen.rss_growth());
    drop(clients);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn commits_pipelined_without_end() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::of_coordinator(server.address, "one");
    let commit = commit_frame("one", -1);
    let ((), seen) = compare(&server, "commits without end", || {
        pump(&mut client, std::iter::repeat_n(commit, 50_000 * scale()), |reply| {
            assert_eq!(commit_error(&reply), NONE);
        });
    });
    assert!(seen.rss_growth() < 128 * MIB, "{} bytes", seen.rss_growth());
    server.is_well();
}

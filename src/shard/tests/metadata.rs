//! Metadata and DescribeCluster over whole shards, in every version.

use super::*;
use crate::config::DeclaredTopic;
use crate::ids::TopicId;
use crate::limits;
use crate::wire::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use crate::wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use crate::wire::{Array, Uuid};

const API: ApiKey = ApiKey::Metadata;

fn settings() -> Settings {
    let topic = |name: &str, partitions| DeclaredTopic { name: name.into(), partitions: Some(partitions) };
    Settings { topics: vec![topic("a", 2), topic("b", 3)], num_partitions: 4, ..Settings::default() }
}

fn name(name: &str) -> MetadataRequestTopic<'_> {
    MetadataRequestTopic { name: Some(name.into()), ..Default::default() }
}

fn id(id: TopicId) -> MetadataRequestTopic<'static> {
    MetadataRequestTopic { topic_id: id.into(), name: None }
}

/// Asks and looks at the answer, without letting the cores turn.
fn ask<R>(
    world: &mut World,
    version: i16,
    request: &MetadataRequest<'_>,
    look: impl FnOnce(MetadataResponse<'_>) -> R,
) -> R {
    let (_, verdict, answer) = world.send(0, API, version, request);
    assert!(matches!(verdict, Verdict::Answered), "Metadata never waits");
    look(read(&answer.expect("an answer"), API, version))
}

/// Name, error and number of partitions of each topic.
type Row = (Option<String>, i16, usize);

fn topics(response: &MetadataResponse<'_>) -> Vec<Row> {
    let row = |topic: crate::wire::metadata::MetadataResponseTopic<'_>| {
        (topic.name.map(Into::into), topic.error_code, topic.partitions.len())
    };
    response.topics.iter().map(row).collect()
}

fn named(world: &mut World, version: i16, names: &[&str], creates: bool) -> Vec<Row> {
    let rows: Vec<_> = names.iter().map(|topic| name(topic)).collect();
    let request =
        MetadataRequest { topics: Some(Array::Items(&rows)), allow_auto_topic_creation: creates, ..Default::default() };
    ask(world, version, &request, |response| topics(&response))
}

fn row(name: &str, error: i16, partitions: usize) -> Row {
    (Some(name.into()), error, partitions)
}

fn id_of(world: &World, topic: &str) -> TopicId {
    world.shards[0].views.catalogue(&pin()).by_name(topic).expect("the topic").id
}

#[test]
fn all_topics_or_none_and_always_the_nodes() {
    let mut world = World::new(2, settings());
    world.listener = ListenerIndex(1);
    for version in versions(API) {
        let all = MetadataRequest { topics: None, ..Default::default() };
        ask(&mut world, version, &all, |response| {
            assert_eq!(topics(&response), [row("a", 0, 2), row("b", 0, 3)], "v{version}");
            let nodes: Vec<_> =
                response.brokers.iter().map(|node| (node.node_id, node.host.into_owned(), node.port)).collect();
            assert_eq!(nodes, [(1, "out.example".into(), 19092), (2, "out.example".into(), 19093)], "v{version}");
            assert_eq!(response.controller_id, if version >= 1 { 1 } else { -1 });
            assert_eq!(response.cluster_id.is_some(), version >= 2);
            assert_eq!(response.cluster_authorized_operations, i32::MIN);
        });
        let none = MetadataRequest { topics: Some(Array::EMPTY), ..Default::default() };
        let count = ask(&mut world, version, &none, |response| (response.topics.len(), response.brokers.len()));
        assert_eq!(count, if version == 0 { (2, 2) } else { (0, 2) }, "v{version}");
    }
}

#[test]
fn partitions_name_their_leader_as_the_only_replica() {
    let mut world = World::new(2, settings());
    let topic_id = id_of(&world, "b");
    for version in versions(API) {
        let rows = [name("b")];
        let request = MetadataRequest { topics: Some(Array::Items(&rows)), ..Default::default() };
        ask(&mut world, version, &request, |response| {
            let topic = response.topics.iter().next().expect("a topic");
            assert_eq!(topic.topic_id, if version >= 10 { topic_id.into() } else { Uuid::ZERO });
            assert!(!topic.is_internal);
            let leaders: Vec<i32> = topic.partitions.iter().map(|partition| partition.leader_id).collect();
            assert!(leaders == [1, 2, 1] || leaders == [2, 1, 2], "in turn: {leaders:?}");
            for (index, partition) in topic.partitions.iter().enumerate() {
                assert_eq!((partition.error_code, partition.partition_index), (0, index as i32));
                assert_eq!(partition.leader_epoch, if version >= 7 { 0 } else { -1 });
                assert_eq!(partition.replica_nodes, Array::Items(&[partition.leader_id]));
                assert_eq!(partition.isr_nodes, Array::Items(&[partition.leader_id]));
                assert!(partition.offline_replicas.is_empty());
            }
        });
    }
}

#[test]
fn unknown_bad_and_doubled_names() {
    let mut world = World::new(1, Settings { auto_create_topics: false, ..settings() });
    for version in versions(API) {
        let rows = named(&mut world, version, &["a", "nope", "a", "bad name", "nope", ""], true);
        assert_eq!(rows, [row("a", 0, 2), row("nope", 3, 0), row("bad name", 17, 0), row("", 17, 0)], "v{version}");
        world.settle();
        assert_eq!(named(&mut world, version, &["nope"], true), [row("nope", 3, 0)], "nothing is created");
    }
}

#[test]
fn unknown_topics_are_created_if_both_sides_allow_it() {
    let mut world = World::new(2, settings());
    for version in versions(API) {
        let (wanted, other) = (format!("wanted-v{version}"), format!("other-v{version}"));
        assert_eq!(named(&mut world, version, &[&wanted, "bad name"], true)[0], row(&wanted, 3, 0));
        let before = named(&mut world, version, &[&other], false);
        assert_eq!(before, [row(&other, 3, 0)]);
        world.settle();
        assert_eq!(named(&mut world, version, &[&wanted], false), [row(&wanted, 0, 4)], "v{version}");
        if version >= 4 {
            assert_eq!(named(&mut world, version, &[&other], false), [row(&other, 3, 0)], "v{version}");
        }
    }
}

#[test]
fn creations_under_way_are_bounded() {
    let mut world = World::new(2, Settings::default());
    let limit = limits::AUTO_CREATIONS_UNDER_WAY_MAX;
    let names: Vec<String> = (0..=limit).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(named(&mut world, 12, &names, true).iter().all(|(_, error, _)| *error == 3));
    world.settle();
    let rows = named(&mut world, 12, &names, true);
    assert_eq!(rows.iter().filter(|(_, error, _)| *error == 0).count(), limit);
    assert_eq!(rows[limit].1, 3, "one past the limit has to be asked for again");
    world.settle();
    assert_eq!(named(&mut world, 12, &names[limit..], false)[0].1, 0);
}

#[test]
fn internal_topics_are_marked_before_and_after_they_exist() {
    let mut world = World::new(1, settings());
    let rows = [name("__consumer_offsets")];
    let request = MetadataRequest { topics: Some(Array::Items(&rows)), ..Default::default() };
    let look = |response: MetadataResponse<'_>| {
        let topic = response.topics.iter().next().expect("a topic");
        (topic.error_code, topic.is_internal, topic.partitions.len())
    };
    assert_eq!(ask(&mut world, 12, &request, look), (3, true, 0));
    world.settle();
    assert_eq!(ask(&mut world, 12, &request, look), (0, true, 50));
}

#[test]
fn by_id_from_v12_on() {
    let mut world = World::new(1, settings());
    let (known, unknown) = (id_of(&world, "a"), TopicId([9; 16]));
    for version in 10..=13 {
        let rows = [id(known), id(unknown), id(known), name("b")];
        let request = MetadataRequest { topics: Some(Array::Items(&rows)), ..Default::default() };
        ask(&mut world, version, &request, |response| {
            if version < 12 {
                assert_eq!(response.topics.iter().map(|topic| topic.error_code).collect::<Vec<_>>(), [42; 4]);
                assert_eq!((response.brokers.len(), response.controller_id, response.cluster_id), (0, -1, None));
            } else {
                assert_eq!(topics(&response), [row("a", 0, 2), (None, 100, 0)], "names beside ids are not answered");
                assert_eq!(response.topics.iter().nth(1).map(|topic| topic.topic_id), Some(unknown.into()));
            }
        });
        let rows = [MetadataRequestTopic { name: None, ..Default::default() }];
        let request = MetadataRequest { topics: Some(Array::Items(&rows)), ..Default::default() };
        let refused = ask(&mut world, version, &request, |response| (topics(&response)[0].1, response.brokers.len()));
        assert_eq!(refused, (42, 0), "v{version}");
    }
}

#[test]
fn operations_are_told_when_asked_for() {
    let mut world = World::denying(1, settings(), &[(Operation::Delete, "b")]);
    let rows = [name("a"), name("b"), name("nope")];
    for version in 8..=13 {
        let request = MetadataRequest {
            topics: Some(Array::Items(&rows)),
            allow_auto_topic_creation: false,
            include_cluster_authorized_operations: true,
            include_topic_authorized_operations: true,
        };
        ask(&mut world, version, &request, |response| {
            let topics: Vec<i32> = response.topics.iter().map(|topic| topic.topic_authorized_operations).collect();
            assert_eq!(topics, [3576, 3576 - (1 << 6), i32::MIN], "v{version}");
            assert_eq!(response.cluster_authorized_operations, if version <= 10 { 8096 } else { i32::MIN });
        });
    }
}

#[test]
fn what_may_not_be_described_is_not_shown() {
    let denied = [
        (Operation::Describe, "b"),
        (Operation::Describe, "nope"),
        (Operation::Create, "new"),
        (Operation::Create, "kafka-cluster"),
    ];
    let mut world = World::denying(1, settings(), &denied);
    let hidden = id_of(&world, "b");
    for version in versions(API) {
        let rows = named(&mut world, version, &["b", "nope", "a", "new"], true);
        assert_eq!(rows, [row("b", 29, 0), row("nope", 29, 0), row("a", 0, 2), row("new", 29, 0)], "v{version}");
        let all = MetadataRequest { topics: None, ..Default::default() };
        assert_eq!(ask(&mut world, version, &all, |response| topics(&response)), [row("a", 0, 2)], "v{version}");
    }
    let rows = [id(hidden)];
    let request = MetadataRequest { topics: Some(Array::Items(&rows)), ..Default::default() };
    assert_eq!(ask(&mut world, 12, &request, |response| topics(&response)), [(None, 29, 0)]);
}

#[test]
fn describe_cluster_agrees() {
    let mut world = World::new(2, settings());
    let api = ApiKey::DescribeCluster;
    for version in versions(api) {
        let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
        let answer = world.ask(1, api, version, &request);
        let response: DescribeClusterResponse<'_> = read(&answer, api, version);
        let nodes: Vec<_> = response.brokers.iter().map(|node| (node.broker_id, node.port, node.is_fenced)).collect();
        assert_eq!(nodes, [(1, 9092, false), (2, 9093, false)]);
        assert_eq!((response.error_code, response.controller_id, response.endpoint_type), (0, 1, 1));
        assert_eq!((response.cluster_id.len(), response.error_message), (CLUSTER_ID_BYTES, None));
        assert_eq!(response.cluster_authorized_operations, 8096);
        for (endpoint_type, error) in [(2, 114), (3, 115), (0, 115)].into_iter().filter(|_| version >= 1) {
            let answer = world.ask(1, api, version, &DescribeClusterRequest { endpoint_type, ..Default::default() });
            let response: DescribeClusterResponse<'_> = read(&answer, api, version);
            assert_eq!((response.error_code, response.brokers.len(), response.controller_id), (error, 0, -1));
        }
    }
}

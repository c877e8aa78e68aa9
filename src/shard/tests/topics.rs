//! CreateTopics and DeleteTopics over whole shards, in every version.

use super::*;
use crate::ids::TopicId;
use crate::limits;
use crate::wire::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse,
};
use crate::wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse};
use crate::wire::find_coordinator::FindCoordinatorRequest;
use crate::wire::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::wire::{Array, Uuid};

const CREATE: ApiKey = ApiKey::CreateTopics;
const DELETE: ApiKey = ApiKey::DeleteTopics;

fn topic(name: &str) -> CreatableTopic<'_> {
    CreatableTopic { name: name.into(), num_partitions: 3, replication_factor: 1, ..Default::default() }
}

fn create<R>(
    world: &mut World,
    core: usize,
    version: i16,
    topics: &[CreatableTopic<'_>],
    look: impl FnOnce(CreateTopicsResponse<'_>) -> R,
) -> R {
    let request = CreateTopicsRequest { topics: Array::Items(topics), ..Default::default() };
    let answer = world.ask(core, CREATE, version, &request);
    look(read(&answer, CREATE, version))
}

/// Names and errors, by name.
fn created(response: &CreateTopicsResponse<'_>) -> Vec<(String, i16)> {
    let mut rows: Vec<_> = response.topics.iter().map(|topic| (topic.name.into(), topic.error_code)).collect();
    rows.sort();
    rows
}

fn deleted(world: &mut World, version: i16, request: &DeleteTopicsRequest<'_>) -> Vec<(Option<String>, Uuid, i16)> {
    let answer = world.ask(0, DELETE, version, request);
    let response: DeleteTopicsResponse<'_> = read(&answer, DELETE, version);
    let mut rows: Vec<_> =
        response.responses.iter().map(|row| (row.name.map(Into::into), row.topic_id, row.error_code)).collect();
    rows.sort();
    rows
}

fn id_of(world: &World, topic: &str) -> Option<TopicId> {
    world.shards[0].views.catalogue(&pin()).by_name(topic).map(|topic| topic.id)
}

#[test]
fn a_topic_is_there_when_its_creation_is_answered_whichever_core_was_asked() {
    let mut world = World::new(2, Settings::default());
    for version in versions(CREATE) {
        for core in 0..2 {
            let name = format!("v{version}-{core}");
            let configs = [CreatableTopicConfig { name: "retention.ms".into(), value: Some("5000".into()) }];
            let asked = CreatableTopic { configs: Array::Items(&configs), ..topic(&name) };
            create(&mut world, core, version, &[asked], |response| {
                let row = response.topics.iter().next().expect("a row");
                assert_eq!(
                    (&*row.name, row.error_code, row.error_message),
                    (&*name, 0, if version == 0 { Some("".into()) } else { None })
                );
                if version >= 5 {
                    assert_eq!((row.num_partitions, row.replication_factor, row.topic_config_error_code), (3, 1, 0));
                    let configs = row.configs.expect("configs");
                    let value = |name: &str| {
                        let config = configs.iter().find(|config| config.name == name).expect("listed");
                        (config.value.map(String::from), config.config_source)
                    };
                    assert_eq!(value("retention.ms"), (Some("5000".into()), 1));
                    assert_eq!(value("cleanup.policy"), (Some("delete".into()), 5));
                    assert_eq!(value("rallypoint.records"), (Some("1000".into()), 5));
                }
                assert_eq!(row.topic_id.is_zero(), version < 7);
            });
            assert!(id_of(&world, &name).is_some());
        }
    }
}

#[test]
fn each_topic_of_a_request_is_judged_for_itself() {
    let mut world = World::new(1, Settings::default());
    for version in versions(CREATE) {
        let (good, twice) = (format!("good-{version}"), format!("twice-{version}"));
        let topics = [topic(&good), topic("bad name"), topic(&twice), topic(&twice), topic("__cluster_metadata")];
        let rows = create(&mut world, 0, version, &topics, |response| created(&response));
        let mut expected = vec![
            ("__cluster_metadata".to_string(), 42),
            ("bad name".into(), 17),
            (good.clone(), 0),
            (twice.clone(), 42),
        ];
        expected.sort();
        assert_eq!(rows, expected, "v{version}");
        assert!(id_of(&world, &twice).is_none());
        create(&mut world, 0, version, &[topic(&good)], |response| {
            let row = response.topics.iter().next().expect("a row");
            assert_eq!((row.error_code, row.num_partitions, row.replication_factor), (36, -1, -1));
            assert_eq!(row.configs.map(|configs| configs.len()), Some(0));
            assert!(row.topic_id.is_zero() && row.error_message.is_some_and(|message| !message.is_empty()));
        });
    }
    assert_eq!(create(&mut world, 0, 7, &[], |response| response.topics.len()), 0);
}

#[test]
fn one_request_changes_so_many_topics_and_no_more() {
    let mut world = World::new(2, Settings::default());
    let names: Vec<String> = (0..=limits::CHANGED_TOPICS_MAX).map(|number| format!("t{number}")).collect();
    let topics: Vec<_> = names.iter().map(|name| CreatableTopic { num_partitions: 1, ..topic(name) }).collect();
    let names: Vec<Cow<'_, str>> = names.iter().map(|name| name.into()).collect();
    let states: Vec<_> =
        names.iter().map(|name| DeleteTopicState { name: Some(name.clone()), ..Default::default() }).collect();
    for (count, is_asked) in [(limits::CHANGED_TOPICS_MAX, true), (limits::CHANGED_TOPICS_MAX + 1, false)] {
        let request = CreateTopicsRequest { topics: Array::Items(&topics[..count]), ..Default::default() };
        for version in versions(CREATE) {
            let (_, verdict, answer) = world.send(1, CREATE, version, &request);
            assert_eq!(matches!(verdict, Verdict::Parked), is_asked, "v{version}");
            if let Some(answer) = answer {
                let rows = created(&read(&answer, CREATE, version));
                assert!(rows.len() == count && rows.iter().all(|(_, code)| *code == 44), "v{version}");
            }
        }
        for version in versions(DELETE) {
            let request = DeleteTopicsRequest {
                topics: Array::Items(&states[..count]),
                topic_names: Array::Items(&names[..count]),
                timeout_ms: 1_000,
            };
            let (_, verdict, answer) = world.send(1, DELETE, version, &request);
            assert_eq!(matches!(verdict, Verdict::Parked), is_asked, "v{version}");
            if let Some(answer) = answer {
                let response: DeleteTopicsResponse<'_> = read(&answer, DELETE, version);
                assert_eq!(response.responses.len(), count);
                assert!(response.responses.iter().all(|row| row.error_code == 44), "v{version}");
            }
        }
    }
}

#[test]
fn what_topics_are_made_of_is_bounded_too() {
    let mut world = World::new(2, Settings::default());
    let config = |number: usize| (format!("k{number}"), "1".to_owned());
    let named: Vec<_> = (0..=limits::CREATE_CONFIGS_MAX).map(config).collect();
    let configs: Vec<_> = named
        .iter()
        .map(|(name, value)| CreatableTopicConfig { name: name.into(), value: Some(value.into()) })
        .collect();
    let assignment = |index| CreatableReplicaAssignment { partition_index: index, broker_ids: Array::Items(&[1]) };
    let assignments: Vec<_> = (0..=limits::CREATE_PARTITIONS_MAX as i32).map(assignment).collect();
    let (most_configs, most) = (limits::CREATE_CONFIGS_MAX, limits::CREATE_PARTITIONS_MAX);
    for (configs_count, assignments_count, is_asked) in
        [(most_configs, 0, true), (most_configs + 1, 0, false), (0, most, true), (0, most + 1, false)]
    {
        let topics = [CreatableTopic {
            configs: Array::Items(&configs[..configs_count]),
            assignments: Array::Items(&assignments[..assignments_count]),
            ..topic("t")
        }];
        let request = CreateTopicsRequest { topics: Array::Items(&topics), ..Default::default() };
        let (_, verdict, answer) = world.send(1, CREATE, 7, &request);
        assert_eq!(matches!(verdict, Verdict::Parked), is_asked, "{configs_count}, {assignments_count}");
        let code = answer.map(|answer| created(&read(&answer, CREATE, 7))[0].1);
        assert_eq!(code, if is_asked { None } else { Some(44) });
    }
}

#[test]
fn changes_under_way_are_bounded_all_together() {
    let mut world = World::new(2, Settings::default());
    let texts: Vec<String> = (0..120).map(|number| format!("{number:0>32000}")).collect();
    // As much as that, and a little for what is around it.
    let fit = limits::CHANGES_UNDER_WAY_MAX_BYTES / (120 * 32_100);
    let config = |text| CreatableTopicConfig { name: "k".into(), value: Some(Cow::from(text)) };
    let configs: Vec<_> = texts.iter().map(config).collect();
    let topics = [CreatableTopic { configs: Array::Items(&configs), ..topic("t") }];
    let request = CreateTopicsRequest { topics: Array::Items(&topics), ..Default::default() };
    let names: Vec<Cow<'_, str>> = texts.iter().map(Cow::from).collect();
    let delete = DeleteTopicsRequest { topic_names: Array::Items(&names), timeout_ms: 1_000, ..Default::default() };
    for _ in 0..2 {
        for _ in 0..fit {
            assert!(matches!(world.send(1, CREATE, 7, &request).1, Verdict::Parked));
        }
        let (_, _, answer) = world.send(1, CREATE, 7, &request);
        assert_eq!(created(&read(&answer.expect("refused at once"), CREATE, 7)), [("t".into(), 7)]);
        let (_, _, answer) = world.send(1, DELETE, 5, &delete);
        let answer = answer.expect("refused at once");
        let response: DeleteTopicsResponse<'_> = read(&answer, DELETE, 5);
        assert!(response.responses.len() == 120 && response.responses.iter().all(|row| row.error_code == 7));
        // When they are answered there is room again.
        world.settle();
    }
}

#[test]
fn assignments_name_the_leaders() {
    let mut world = World::new(2, Settings::default());
    let brokers = [[2], [2], [1]];
    let rows: Vec<_> = (0..3)
        .map(|index| CreatableReplicaAssignment {
            partition_index: index as i32,
            broker_ids: Array::Items(&brokers[index]),
        })
        .collect();
    let asked = CreatableTopic {
        name: "assigned".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: Array::Items(&rows),
        ..Default::default()
    };
    create(&mut world, 1, 7, &[asked], |response| {
        let row = response.topics.iter().next().expect("a row");
        assert_eq!((row.error_code, row.num_partitions, row.replication_factor), (0, 3, 1));
    });
    let guard = pin();
    let leaders = world.shards[0].views.catalogue(&guard).by_name("assigned").expect("the topic").partitions.iter();
    assert_eq!(leaders.map(|partition| partition.leader.0).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn rights_to_create_and_to_see_configs() {
    let denied =
        [(Operation::Create, "kafka-cluster"), (Operation::Create, "denied"), (Operation::DescribeConfigs, "shy")];
    let mut world = World::denying(1, Settings::default(), &denied);
    create(&mut world, 0, 7, &[topic("denied"), topic("shy"), topic("open")], |response| {
        assert_eq!(created(&response), [("denied".into(), 29), ("open".into(), 0), ("shy".into(), 0)]);
        let shy = response.topics.iter().find(|topic| topic.name == "shy").expect("a row");
        assert_eq!((shy.topic_config_error_code, shy.num_partitions, shy.replication_factor), (29, -1, -1));
        assert_eq!(shy.configs.map(|configs| configs.len()), Some(0));
    });
    assert!(id_of(&world, "denied").is_none() && id_of(&world, "shy").is_some());
}

#[test]
fn deletions_by_name_in_every_version() {
    let mut world = World::new(1, Settings::default());
    for version in versions(DELETE) {
        create(&mut world, 0, 7, &[topic("a"), topic("b")], |_| {});
        let names = ["a".into(), "none".into(), "b".into(), "b".into()];
        let states: Vec<_> = names
            .iter()
            .map(|name: &std::borrow::Cow<'_, str>| DeleteTopicState { name: Some(name.clone()), ..Default::default() })
            .collect();
        let request =
            DeleteTopicsRequest { topics: Array::Items(&states), topic_names: Array::Items(&names), timeout_ms: 1_000 };
        let id = id_of(&world, "a").map_or(Uuid::ZERO, Uuid::from);
        let id = if version >= 6 { id } else { Uuid::ZERO };
        let rows = deleted(&mut world, version, &request);
        let row = |name: &str, id, error| (Some(name.to_string()), id, error);
        let expected = [row("a", id, 0), row("b", Uuid::ZERO, 42), row("none", Uuid::ZERO, 3)];
        assert_eq!(rows, expected, "v{version}");
        assert!(id_of(&world, "a").is_none() && id_of(&world, "b").is_some());
        let rest = ["b".into()];
        let rest_states = [DeleteTopicState { name: Some("b".into()), ..Default::default() }];
        let request = DeleteTopicsRequest {
            topics: Array::Items(&rest_states),
            topic_names: Array::Items(&rest),
            timeout_ms: 1_000,
        };
        assert_eq!(deleted(&mut world, version, &request)[0].2, 0);
    }
}

#[test]
fn deletions_by_id() {
    let denied = [(Operation::Delete, "shy"), (Operation::Describe, "shy"), (Operation::Delete, "kept")];
    let mut world = World::denying(2, Settings::default(), &denied);
    create(&mut world, 0, 7, &[topic("a"), topic("b"), topic("shy"), topic("kept")], |_| {});
    let id = |name| Uuid::from(id_of(&world, name).expect("the topic"));
    let (a, b, shy, kept, unknown) = (id("a"), id("b"), id("shy"), id("kept"), Uuid([3; 16]));
    let state = |name: Option<&'static str>, topic_id| DeleteTopicState { name: name.map(Into::into), topic_id };
    let states = [
        state(None, a),
        state(None, b),
        state(Some("b"), Uuid::ZERO),
        state(None, unknown),
        state(None, shy),
        state(None, kept),
        state(Some("x"), a),
        state(None, Uuid::ZERO),
    ];
    let request = DeleteTopicsRequest { topics: Array::Items(&states), timeout_ms: 1_000, ..Default::default() };
    let rows = deleted(&mut world, 6, &request);
    let mut expected = vec![
        (Some("a".to_string()), a, 0),
        (Some("b".into()), b, 42),
        (None, unknown, 100),
        (None, shy, 29),
        (Some("kept".into()), kept, 29),
        (Some("x".into()), a, 42),
        (None, Uuid::ZERO, 42),
    ];
    expected.sort();
    assert_eq!(rows, expected);
    assert!(id_of(&world, "a").is_none() && id_of(&world, "b").is_some() && id_of(&world, "shy").is_some());
}

#[test]
fn deletion_may_be_switched_off() {
    let mut world = World::new(1, Settings { delete_topics: false, ..Settings::default() });
    create(&mut world, 0, 7, &[topic("a")], |response| assert_eq!(created(&response), [("a".into(), 0)]));
    for version in versions(DELETE) {
        let error = if version < 3 { 42 } else { 73 };
        let names = ["a".into(), "a".into(), "none".into()];
        let states = names.clone().map(|name| DeleteTopicState { name: Some(name), ..Default::default() });
        let request =
            DeleteTopicsRequest { topics: Array::Items(&states), topic_names: Array::Items(&names), timeout_ms: 1_000 };
        let row = |name: &str| (Some(name.to_owned()), Uuid::default(), error);
        assert_eq!(deleted(&mut world, version, &request), [row("a"), row("a"), row("none")], "v{version}");
    }
    assert!(id_of(&world, "a").is_some());
}

/// Only this core turns.
fn turn(world: &mut World, core: usize) {
    let (shard, network) = (&mut world.shards[core], &mut world.networks[core]);
    shard.begin(world.now);
    shard.turn(world.now, network).expect("nothing fails");
    std::mem::take(&mut network.writes).into_iter().for_each(|token| shard.written(token, Ok(())));
}

#[test]
fn a_topic_that_is_made_again_keeps_what_is_committed_before_the_end_of_the_old_one_is_heard_of() {
    const LATE: usize = 1;
    let mut world = World::new(2, Settings::default());
    world.ask(0, ApiKey::FindCoordinator, 3, &FindCoordinatorRequest { key: "g".into(), ..Default::default() });
    create(&mut world, 0, 7, &[topic("t")], |response| assert_eq!(created(&response), [("t".into(), 0)]));
    let is_late = |group_id: &String| {
        world.shards[LATE].views.table(&pin()).offsets_partition_led_by(world.shards[LATE].node(), group_id).is_some()
    };
    let groups: Vec<_> = (0..100).map(|number| format!("g-{number}")).filter(is_late).take(2).collect();
    let commit = |world: &mut World, group_id: &str, committed_offset: i64| {
        let rows = [OffsetCommitRequestPartition { committed_offset, ..Default::default() }];
        let topics =
            [OffsetCommitRequestTopic { name: "t".into(), partitions: Array::Items(&rows), ..Default::default() }];
        let (group_id, topics) = (group_id.into(), Array::Items(&topics[..]));
        world.send(LATE, ApiKey::OffsetCommit, 8, &OffsetCommitRequest { group_id, topics, ..Default::default() });
    };
    groups.iter().for_each(|group_id| commit(&mut world, group_id, 1));
    world.settle();

    let old = id_of(&world, "t");
    let topic_names = Array::Items(&["t".into()][..]);
    world.send(0, DELETE, 5, &DeleteTopicsRequest { topic_names, timeout_ms: 1_000, ..Default::default() });
    (0..2).for_each(|_| turn(&mut world, 0));
    let topics = Array::Items(&[topic("t")][..]);
    world.send(0, CREATE, 7, &CreateTopicsRequest { topics, ..Default::default() });
    (0..2).for_each(|_| turn(&mut world, 0));
    assert!(id_of(&world, "t").is_some_and(|id| Some(id) != old));
    commit(&mut world, &groups[0], 2);
    world.settle();
    let offset = |group_id: &String| {
        let offsets = world.shards[LATE].groups.offsets(group_id).expect("it is there");
        offsets.get("t", None, 0).map(|found| found.offset)
    };
    assert_eq!([&groups[0], &groups[1]].map(offset), [Some(2), None]);
}

//! FindCoordinator over whole shards, in every version.

use std::borrow::Cow;

use super::*;
use crate::config::InternalTopicSettings;
use crate::ids::InternalTopicKind;
use crate::wire::Array;
use crate::wire::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};

const API: ApiKey = ApiKey::FindCoordinator;

/// Key, error, message, node, host, port.
type Row = (String, i16, Option<String>, i32, String, i32);

fn find(world: &mut World, core: usize, version: i16, key_type: i8, keys: &[&str]) -> Vec<Row> {
    let keys: Vec<Cow<'_, str>> = keys.iter().map(|&key| key.into()).collect();
    let request = FindCoordinatorRequest {
        key: keys.first().cloned().unwrap_or_default(),
        key_type,
        coordinator_keys: Array::Items(&keys),
    };
    let (_, verdict, answer) = world.send(core, API, version, &request);
    assert!(matches!(verdict, Verdict::Answered), "a look-up never waits");
    let answer = answer.expect("an answer");
    let response: FindCoordinatorResponse<'_> = read(&answer, API, version);
    assert_eq!(response.throttle_time_ms, 0);
    if version >= 4 {
        let row = |row: crate::wire::find_coordinator::Coordinator<'_>| {
            let message = row.error_message.map(Into::into);
            (row.key.into(), row.error_code, message, row.node_id, row.host.into(), row.port)
        };
        return response.coordinators.iter().map(row).collect();
    }
    let message = response.error_message.map(Into::into);
    vec![(keys[0].to_string(), response.error_code, message, response.node_id, response.host.into(), response.port)]
}

fn absent(key: &str, version: i16, error: ErrorCode, is_whole: bool) -> Row {
    let message = if version == 0 || (version >= 4 && !is_whole) { "" } else { error.name() };
    (key.into(), error.0, Some(message.into()), -1, String::new(), -1)
}

fn with_topics(cores: usize) -> World {
    let mut world = World::new(cores, Settings::default());
    for kind in [0, 1, 2] {
        find(&mut world, 0, 6, kind, &["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]);
        world.settle();
    }
    world
}

#[test]
fn the_first_look_up_creates_the_topic_and_the_next_finds_it() {
    for cores in [1, 2, 3] {
        for core in 0..cores {
            for version in versions(API) {
                let mut world = World::new(cores, Settings::default());
                let unavailable = absent("my-group", version, ErrorCode::COORDINATOR_NOT_AVAILABLE, false);
                assert_eq!(find(&mut world, core, version, 0, &["my-group"]), [unavailable], "v{version}");
                world.settle();
                // "my-group" is in partition 12.
                let leader = 12 % cores as i32;
                for asked in 0..cores {
                    let message = if version == 0 || version >= 4 { "" } else { "NONE" };
                    let row = ("my-group".into(), 0, Some(message.into()), 1 + leader, "in".into(), 9092 + leader);
                    assert_eq!(find(&mut world, asked, version, 0, &["my-group"]), [row], "v{version}");
                }
            }
        }
    }
}

#[test]
fn the_answer_is_for_the_listener_that_was_asked() {
    let mut world = with_topics(2);
    for version in versions(API) {
        for (listener, host, port) in [(0, "in", 9093), (1, "out.example", 19093)] {
            world.listener = ListenerIndex(listener);
            // "group-id" is in partition 13.
            let row = &find(&mut world, 0, version, 0, &["group-id"])[0];
            assert_eq!((row.1, row.3, &*row.4, row.5), (0, 2, host, port), "v{version}");
        }
        world.listener = ListenerIndex(9);
        assert_eq!(find(&mut world, 0, version, 0, &["group-id"])[0].1, 15, "an unknown listener has no endpoints");
    }
}

#[test]
fn a_batch_keeps_its_order_and_echoes_each_key() {
    let mut world = with_topics(2);
    let long = "k".repeat(32_767);
    let keys = ["c", "a", "", "a", "äöü-😀", &long];
    for version in 4..=6 {
        let rows = find(&mut world, 1, version, 0, &keys);
        assert_eq!(rows.iter().map(|row| &*row.0).collect::<Vec<_>>(), keys);
        assert!(rows.iter().all(|row| row.1 == 0 && row.2.as_deref() == Some("") && row.3 > 0));
        assert_eq!(find(&mut world, 1, version, 0, &[]), []);
    }
}

#[test]
fn transactions_have_a_topic_of_their_own() {
    let mut world = World::new(2, Settings::default());
    let unavailable = absent("tx", 1, ErrorCode::COORDINATOR_NOT_AVAILABLE, false);
    assert_eq!(find(&mut world, 1, 1, 1, &["tx"]), [unavailable]);
    world.settle();
    for version in 1..=6 {
        for key in ["tx", ""] {
            let row = &find(&mut world, 0, version, 1, &[key])[0];
            assert_eq!((row.1, &*row.4), (0, "in"), "v{version} {key:?}");
        }
        assert_eq!(find(&mut world, 0, version, 0, &["g"])[0].1, if version == 1 { 15 } else { 0 });
        world.settle();
    }
}

#[test]
fn share_keys_are_read_from_v6_on_and_refused_before() {
    let mut world = with_topics(2);
    let good = ["g:AAAAAAAAAAAAAAAAAAAAAQ:0", "a:b:AAAAAAAAAAAAAAAAAAAAAQ:-7"];
    let bad =
        ["junk", "", "g:zz:0", "g:AAAAAAAAAAAAAAAAAAAAAQ", "g:AAAAAAAAAAAAAAAAAAAAAQ:x", ":AAAAAAAAAAAAAAAAAAAAAQ:0"];
    for version in 1..=5 {
        let refused = absent(good[0], version, ErrorCode::INVALID_REQUEST, false);
        assert_eq!(find(&mut world, 0, version, 2, &[good[0]]), [refused], "v{version}");
    }
    for key in bad {
        assert_eq!(find(&mut world, 0, 6, 2, &[key]), [absent(key, 6, ErrorCode::INVALID_REQUEST, false)]);
    }
    assert!(find(&mut world, 0, 6, 2, &good).iter().all(|row| row.1 == 0));
}

#[test]
fn an_unknown_key_type_fails_every_key() {
    let mut world = with_topics(1);
    for key_type in [3, -1, 127] {
        for version in 1..=6 {
            let keys: &[&str] = if version >= 4 { &["a", "b"] } else { &["a"] };
            let expected: Vec<Row> =
                keys.iter().map(|key| absent(key, version, ErrorCode::INVALID_REQUEST, true)).collect();
            assert_eq!(find(&mut world, 0, version, key_type, keys), expected, "v{version}");
        }
    }
}

#[test]
fn who_may_not_describe_is_refused_and_creates_nothing() {
    let denied = [(Operation::Describe, "secret"), (Operation::ClusterAction, "kafka-cluster")];
    let mut world = World::denying(1, Settings::default(), &denied);
    for version in versions(API) {
        let refused = absent("secret", version, ErrorCode::GROUP_AUTHORIZATION_FAILED, false);
        assert_eq!(find(&mut world, 0, version, 0, &["secret"]), [refused]);
        world.settle();
        let guard = pin();
        assert!(world.shards[0].views.table(&guard).internal(InternalTopicKind::Offsets).is_none());
    }
    let refused = absent("secret", 2, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, false);
    assert_eq!(find(&mut world, 0, 2, 1, &["secret"]), [refused]);
    let keys = ["g:AAAAAAAAAAAAAAAAAAAAAQ:0", "junk"];
    let refused = keys.map(|key| absent(key, 6, ErrorCode::CLUSTER_AUTHORIZATION_FAILED, true));
    assert_eq!(find(&mut world, 0, 6, 2, &keys), refused);
    let rows = find(&mut world, 0, 6, 0, &["open", "secret"]);
    assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [15, 30], "each key for itself");
}

#[test]
fn too_few_nodes_for_the_replicas_stay_unavailable() {
    let offsets_topic = InternalTopicSettings { partitions: 50, replication_factor: 30 };
    let mut world = World::new(2, Settings { offsets_topic, ..Settings::default() });
    for version in versions(API) {
        assert_eq!(find(&mut world, 1, version, 0, &["g"])[0].1, 15);
        world.settle();
    }
}

#[test]
fn while_a_creation_is_under_way_no_other_is_asked_for() {
    let mut world = World::new(1, Settings::default());
    for _ in 0..100 {
        assert_eq!(find(&mut world, 0, 0, 0, &["g"])[0].1, 15);
    }
    let before = world.networks[0].log.len();
    world.settle();
    let written = replay(&world.networks[0].log).expect("a good log");
    assert!(world.networks[0].log.len() > before);
    assert_eq!(written.records.len(), 3, "cluster, nodes, one topic");
}

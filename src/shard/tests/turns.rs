//! How long fan-outs are cut into turns.

use super::*;
use crate::wire::Array;
use crate::wire::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};

fn join(world: &mut World) {
    let protocols = [JoinGroupRequestProtocol { name: "range".into(), metadata: b"" }];
    let request = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: Array::Items(&protocols),
        ..JoinGroupRequest::default()
    };
    assert!(matches!(world.send(0, ApiKey::JoinGroup, 3, &request).1, Verdict::Parked));
}

/// How many parked requests one turn of a core answers. The service has its turn twice in it, as it has when an answer let
/// other requests go on.
pub(super) fn answers_of_a_turn(world: &mut World, core: usize, is_late: bool) -> usize {
    world.networks[core].is_late = is_late;
    let before = world.networks[core].answers.len();
    world.shards[core].begin(world.now);
    for _ in 0..2 {
        world.shards[core].turn(world.now, &mut world.networks[core]).expect("nothing fails");
    }
    world.networks[core].answers.len() - before
}

#[test]
fn a_turn_that_has_no_time_leaves_answers_to_the_next_which_gives_some_in_any_case() {
    let mut world = World::new(1, Settings::default());
    world.ask(0, ApiKey::FindCoordinator, 0, &crate::wire::find_coordinator::FindCoordinatorRequest::default());
    (0..100).for_each(|_| join(&mut world));
    // The join phase was prolonged once, for those who came after the first.
    world.advance(3_000);
    world.now = world.now.after(Duration::from_secs(3));
    let given = [true, true, true, false, false, false, false].map(|is_late| answers_of_a_turn(&mut world, 0, is_late));
    assert_eq!(given, [0, 16, 16, 32, 32, 4, 0]);
    assert!(world.shards[0].deadline_ms() > Some(world.now.monotonic_ms), "nothing is left to do at once");
}

#[test]
fn a_turn_that_has_no_time_leaves_mail_to_the_next() {
    let mut world = World::new(2, Settings::default());
    for name in ["a", "b", "c"] {
        let topics =
            [CreatableTopic { name: name.into(), num_partitions: 1, replication_factor: 1, ..Default::default() }];
        let request = CreateTopicsRequest { topics: Array::Items(&topics), ..Default::default() };
        assert!(matches!(world.send(1, ApiKey::CreateTopics, 5, &request).1, Verdict::Parked));
    }
    let mut left = Vec::new();
    for is_late in [true, true, false] {
        world.networks[0].is_late = is_late;
        world.shards[0].begin(world.now);
        world.shards[0].turn(world.now, &mut world.networks[0]).expect("nothing fails");
        left.push(world.shards[0].deadline_ms() == Some(world.now.monotonic_ms));
    }
    assert_eq!(left, [true, true, false], "one letter a turn, and the next turn comes at once");
    world.settle();
    assert_eq!(world.networks[1].answers.len(), 3);
}

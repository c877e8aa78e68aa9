//! How long fan-outs are cut into turns.

use super::*;
use crate::wire::Array;
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

/// How many parked requests one turn answers.
fn answers_of_a_turn(world: &mut World, is_late: bool) -> usize {
    world.networks[0].is_late = is_late;
    let before = world.networks[0].answers.len();
    world.shards[0].begin(world.now);
    world.shards[0].turn(world.now, &mut world.networks[0]).expect("nothing fails");
    world.networks[0].answers.len() - before
}

#[test]
fn a_turn_that_has_no_time_leaves_answers_to_the_next_which_gives_some_in_any_case() {
    let mut world = World::new(1, Settings::default());
    world.ask(0, ApiKey::FindCoordinator, 0, &crate::wire::find_coordinator::FindCoordinatorRequest::default());
    (0..100).for_each(|_| join(&mut world));
    // The join phase was prolonged once, for those who came after the first.
    world.advance(3_000);
    world.now = world.now.after(Duration::from_secs(3));
    let given = [true, true, true, false, false, false, false].map(|is_late| answers_of_a_turn(&mut world, is_late));
    assert_eq!(given, [0, 16, 16, 32, 32, 4, 0]);
    assert!(world.shards[0].deadline_ms() > Some(world.now.monotonic_ms), "nothing is left to do at once");
}

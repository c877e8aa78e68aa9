//! Timers: initial delay, sessions, handed-out ids, rebalance and sync time-outs.

use super::join::{accepted, assert_refused, refuses};
use super::room::*;

/// Joins at these moments; when the first one is answered.
fn answered_at(delay_ms: i32, rebalance_ms: i32, joins: &[u64]) -> u64 {
    let mut room = Room::with_delay(delay_ms);
    let start = room.now.monotonic_ms;
    let mut tickets = Vec::new();
    let mut rest = joins;
    loop {
        while let Some((at, later)) = rest.split_first().filter(|(at, _)| room.now.monotonic_ms - start >= **at) {
            assert_eq!(*at, room.now.monotonic_ms - start);
            tickets.push(room.join(&client("g").with_rebalance(rebalance_ms)));
            rest = later;
        }
        if room.is_answered(tickets[0]) {
            assert!(rest.is_empty() && tickets.iter().all(|ticket| room.is_answered(*ticket)));
            return room.now.monotonic_ms - start;
        }
        room.pass(1);
    }
}

#[test]
fn timer_01_02_03_25_26_the_initial_delay_and_its_extensions() {
    for (delay, rebalance, joins, end) in [
        (3_000, 10_000, &[0][..], 3_000),
        (3_000, 9_000, &[0, 2_999], 6_000),
        (3_000, 6_000, &[0, 0, 3_001], 6_000),
        (3_000, 1_000, &[0, 2_999], 3_000),
        (3_000, 3_000, &[0, 1], 3_000),
        (3_000, 10_000, &[0, 0, 0], 6_000),
        (3_000, 7_000, &[0, 2_999, 5_999], 7_000),
        (3_000, 60_000, &[0, 2_999, 5_999, 8_999], 12_000),
        (1_000, 3_000, &[0, 300, 600, 900, 1_200, 1_500, 1_800, 2_100, 2_400, 2_700], 3_000),
        (0, 10_000, &[0], 0),
    ] {
        assert_eq!(answered_at(delay, rebalance, joins), end, "{delay} {rebalance} {joins:?}");
    }
}

#[test]
fn timer_k1_the_delay_comes_again_when_all_have_left() {
    let mut room = Room::with_delay(1_000);
    let first = room.join(&client("g"));
    room.pass(1_000);
    accepted(&mut room, first);
    let id = room.members("g").remove(0).0;
    room.leave("g", &[(&id, None)]);
    let second = room.join(&client("g"));
    room.pass(999);
    assert!(!room.is_answered(second));
    room.pass(1);
    assert_eq!(accepted(&mut room, second).0, 3);
}

#[test]
fn timer_04_a_session_longer_than_five_minutes_outlives_them() {
    let mut room = Room::new();
    let mut member = client("g").with_session(305_000).with_rebalance(600_000);
    room.join_through(&mut member);
    let ticket = room.sync(&member, &[]);
    assert!(room.is_answered(ticket));
    room.pass(304_999);
    assert_eq!(room.state("g"), "Stable");
    room.pass(1);
    assert_eq!(room.state("g"), "Empty");
}

#[test]
fn timer_05_a_newcomers_join_is_answered_after_five_minutes() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(600_000).with_rebalance(600_000)];
    room.stable(&mut members);
    let ticket = room.join(&client("g").with_session(5_000).with_rebalance(5_000));
    room.pass(299_999);
    assert!(!room.is_answered(ticket));
    room.pass(1);
    assert_refused(room.joined(ticket), 25, "");
    assert_eq!((room.heartbeat(&members[0]), room.state("g")), (27, "PreparingRebalance"));
}

#[test]
fn timer_11_the_same_in_the_initial_rebalance_leaves_the_group_empty() {
    let mut room = Room::with_delay(600_000);
    let ticket = room.join(&client("g").with_rebalance(900_000));
    room.pass(300_000);
    assert_refused(room.joined(ticket), 25, "");
    let Some(crate::group::Record::GroupMetadata { group, .. }) = room.journal.last() else { panic!("no record") };
    assert_eq!((room.state("g"), group.generation, group.members.len()), ("Empty", 1, 0));
}

#[test]
fn timer_06_members_that_neither_sync_nor_heartbeat_go_with_their_sessions() {
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_session(5_000));
    room.join_all(&mut members);
    let records = room.journal.len();
    room.pass(4_999);
    assert_eq!(room.state("g"), "CompletingRebalance");
    room.pass(1);
    assert_eq!((room.state("g"), room.journal.len() - records), ("Empty", 1));
}

#[test]
fn timer_07_10_a_session_ends_when_it_has_passed_and_heartbeats_keep_it() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(5_000)];
    room.stable(&mut members);
    let [member] = &members;
    for _ in 0..20 {
        room.pass(2_500);
        assert_eq!(room.heartbeat(member), 0);
    }
    room.pass(4_999);
    assert_eq!(room.state("g"), "Stable");
    room.pass(1);
    assert_eq!((room.state("g"), room.heartbeat(member)), ("Empty", 25));
    let ticket = room.join(&member.clone().with_id(""));
    assert_eq!(accepted(&mut room, ticket).0, member.generation + 2);
}

#[test]
fn timer_k3_neither_wrong_heartbeats_nor_syncs_in_stable_keep_a_session() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(5_000), client("g").with_session(60_000)];
    members.reverse();
    room.stable(&mut members);
    let [other, member] = &members;
    room.pass(2_500);
    assert_eq!(room.heartbeat(&Client { generation: 99, ..member.clone() }), 22);
    room.sync(member, &[]);
    let again = room.join(member);
    assert!(room.is_answered(again));
    room.groups.describe("g").unwrap().member_count();
    room.pass(2_500);
    assert_eq!((room.heartbeat(member), room.heartbeat(other)), (25, 27));
}

#[test]
fn timer_08_k6_a_parked_join_or_sync_stands_in_for_heartbeats() {
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_session(3_000));
    room.stable(&mut members);
    let [mut a, mut b] = members;
    let joining = room.join(&b.clone().with_protocols("range:other"));
    for _ in 0..5 {
        room.pass(2_000);
        assert_eq!(room.heartbeat(&a), 27);
    }
    assert!(!room.is_answered(joining));
    let leader = room.join(&a);
    (a.generation, b.generation) = (accepted(&mut room, leader).0, accepted(&mut room, joining).0);
    let syncing = room.sync(&b, &[]);
    for _ in 0..5 {
        room.pass(2_000);
        assert_eq!(room.heartbeat(&a), 0);
    }
    let ticket = room.sync(&a, &[(&b.id, "B")]);
    assert!(room.is_answered(ticket));
    assert_eq!(&*room.synced(syncing).unwrap().assignment, b"B");
    room.pass(2_999);
    assert_eq!(room.heartbeat(&b), 0, "its session began anew with the answer");
    room.pass(1);
    assert_eq!(room.heartbeat(&b), 27, "the other one has gone silent");
}

#[test]
fn timer_08_a_member_that_was_kept_by_a_parked_request_has_its_session_again_afterwards() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(60_000), client("g").with_session(3_000)];
    room.join_all(&mut members);
    let [a, b] = &members;
    let syncing = room.sync(b, &[]);
    room.pass(5_000);
    room.join(&client("g"));
    assert_eq!(room.synced(syncing).unwrap().error.0, 27);
    room.pass(2_999);
    assert_eq!(room.members("g").len(), 3);
    room.pass(1);
    assert_eq!((room.heartbeat(b), room.heartbeat(a)), (25, 27));
}

#[test]
fn timer_k7_a_newcomers_parked_join_outlives_its_session() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(6_000)];
    room.stable(&mut members);
    let joining = room.join(&client("g").with_session(500));
    for _ in 0..8 {
        room.pass(300);
        assert_eq!(room.heartbeat(&members[0]), 27);
    }
    let leader = room.join(&members[0]);
    accepted(&mut room, leader);
    accepted(&mut room, joining);
}

#[test]
fn timer_09_a_leader_that_heartbeats_but_does_not_rejoin() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(5_000).with_rebalance(10_000)];
    room.stable(&mut members);
    let [a] = &members;
    let newcomer = room.join(&client("g").with_rebalance(10_000));
    room.pass(2_500);
    assert_eq!(room.heartbeat(a), 27);
    room.pass(4_999);
    assert!(!room.is_answered(newcomer));
    room.pass(1);
    assert_eq!(room.heartbeat(a), 25);
    let (generation, leader, known) = accepted(&mut room, newcomer);
    assert_eq!((generation, known), (a.generation + 1, vec![leader]));
}

#[test]
fn timer_12_an_id_that_was_handed_out_is_forgotten() {
    let mut room = Room::new();
    for (wait_ms, is_known) in [(4_999, true), (5_000, false)] {
        let mut asking = client("g").with_version(5).with_session(5_000);
        let ticket = room.join(&asking);
        asking.id = room.joined(ticket).unwrap().member_id.to_string();
        room.pass(wait_ms);
        if is_known {
            let ticket = room.join(&asking);
            accepted(&mut room, ticket);
            room.leave("g", &[(&asking.id, None)]);
        } else {
            refuses(&mut room, &asking, 25, &asking.id);
        }
    }
}

#[test]
fn timer_13_14_the_join_phase_ends_when_a_handed_out_id_is_forgotten_or_joins() {
    for joins in [false, true] {
        let mut room = Room::new();
        let mut members = [client("g"), client("g")];
        room.stable(&mut members);
        let mut asking = client("g").with_version(5).with_session(1_500);
        let ticket = room.join(&asking);
        asking.id = room.joined(ticket).unwrap().member_id.to_string();
        let tickets = [room.join(&members[0]), room.join(&members[1])];
        room.pass(1_499);
        assert!(!room.is_answered(tickets[0]));
        if joins {
            let ticket = room.join(&asking);
            accepted(&mut room, ticket);
        } else {
            room.pass(1);
        }
        for ticket in tickets {
            assert_eq!(accepted(&mut room, ticket).0, members[0].generation + 1);
        }
        assert_eq!(room.members("g").len(), if joins { 3 } else { 2 });
    }
}

#[test]
fn timer_13_even_an_initial_rebalance_ends_when_a_handed_out_id_is_forgotten() {
    let mut room = Room::with_delay(60_000);
    room.join(&client("g").with_version(5).with_session(2_000));
    let ticket = room.join(&client("g"));
    room.pass(1_999);
    assert!(!room.is_answered(ticket));
    room.pass(1);
    accepted(&mut room, ticket);
}

#[test]
fn timer_15_a_handed_out_id_that_comes_and_goes_does_not_disturb_a_stable_group() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("s")];
    room.stable(&mut members);
    room.join(&client("g").with_version(5).with_session(400));
    for _ in 0..5 {
        assert_eq!((room.heartbeat(&members[0]), room.state("g")), (0, "Stable"));
        room.pass(300);
    }
}

#[test]
fn timer_16_k8_k9_the_longest_rebalance_timeout_counts_and_rejoins_bring_their_own() {
    for (timeouts, end) in [([1_500, 1_500], 1_500), ([1_500, 3_500], 3_500), ([60_000, 2_500], 60_000)] {
        let mut room = Room::new();
        let mut members = timeouts.map(|ms| client("g").with_rebalance(ms).with_session(120_000));
        room.stable(&mut members);
        let [a, b] = &members;
        let ticket = room.join(a);
        room.pass(end - 1);
        assert!(!room.is_answered(ticket));
        room.pass(1);
        assert_eq!(accepted(&mut room, ticket), (a.generation + 1, a.id.clone(), vec![a.id.clone()]));
        assert_eq!(room.heartbeat(b), 25);
    }
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_session(120_000));
    room.stable(&mut members);
    for member in &mut members {
        member.rebalance_ms = 2_500;
    }
    let tickets = [room.join(&members[0]), room.join(&members[1])];
    for (member, ticket) in members.iter_mut().zip(tickets) {
        member.generation = accepted(&mut room, ticket).0;
    }
    let leader = room.join(&members[0].clone().with_protocols("range:new"));
    room.pass(2_499);
    assert!(!room.is_answered(leader));
    room.pass(1);
    accepted(&mut room, leader);
}

#[test]
fn timer_17_only_absent_static_members_the_rebalance_waits_on() {
    let mut room = Room::new();
    let mut members = ["a", "b"].map(|instance| client("g").with_instance(instance).with_rebalance(1_000));
    room.stable(&mut members);
    let [a, b] = &members;
    let newcomer = room.join(&client("g").with_rebalance(1_000));
    let id = room.members("g").into_iter().map(|(id, _)| id).find(|id| id.starts_with("client")).unwrap();
    room.leave("g", &[(&id, None)]);
    assert_refused(room.joined(newcomer), 25, "");
    for _ in 0..8 {
        room.pass(700);
        assert_eq!((room.heartbeat(a), room.heartbeat(b), room.state("g")), (27, 27, "PreparingRebalance"));
    }
    let tickets = [room.join(a), room.join(b)];
    for ticket in tickets {
        assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
    }
}

#[test]
fn timer_18_19_20_21_k10_whoever_does_not_sync_is_removed_and_heartbeats_do_not_help() {
    for instance in [None, Some("i")] {
        for (syncing, left) in [(&[][..], &[][..]), (&[0], &[0]), (&[1, 2], &[1, 2]), (&[0, 1, 2], &[0, 1, 2])] {
            let mut room = Room::new();
            let mut members = [0, 1, 2].map(|i| {
                let member = client("g").with_rebalance(5_000);
                instance.map_or(member.clone(), |instance| member.with_instance(&format!("{instance}-{i}")))
            });
            room.join_all(&mut members);
            let tickets: Vec<i32> = syncing.iter().map(|i| room.sync(&members[*i], &[])).collect();
            room.pass(4_999);
            assert_eq!(members.each_ref().map(|member| room.heartbeat(member)), [0, 0, 0], "{syncing:?}");
            room.pass(1);
            let kept = if left.len() == 3 { 0 } else { 27 };
            for (i, member) in members.iter().enumerate() {
                assert_eq!(room.heartbeat(member), if left.contains(&i) { kept } else { 25 }, "{syncing:?} {i}");
            }
            let is_led = syncing.contains(&0);
            for ticket in tickets {
                assert_eq!(room.synced(ticket).unwrap().error.0, if is_led { 0 } else { 27 });
            }
            let state = ["Empty", "PreparingRebalance", "PreparingRebalance", "Stable"][left.len()];
            assert_eq!(room.state("g"), state);
        }
    }
}

#[test]
fn timer_22_static_members_that_never_come_back_do_not_stop_a_dynamic_one() {
    let mut room = Room::new();
    let mut members =
        ["a", "b"].map(|instance| client("g").with_instance(instance).with_rebalance(3_000).with_session(60_000));
    room.stable(&mut members);
    let [a, b] = &members;
    let mut dynamic = client("g").with_rebalance(3_000);
    let ticket = room.join(&dynamic);
    room.pass(3_000);
    let (generation, leader, known) = accepted(&mut room, ticket);
    assert_eq!((generation, known.len()), (a.generation + 1, 3));
    (dynamic.id, dynamic.generation) = (leader, generation);
    room.leave("g", &[(&a.id, None)]);
    room.pass(3_000);
    assert_eq!((room.heartbeat(&dynamic), room.state("g")), (25, "PreparingRebalance"));
    assert_eq!(room.heartbeat(&Client { generation, ..b.clone() }), 27);
}

#[test]
fn timer_23_a_static_member_that_only_heartbeats_misses_the_generation() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("s").with_rebalance(10_000).with_session(5_000)];
    room.stable(&mut members);
    let [s] = &members;
    let mut dynamic = client("g").with_rebalance(10_000);
    let ticket = room.join(&dynamic);
    for _ in 0..4 {
        room.pass(2_500);
        room.heartbeat(s);
    }
    let (generation, leader, known) = accepted(&mut room, ticket);
    assert_eq!((generation, known.len()), (2, 2));
    (dynamic.id, dynamic.generation) = (leader, generation);
    assert_eq!(room.heartbeat(s), 22);
    room.sync(&dynamic, &[]);
    assert_eq!(room.heartbeat(&dynamic), 0);
    room.pass(5_000);
    assert_eq!((room.heartbeat(&dynamic), room.heartbeat(s)), (27, 25));
    let ticket = room.join(&dynamic);
    assert_eq!(accepted(&mut room, ticket).0, 3);
}

#[test]
fn join_09_v0_has_no_rebalance_timeout_and_the_callers_stand_in_is_used() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(7_000).with_rebalance(7_000)];
    room.stable(&mut members);
    let ticket = room.join(&client("g").with_rebalance(200));
    room.pass(6_000);
    assert_eq!(room.heartbeat(&members[0]), 27);
    room.pass(999);
    assert!(!room.is_answered(ticket));
    room.pass(1);
    accepted(&mut room, ticket);
}

#[test]
fn a_rebalance_timeout_of_nothing_removes_who_has_not_synced_at_once() {
    for rebalance_ms in [0, -1] {
        let mut room = Room::new();
        let ticket = room.join(&client("g").with_rebalance(rebalance_ms));
        assert_eq!(accepted(&mut room, ticket).0, 1);
        assert_eq!(room.state("g"), "Empty");
    }
}

#[test]
fn no_timer_is_left_when_everybody_is_gone() {
    let mut room = Room::with_delay(100);
    for _ in 0..10 {
        room.join(&client("g"));
        room.join(&client("g").with_version(5));
        room.join(&client("g").with_instance("i"));
    }
    room.pass(400_000);
    assert_eq!((room.state("g"), room.groups.core.timers.len(), room.groups.core.pending_members), ("Empty", 0, 0));
}

//! Heartbeat.

use super::join::accepted;
use super::room::*;

fn with_generation(client: &Client, generation: i32) -> Client {
    Client { generation, ..client.clone() }
}

#[test]
fn heartbeat_03_13_unknown_groups_and_the_empty_group_id() {
    let mut room = Room::new();
    assert_eq!(room.heartbeat(&client("g").with_id("m")), 25);
    assert_eq!(room.heartbeat(&client("g").with_id("m").with_instance("i")), 25);
    assert_eq!(room.heartbeat(&client("").with_id("m")), 24);
    assert_eq!(room.state("g"), "Dead");
}

#[test]
fn heartbeat_05_an_empty_group_knows_no_member_whatever_the_generation() {
    let mut room = Room::new();
    room.join(&client("g").with_version(5));
    assert_eq!(room.state("g"), "Empty");
    for generation in [0, 1, -1] {
        assert_eq!(room.heartbeat(&with_generation(&client("g").with_id("member-id"), generation)), 25);
    }
}

#[test]
fn heartbeat_06_07_08_generations() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    for state in ["CompletingRebalance", "Stable"] {
        assert_eq!((room.state("g"), room.heartbeat(a), room.heartbeat(b)), (state, 0, 0));
        for generation in [a.generation + 1, 0, -1, i32::MAX] {
            assert_eq!(room.heartbeat(&with_generation(a, generation)), 22);
        }
        room.sync(b, &[]);
        room.sync(a, &[]);
    }
}

#[test]
fn heartbeat_09_during_the_initial_rebalance_the_generation_is_0() {
    let mut room = Room::with_delay(60_000);
    room.join(&client("g"));
    let id = room.members("g").remove(0).0;
    assert_eq!(room.heartbeat(&with_generation(&client("g").with_id(&id), 0)), 27);
    assert_eq!(room.heartbeat(&with_generation(&client("g").with_id(&id), 1)), 22);
    assert_eq!(room.heartbeat(&with_generation(&client("g").with_id("ghost"), 0)), 25);
}

#[test]
fn heartbeat_10_27_until_the_members_have_joined_then_22_with_the_old_generation() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let [a, b] = &members;
    room.join(&client("g"));
    assert_eq!((room.heartbeat(a), room.heartbeat(b)), (27, 27));
    assert_eq!(room.heartbeat(&with_generation(a, a.generation + 1)), 22);
    let tickets = [room.join(a), room.join(b)];
    let generation = tickets.map(|ticket| accepted(&mut room, ticket).0)[0];
    assert_eq!((room.heartbeat(a), room.heartbeat(&with_generation(b, generation))), (22, 0));
}

#[test]
fn heartbeat_11_k1_instance_ids_are_looked_at_first() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("a"), client("g").with_instance("b"), client("g")];
    room.stable(&mut members);
    let [a, b, dynamic] = &members;
    for member in [a, b] {
        assert_eq!(room.heartbeat(member), 0);
        assert_eq!(room.heartbeat(&member.clone().with_id("invalid")), 82);
        assert_eq!(room.heartbeat(&with_generation(&member.clone().with_id("invalid"), 99)), 82);
        assert_eq!(room.heartbeat(&member.clone().with_id("")), 82);
        assert_eq!(room.heartbeat(&member.clone().with_instance("unknown")), 25);
        assert_eq!(room.heartbeat(&Client { instance: None, ..member.clone() }), 0);
    }
    assert_eq!(room.heartbeat(&a.clone().with_id(&b.id)), 82);
    assert_eq!(room.heartbeat(&dynamic.clone().with_instance("i")), 25);
    assert_eq!(room.heartbeat(&dynamic.clone().with_instance("")), 25);
}

#[test]
fn heartbeat_15_an_id_that_was_handed_out_is_no_member_yet() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let ticket = room.join(&client("g").with_version(5));
    let id = room.joined(ticket).unwrap().member_id.to_string();
    for generation in [1, 0, -1] {
        assert_eq!(room.heartbeat(&with_generation(&client("g").with_id(&id), generation)), 25);
    }
}

#[test]
fn heartbeats_arm_no_timers_and_write_nothing() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let (timers, records) = (room.groups.core.timers.len(), room.journal.len());
    for _ in 0..1_000 {
        room.pass(7);
        assert_eq!(room.heartbeat(&members[0]), 0);
    }
    assert_eq!((room.groups.core.timers.len(), room.journal.len()), (timers, records));
}

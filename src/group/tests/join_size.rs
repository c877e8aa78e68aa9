//! group.max.size, and joins by old clients.

use super::join::{accepted, refuses};
use super::room::*;

#[test]
fn join_37_38_ids_are_not_limited_but_the_one_that_joins_above_the_limit_is_turned_away() {
    let mut room = Room::with_max_size(10, 3_000);
    let mut clients: Vec<Client> = (0..11).map(|_| client("g").with_version(5)).collect();
    for joining in &mut clients {
        let ticket = room.join(joining);
        let answer = room.joined(ticket).unwrap();
        assert_eq!(answer.error.0, 79);
        joining.id = answer.member_id.to_string();
    }
    let tickets: Vec<i32> = clients[..10].iter().map(|joining| room.join(joining)).collect();
    refuses(&mut room, &clients[10], 81, "");
    assert_eq!(room.groups.core.pending_members, 0, "its id is forgotten");
    room.pass(6_000);
    for ticket in tickets {
        assert_eq!(accepted(&mut room, ticket).0, 1);
    }
}

#[test]
fn join_39_44_before_v4_a_newcomer_above_the_limit_is_turned_away_at_once() {
    let mut room = Room::with_max_size(10, 3_000);
    let tickets: Vec<i32> = (0..10).map(|_| room.join(&client("g"))).collect();
    refuses(&mut room, &client("g"), 81, "");
    assert_eq!(room.state("g"), "PreparingRebalance");
    room.pass(6_000);
    for ticket in tickets {
        accepted(&mut room, ticket);
    }
}

#[test]
fn join_40_members_that_are_parked_may_send_their_join_again() {
    let mut room = Room::with_max_size(2, 3_000);
    for _ in 0..2 {
        room.join(&client("g"));
    }
    let ids = room.members("g");
    let tickets: Vec<i32> = ids.iter().map(|(id, _)| room.join(&client("g").with_id(id))).collect();
    room.pass(6_000);
    for ticket in tickets {
        accepted(&mut room, ticket);
    }
}

#[test]
fn join_41_43_members_of_a_full_group_may_rejoin_and_newcomers_may_not() {
    for instances in [[None, None, None], [Some("a"), Some("b"), Some("c")]] {
        let mut room = Room::with_max_size(2, 0);
        let mut all = instances.map(|instance| instance.map_or(client("g"), |i| client("g").with_instance(i)));
        let newcomer = all[2].clone();
        room.join_all(&mut all[..2]);
        let [a, b, _] = &all;
        refuses(&mut room, &newcomer, 81, "");
        let ticket = room.join(b);
        assert_eq!(accepted(&mut room, ticket), (a.generation, a.id.clone(), vec![]));
        let tickets = [room.sync(b, &[]), room.sync(a, &[])];
        assert!(tickets.iter().all(|ticket| room.synced(*ticket).unwrap().error.is_none()));
        refuses(&mut room, &newcomer, 81, "");
        assert_eq!((room.heartbeat(a), room.heartbeat(b)), (0, 0));
    }
}

#[test]
fn join_42_load_09_a_group_found_above_the_limit_turns_the_last_ones_away() {
    let mut room = Room::new();
    let mut members: Vec<Client> = (0..12).map(|_| client("g")).collect();
    room.stable(&mut members);
    room.settings.0.max_size = 10;
    room.restart();
    assert_eq!((room.state("g"), room.heartbeat(&members[3])), ("PreparingRebalance", 27));
    let tickets: Vec<i32> = members[..10].iter().map(|member| room.join(member)).collect();
    for member in &members[10..] {
        refuses(&mut room, member, 81, "");
        assert_eq!(room.heartbeat(member), 25);
    }
    // Kafka waits for the rebalance time-out here.
    for ticket in tickets {
        assert_eq!(accepted(&mut room, ticket).0, members[0].generation + 1);
    }
}

#[test]
fn join_k14_in_preparing_rebalance_only_parked_joins_count() {
    let mut room = Room::with_max_size(2, 0);
    let mut members = [client("g").with_rebalance(3_000)];
    room.stable(&mut members);
    let a = &members[0];
    let tickets = [room.join(&client("g")), room.join(&client("g"))];
    assert_eq!(room.members("g").len(), 3);
    refuses(&mut room, &client("g"), 81, "");
    refuses(&mut room, a, 81, "");
    for ticket in tickets {
        assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
    }
    assert_eq!(room.heartbeat(a), 25);
}

#[test]
fn join_k15_a_place_that_is_given_up_can_be_taken() {
    let mut room = Room::with_max_size(2, 0);
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let [a, b] = &members;
    refuses(&mut room, &client("g"), 81, "");
    room.leave("g", &[(&b.id, None)]);
    let tickets = [room.join(&client("g")), room.join(a)];
    for ticket in tickets {
        accepted(&mut room, ticket);
    }
}

#[test]
fn the_size_of_a_group_at_the_limit_and_one_past_it() {
    for max_size in 1..5 {
        let mut room = Room::with_max_size(max_size, 1_000);
        let tickets: Vec<i32> = (0..max_size).map(|_| room.join(&client("g"))).collect();
        refuses(&mut room, &client("g"), 81, "");
        room.pass(2_000);
        for ticket in tickets {
            accepted(&mut room, ticket);
        }
    }
}

//! LeaveGroup.

use super::join::{accepted, refuses};
use super::room::*;
use crate::group::Record;

fn handed_out(room: &mut Room, joining: Client) -> String {
    let ticket = room.join(&joining.with_version(5));
    let answer = room.joined(ticket).unwrap();
    assert_eq!(answer.error.0, 79);
    answer.member_id.to_string()
}

#[test]
fn leave_02_03_04_unknown_groups_and_the_empty_group_id() {
    let mut room = Room::new();
    assert_eq!(room.leave("g", &[("a", None), ("b", None), ("", Some("i"))]), (0, vec![25, 25, 25]));
    assert_eq!(room.leave("", &[("m", None), ("n", None)]), (24, vec![]));
    assert_eq!(room.state("g"), "Dead");
}

#[test]
fn leave_06_the_last_member_leaves_an_empty_group_and_the_generation_goes_on() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let [a] = &members;
    assert_eq!(room.leave("g", &[(&a.id, None)]), (0, vec![0]));
    let Some(Record::GroupMetadata { group, .. }) = room.journal.last() else { panic!("no record") };
    assert_eq!((group.generation, &*group.protocol_type, &group.protocol), (2, "consumer", &None));
    assert_eq!((group.members.len(), &group.leader), (0, &None));
    assert_eq!((room.state("g"), room.heartbeat(a)), ("Empty", 25));
    assert_eq!(room.leave("g", &[(&a.id, None)]), (0, vec![25]));
    let ticket = room.join(&client("g"));
    assert_eq!(accepted(&mut room, ticket).0, 3);
}

#[test]
fn leave_07_k1_unknown_members_and_an_empty_batch_start_no_rebalance() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    assert_eq!(room.leave("g", &[("unknown-member-id", None), ("", None)]), (0, vec![25, 25]));
    assert_eq!(room.leave("g", &[]), (0, vec![]));
    assert_eq!((room.state("g"), room.heartbeat(&members[0])), ("Stable", 0));
}

#[test]
fn leave_08_09_10_11_static_members_leave_by_instance_id() {
    for (batch, codes, left) in [
        (&[("", Some("b"))][..], &[0][..], 1),
        (&[("other", Some("a")), ("A", Some("b")), ("", Some("c"))], &[82, 82, 25], 2),
        (&[("", Some("a")), ("", Some("b"))], &[0, 0], 0),
        (&[("", Some("a")), ("invalid", Some("b"))], &[0, 82], 1),
        (&[("A", Some("a"))], &[0], 1),
        (&[("A", None)], &[0], 1),
    ] {
        let mut room = Room::new();
        let mut members = [client("g").with_instance("a"), client("g").with_instance("b")];
        room.stable(&mut members);
        let generation = members[0].generation;
        let batch: Vec<(&str, Option<&str>)> =
            batch.iter().map(|(id, instance)| (if *id == "A" { &*members[0].id } else { *id }, *instance)).collect();
        assert_eq!(room.leave("g", &batch).1, codes, "{batch:?}");
        assert_eq!(room.members("g").len(), left, "{batch:?}");
        assert_eq!(room.state("g"), ["Empty", "PreparingRebalance", "Stable"][left]);
        if left == 1 {
            let staying = members.iter().find(|member| room.members("g")[0].0 == member.id).unwrap();
            let ticket = room.join(staying);
            assert_eq!(accepted(&mut room, ticket), (generation + 1, staying.id.clone(), vec![staying.id.clone()]));
        }
    }
}

#[test]
fn leave_12_13_when_an_id_that_was_handed_out_leaves_the_join_phase_ends() {
    for with_stranger in [false, true] {
        let mut room = Room::new();
        let mut members = [client("g"), client("g")];
        room.stable(&mut members);
        let id = handed_out(&mut room, client("g").with_session(60_000));
        let tickets = [room.join(&members[0]), room.join(&members[1])];
        room.pass(300);
        assert!(!room.is_answered(tickets[0]));
        if with_stranger {
            assert_eq!(room.leave("g", &[("", Some("unknown-instance-id")), (&id, None)]).1, [25, 0]);
        } else {
            assert_eq!(room.leave("g", &[(&id, None)]).1, [0]);
        }
        for ticket in tickets {
            accepted(&mut room, ticket);
        }
        assert_eq!(room.members("g").len(), 2);
    }
}

#[test]
fn leave_14_leader_follower_and_a_handed_out_id_leave_together() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let id = handed_out(&mut room, client("g"));
    let batch = [(&*members[0].id, None), (&*members[1].id, None), (&*id, None)];
    assert_eq!(room.leave("g", &batch).1, [0, 0, 0]);
    assert_eq!(room.state("g"), "Empty");
    refuses(&mut room, &client("g").with_id(&id), 25, &id);
}

#[test]
fn leave_a_handed_out_id_alone_rebalances_a_stable_group_and_not_an_empty_one() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let id = handed_out(&mut room, client("g"));
    assert_eq!(room.leave("g", &[(&id, None)]).1, [0]);
    assert_eq!(room.state("g"), "PreparingRebalance");
    let id = handed_out(&mut room, client("other"));
    assert_eq!(room.leave("other", &[(&id, None)]).1, [0]);
    assert_eq!(room.state("other"), "Empty");
}

#[test]
fn leave_while_a_handed_out_id_is_all_that_is_left() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let id = handed_out(&mut room, client("g").with_session(5_000));
    room.leave("g", &[(&members[0].id, None)]);
    assert_eq!(room.state("g"), "Empty", "the rebalance time-out of nobody is over at once");
    let ticket = room.join(&client("g").with_id(&id).with_version(5));
    assert_eq!(accepted(&mut room, ticket).0, 3);
}

#[test]
fn leave_k2_k7_the_same_member_twice_and_a_dynamic_member_with_an_instance_id() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let [a, b] = &members;
    assert_eq!(room.leave("g", &[(&a.id, Some("i")), (&a.id, Some(""))]).1, [25, 25]);
    assert_eq!(room.heartbeat(a), 0);
    assert_eq!(room.leave("g", &[(&b.id, None), (&b.id, None), ("ghost", None)]).1, [0, 25, 25]);
    assert_eq!((room.heartbeat(a), room.heartbeat(b)), (27, 25));
}

#[test]
fn leave_k5_k9_in_completing_rebalance_parked_syncs_are_answered() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b, c] = &members;
    let tickets = [room.sync(b, &[]), room.sync(c, &[])];
    assert_eq!(room.leave("g", &[(&c.id, None)]).1, [0]);
    assert_eq!(tickets.map(|ticket| room.synced(ticket).unwrap().error.0), [27, 25]);
    assert_eq!((room.heartbeat(a), room.heartbeat(b), room.heartbeat(c)), (27, 27, 25));
}

#[test]
fn leave_k6_the_last_absent_member_leaves_and_the_parked_ones_need_not_wait() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g"), client("g")];
    room.stable(&mut members);
    let [a, b, c] = &members;
    let tickets = [room.join(a), room.join(b)];
    assert!(!room.is_answered(tickets[0]));
    room.leave("g", &[(&c.id, None)]);
    for ticket in tickets {
        accepted(&mut room, ticket);
    }
}

#[test]
fn leave_a_parked_join_is_answered_with_an_empty_member_id() {
    let mut room = Room::with_delay(3_000);
    let ticket = room.join(&client("g"));
    let id = room.members("g").remove(0).0;
    assert_eq!(room.leave("g", &[(&id, None)]).1, [0]);
    super::join::assert_refused(room.joined(ticket), 25, "");
    assert_eq!(room.state("g"), "PreparingRebalance", "the initial rebalance is not cut short");
    room.pass(3_000);
    assert_eq!(room.state("g"), "Empty");
}

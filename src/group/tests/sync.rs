//! SyncGroup, and the assignments that it carries.

use super::join::accepted;
use super::room::*;
use crate::errors::ErrorCode;
use crate::group::{Record, SyncAnswer};
use crate::limits::JOURNAL_ENTRY_MAX_BYTES;

#[track_caller]
fn assert_refused(answer: Option<SyncAnswer>, error: i16) {
    let answer = answer.expect("it is answered");
    assert_eq!((answer.error.0, answer.assignment.len()), (error, 0));
    assert_eq!((answer.protocol_type, answer.protocol_name), (None, None));
}

#[track_caller]
fn refuses(room: &mut Room, client: &Client, error: i16) {
    let ticket = room.sync(client, &[]);
    assert_refused(room.synced(ticket), error);
}

#[track_caller]
fn assignment(room: &mut Room, ticket: i32) -> String {
    let answer = room.synced(ticket).expect("the SyncGroup is answered");
    assert_eq!(answer.error, ErrorCode::NONE);
    assert_eq!((answer.protocol_type.as_deref(), answer.protocol_name.as_deref()), (Some("consumer"), Some("range")));
    String::from_utf8(answer.assignment.to_vec()).unwrap()
}

#[test]
fn sync_02_05_an_empty_group_id_and_an_unknown_group() {
    let mut room = Room::new();
    refuses(&mut room, &client("").with_id("ghost"), 24);
    refuses(&mut room, &client("g").with_id("ghost"), 25);
    assert_eq!(room.state("g"), "Dead");
}

#[test]
fn sync_06_07_k1_unknown_members_and_other_generations() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = members;
    for state in ["CompletingRebalance", "Stable"] {
        assert_eq!(room.state("g"), state);
        for id in ["ghost", ""] {
            refuses(&mut room, &a.clone().with_id(id), 25);
            refuses(&mut room, &Client { generation: 99, ..a.clone().with_id(id) }, 25);
        }
        for generation in [a.generation + 1, a.generation - 1, 0, -1] {
            refuses(&mut room, &Client { generation, ..b.clone() }, 22);
        }
        let tickets = [room.sync(&b, &[]), room.sync(&a, &[])];
        for ticket in tickets {
            assignment(&mut room, ticket);
        }
    }
    room.leave("g", &[(&a.id, None), (&b.id, None)]);
    refuses(&mut room, &a, 25);
    let mut handed_out = client("g").with_version(5);
    let ticket = room.join(&handed_out);
    handed_out.id = room.joined(ticket).unwrap().member_id.to_string();
    refuses(&mut room, &handed_out, 25);
}

#[test]
fn sync_08_10_type_and_name_must_match_if_they_are_given() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.join_all(&mut members);
    let [a] = &members;
    for (protocol_type, protocol_name, generation, error) in [
        (Some("whatever"), None, 1, 23),
        (None, Some("whatever"), 1, 23),
        (Some("consumer"), Some("whatever"), 1, 23),
        (Some("whatever"), Some("range"), 9, 22),
    ] {
        let ticket = room.sync_as(&Client { generation, ..a.clone() }, protocol_type, protocol_name, &[]);
        assert_refused(room.synced(ticket), error);
    }
    for (protocol_type, protocol_name) in [(Some("consumer"), Some("range")), (None, None)] {
        let ticket = room.sync_as(a, protocol_type, protocol_name, &[(&a.id, "A")]);
        assert_eq!(assignment(&mut room, ticket), "A");
    }
    let ticket = room.sync_as(a, Some("whatever"), None, &[]);
    assert_refused(room.synced(ticket), 23);
}

#[test]
fn sync_08_what_the_group_has_not_chosen_yet_cannot_differ() {
    let mut room = Room::with_delay(3_000);
    let mut a = client("g").with_version(5);
    let ticket = room.join(&a);
    a.id = room.joined(ticket).unwrap().member_id.to_string();
    room.join(&a);
    a.generation = 0;
    let ticket = room.sync_as(&a, Some("consumer"), Some("range"), &[]);
    assert_refused(room.synced(ticket), 27);
    let ticket = room.sync_as(&a, Some("whatever"), Some("range"), &[]);
    assert_refused(room.synced(ticket), 23);
}

#[test]
fn sync_11_k6_a_follower_waits_for_the_leader_and_nobody_for_each_other() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b, c] = &members;
    let follower = room.sync(b, &[]);
    room.pass(300);
    assert_eq!((room.is_answered(follower), room.state("g")), (false, "CompletingRebalance"));
    let leader = room.sync(a, &[(&a.id, "A"), (&b.id, "B"), (&c.id, "C")]);
    assert_eq!(assignment(&mut room, leader), "A");
    assert_eq!(assignment(&mut room, follower), "B");
    assert_eq!((room.state("g"), room.heartbeat(a), room.heartbeat(b), room.heartbeat(c)), ("Stable", 0, 0, 0));
    let late = room.sync(c, &[]);
    assert_eq!(assignment(&mut room, late), "C");
}

#[test]
fn sync_12_22_assign_k2_what_the_leader_leaves_out_is_empty_and_strangers_are_ignored() {
    for (plan, expected) in [
        (&[][..], ["", ""]),
        (&[("a", "A"), ("stranger", "S")], ["A", ""]),
        (&[("b", "B"), ("a", "A"), ("b", "again")], ["A", "again"]),
        (&[("b", "")], ["", ""]),
    ] {
        let mut room = Room::new();
        let mut members = [client("g"), client("g")];
        room.join_all(&mut members);
        let [a, b] = &members;
        let plan: Vec<(&str, &str)> = plan
            .iter()
            .map(|(id, part)| {
                (
                    if *id == "a" {
                        &a.id
                    } else if *id == "b" {
                        &b.id
                    } else {
                        *id
                    },
                    *part,
                )
            })
            .collect();
        let tickets = [room.sync(a, &plan), room.sync(b, &[])];
        assert_eq!(tickets.map(|ticket| assignment(&mut room, ticket)), expected);
        let mut shown = vec![(a.id.clone(), expected[0].to_owned()), (b.id.clone(), expected[1].to_owned())];
        shown.sort();
        assert_eq!(room.members("g"), shown);
    }
}

#[test]
fn sync_14_k5_if_the_assignments_cannot_be_written_everybody_is_told_and_a_rebalance_is_prepared() {
    for (error, answer) in [
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, 16),
        (ErrorCode::MESSAGE_TOO_LARGE, -1),
        (ErrorCode::NOT_ENOUGH_REPLICAS, 15),
    ] {
        let mut room = Room::new();
        let mut members = [client("g"), client("g")];
        room.join_all(&mut members);
        let [a, b] = &members;
        let follower = room.sync(b, &[]);
        room.disk = Disk::Fails(error);
        let leader = room.sync(a, &[(&a.id, "A")]);
        assert_refused(room.synced(leader), answer);
        assert_refused(room.synced(follower), answer);
        assert_eq!((room.heartbeat(a), room.heartbeat(b), room.state("g")), (27, 27, "PreparingRebalance"));
        room.disk = Disk::Works;
        let tickets = [room.join(b), room.join(a)];
        for ticket in tickets {
            assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
        }
    }
}

#[test]
fn assignments_at_the_limit_of_a_record_and_one_past_it() {
    let limit = "x".repeat(JOURNAL_ENTRY_MAX_BYTES);
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let follower = room.sync(b, &[]);
    let leader = room.sync(a, &[(&a.id, &limit[1..]), (&b.id, "yy"), ("stranger", "x")]);
    assert_refused(room.synced(leader), -1);
    assert_refused(room.synced(follower), -1);
    assert_eq!((room.heartbeat(a), room.state("g")), (27, "PreparingRebalance"));
    for ticket in [room.join(a), room.join(b)] {
        assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
    }
    let [a, b] = [a, b].map(|member| Client { generation: member.generation + 1, ..member.clone() });
    let tickets = [room.sync(&a, &[(&a.id, &limit[1..]), (&b.id, "y"), ("stranger", &limit)]), room.sync(&b, &[])];
    assert_eq!(tickets.map(|ticket| assignment(&mut room, ticket).len()), [limit.len() - 1, 1]);
}

#[test]
fn the_answer_waits_for_the_record() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    room.disk = Disk::Stalls;
    let tickets = [room.sync(a, &[(&a.id, "A"), (&b.id, "B")]), room.sync(b, &[])];
    room.pass(100);
    assert!(!room.is_answered(tickets[0]) && !room.is_answered(tickets[1]));
    assert_eq!((room.state("g"), room.heartbeat(a)), ("CompletingRebalance", 0));
    let again = room.sync(a, &[(&a.id, "other")]);
    assert_eq!(room.stalled.len(), 1, "what is being written is not written again");
    room.end_writes(Ok(()));
    assert_eq!((assignment(&mut room, again), assignment(&mut room, tickets[1])), ("A".into(), "B".into()));
    assert!(!room.is_answered(tickets[0]), "its place was taken");
}

#[test]
fn a_write_that_ends_after_the_group_has_moved_on_changes_nothing() {
    for result in [Ok(()), Err(ErrorCode::KAFKA_STORAGE_ERROR)] {
        let mut room = Room::new();
        let mut members = [client("g"), client("g")];
        room.join_all(&mut members);
        let [a, b] = &members;
        room.disk = Disk::Stalls;
        let leader = room.sync(a, &[(&a.id, "A")]);
        let newcomer = room.join(&client("g"));
        assert_refused(room.synced(leader), 27);
        room.end_writes(result);
        assert_eq!((room.state("g"), room.heartbeat(b)), ("PreparingRebalance", 27));
        // and the same once the next generation is there
        room.disk = Disk::Works;
        let tickets = [room.join(a), room.join(b), newcomer];
        for ticket in tickets {
            assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
        }
    }
}

#[test]
fn a_write_of_the_last_generation_does_not_assign_in_the_next() {
    for result in [Ok(()), Err(ErrorCode::KAFKA_STORAGE_ERROR)] {
        let mut room = Room::new();
        let mut members = [client("g"), client("g")];
        room.join_all(&mut members);
        let [mut a, mut b] = members;
        room.disk = Disk::Stalls;
        room.sync(&a, &[(&a.id, "old"), (&b.id, "old")]);
        let tickets = [room.join(&b.clone().with_protocols("range:other")), room.join(&a)];
        for (member, ticket) in [&mut b, &mut a].into_iter().zip(tickets) {
            member.generation = accepted(&mut room, ticket).0;
        }
        let follower = room.sync(&b, &[]);
        room.end_writes(result);
        assert_eq!((room.is_answered(follower), room.state("g")), (false, "CompletingRebalance"));
        let leader = room.sync(&a, &[(&a.id, "A"), (&b.id, "B")]);
        room.end_writes(Ok(()));
        assert_eq!((assignment(&mut room, leader), assignment(&mut room, follower)), ("A".into(), "B".into()));
    }
}

#[test]
fn sync_15_a_newcomer_in_completing_rebalance_sends_who_is_parked_back() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let follower = room.sync(b, &[]);
    room.join(&client("g"));
    assert_refused(room.synced(follower), 27);
    refuses(&mut room, a, 27);
    assert_eq!((room.heartbeat(a), room.heartbeat(b)), (27, 27));
}

#[test]
fn sync_16_instance_ids_come_before_the_generation() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("a"), client("g").with_instance("b")];
    room.stable(&mut members);
    for member in &members {
        refuses(&mut room, &member.clone().with_id("invalid"), 82);
        refuses(&mut room, &Client { generation: 99, ..member.clone().with_id("invalid") }, 82);
        refuses(&mut room, &member.clone().with_instance("unknown"), 25);
    }
    refuses(&mut room, &members[0].clone().with_id(&members[1].id), 82);
}

#[test]
fn sync_20_a_new_generation_starts_anew() {
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_rebalance(3_000));
    room.join_all(&mut members);
    let [mut a, mut b] = members;
    let mut c = client("g").with_rebalance(3_000);
    let tickets = [room.join(&c), room.join(&a), room.join(&b)];
    let ids = room.members("g");
    c.id = ids.into_iter().map(|(id, _)| id).find(|id| *id != a.id && *id != b.id).unwrap();
    for (member, ticket) in [&mut c, &mut a, &mut b].into_iter().zip(tickets) {
        member.generation = accepted(&mut room, ticket).0;
    }
    for member in [&c, &b, &a] {
        room.sync(member, &[]);
    }
    room.pass(3_500);
    assert_eq!((room.state("g"), room.heartbeat(&a), room.heartbeat(&b), room.heartbeat(&c)), ("Stable", 0, 0, 0));
}

#[test]
fn sync_13_a_leader_that_never_syncs_is_removed_and_the_follower_told_to_rejoin() {
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_rebalance(3_000));
    room.join_all(&mut members);
    let [a, b] = &members;
    let follower = room.sync(b, &[]);
    room.pass(3_000);
    assert_refused(room.synced(follower), 27);
    assert_eq!((room.heartbeat(b), room.heartbeat(a)), (27, 25));
    let ticket = room.join(b);
    assert_eq!(accepted(&mut room, ticket), (b.generation + 1, b.id.clone(), vec![b.id.clone()]));
}

#[test]
fn sync_23_while_a_rebalance_is_prepared_the_old_generation_gets_27_and_afterwards_22() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let [a, b] = &members;
    room.join(a);
    refuses(&mut room, b, 27);
    refuses(&mut room, &Client { generation: b.generation + 1, ..b.clone() }, 22);
    room.join(b);
    refuses(&mut room, b, 22);
}

#[test]
fn sync_k2_k3_followers_hand_in_nothing() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let follower = room.sync(b, &[(&a.id, "x"), (&b.id, "y")]);
    assert!(!room.is_answered(follower));
    let leader = room.sync(a, &[(&b.id, "B")]);
    assert_eq!((assignment(&mut room, leader), assignment(&mut room, follower)), ("".into(), "B".into()));
    let again = room.sync(b, &[(&b.id, "mine")]);
    assert_eq!(assignment(&mut room, again), "B");
}

#[test]
fn sync_k4_a_second_sync_takes_the_place_of_the_first() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let (first, second) = (room.sync(b, &[]), room.sync(b, &[]));
    room.sync(a, &[(&b.id, "B")]);
    assert_eq!((room.is_answered(first), assignment(&mut room, second)), (false, "B".into()));
}

#[test]
fn the_record_says_what_the_members_got() {
    let mut room = Room::new();
    let mut members = [client("g").with_protocols("range:r,robin:rr"), client("g").with_instance("i")];
    room.stable(&mut members);
    let Some(Record::GroupMetadata { group_id, group }) = room.journal.last() else { panic!("no record") };
    assert_eq!((&**group_id, &*group.protocol_type, group.generation), ("g", "consumer", 2));
    assert_eq!((group.protocol.as_deref(), group.leader.as_deref()), (Some("range"), Some(&*members[0].id)));
    let [a, b] = &group.members[..] else { panic!("two members") };
    assert_eq!((a.member_id(), a.group_instance_id(), a.client_id()), (&*members[0].id, None, "client"));
    assert_eq!((a.client_host(), a.session_timeout_ms, a.rebalance_timeout_ms), ("/127.0.0.1", 10_000, 60_000));
    assert_eq!((a.subscription(), &*a.assignment), (&b"r"[..], &b"part-0"[..]));
    assert_eq!((b.member_id(), b.group_instance_id()), (&*members[1].id, Some("i")));
    assert_eq!((b.subscription(), &*b.assignment), (&b"meta"[..], &b"part-1"[..]));
}

//! Static members: replacement by instance id, fencing, and what a rebalance does to absent ones.

use super::join::{accepted, assert_refused, refuses};
use super::room::*;
use crate::errors::ErrorCode;
use crate::group::settings::{GroupSettings, OffsetSettings};

fn pair(room: &mut Room, change: impl Fn(Client) -> Client) -> [Client; 2] {
    let mut members = ["a", "b"].map(|instance| change(client("g").with_instance(instance)));
    room.stable(&mut members);
    members
}

/// What a client that came back gets.
#[track_caller]
fn comes_back(room: &mut Room, client: &mut Client) -> crate::group::JoinAnswer {
    let ticket = room.join(client);
    let answer = room.joined(ticket).expect("it is answered at once");
    assert_eq!(answer.error, ErrorCode::NONE);
    (client.id, client.generation) = (answer.member_id.to_string(), answer.generation_id);
    answer
}

#[track_caller]
fn assignment(room: &mut Room, client: &Client) -> String {
    let ticket = room.sync(client, &[]);
    let answer = room.synced(ticket).expect("the SyncGroup is answered");
    assert_eq!(answer.error, ErrorCode::NONE);
    String::from_utf8(answer.assignment.to_vec()).unwrap()
}

#[test]
fn static_01_a_new_static_member_needs_no_second_join() {
    for version in 5..=9 {
        let mut room = Room::new();
        let mut member = client("g").with_instance("I").with_version(version);
        let answer = comes_back(&mut room, &mut member);
        assert_eq!((answer.generation_id, answer.members[0].group_instance_id()), (1, Some("I")));
        assert!(member.id.starts_with("I-"));
    }
}

#[test]
fn static_02_15_a_restarted_follower_takes_over_its_place() {
    for version in 5..=9 {
        let mut room = Room::new();
        let [a, b] = pair(&mut room, |member| member);
        let mut again = b.restarted().with_version(version);
        let answer = comes_back(&mut room, &mut again);
        assert_eq!((answer.generation_id, &*answer.leader, answer.members.len()), (a.generation, &*a.id, 0));
        assert_eq!((answer.skip_assignment, answer.protocol_name.as_deref()), (false, Some("range")));
        assert!(again.id != b.id && again.id.starts_with("b-"));
        assert_eq!(assignment(&mut room, &again), "part-1");
        assert_eq!((room.heartbeat(&a), room.heartbeat(&again), room.state("g")), (0, 0, "Stable"));
        let ticket = room.join(&again);
        assert_eq!(accepted(&mut room, ticket), (a.generation, a.id.clone(), vec![]));
    }
}

#[test]
fn static_03_a_restarted_leader_still_leads_and_skips_the_assignment() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member.with_version(9));
    let mut again = a.restarted();
    let answer = comes_back(&mut room, &mut again);
    assert_eq!((answer.generation_id, &*answer.leader, answer.skip_assignment), (b.generation, &*again.id, true));
    let known: Vec<_> = answer.members.iter().map(|m| (m.member_id(), m.group_instance_id().unwrap())).collect();
    assert_eq!(known, [(&*again.id, "a"), (&*b.id, "b")]);
    assert_eq!(assignment(&mut room, &again), "part-0");
    let ticket = room.join(&b);
    assert_eq!(accepted(&mut room, ticket), (b.generation, again.id.clone(), vec![]));
}

#[test]
fn static_04_up_to_v8_a_restarted_leader_is_told_its_former_id() {
    for version in 5..=8 {
        let mut room = Room::new();
        let [a, b] = pair(&mut room, |member| member);
        let mut again = a.restarted().with_version(version);
        let answer = comes_back(&mut room, &mut again);
        assert_eq!((&*answer.leader, answer.members.len(), answer.skip_assignment), (&*a.id, 0, false));
        assert_eq!((assignment(&mut room, &again), room.heartbeat(&b)), ("part-0".into(), 0));
        let ticket = room.join(&b);
        assert_eq!(accepted(&mut room, ticket).1, again.id);
    }
}

#[test]
fn static_05_06_10_only_another_choice_of_protocol_rebalances() {
    for (again, chosen) in
        [("robin:x", "robin"), ("range:new", "range"), ("robin:x,range:new", "range"), ("x,range:new", "range")]
    {
        let mut room = Room::new();
        let [a, b] = pair(&mut room, |member| member.with_protocols("range:r,robin:rr"));
        let mut restarted = b.restarted().with_protocols(again);
        if chosen == "range" {
            let answer = comes_back(&mut room, &mut restarted);
            assert_eq!(
                (answer.generation_id, answer.protocol_name.as_deref()),
                (a.generation, Some("range")),
                "{again}"
            );
            assert_eq!(room.heartbeat(&a), 0);
            let group = room.groups.describe("g").unwrap();
            let shown: Vec<_> = group.members().map(|m| (m.member_id(), m.metadata())).collect();
            assert_eq!(shown, [(&*a.id, &b"r"[..]), (&*restarted.id, b"new")]);
            continue;
        }
        let ticket = room.join(&restarted);
        assert_eq!((room.is_answered(ticket), room.heartbeat(&a)), (false, 27));
        let leader = room.join(&a);
        let answer = room.joined(leader).unwrap();
        assert_eq!((answer.generation_id, answer.protocol_name.as_deref()), (a.generation + 1, Some("robin")));
        assert_eq!(accepted(&mut room, ticket).1, a.id);
    }
}

#[test]
fn static_07_08_if_the_new_id_cannot_be_written_the_old_one_is_valid_again() {
    for (error, code) in [(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 15), (ErrorCode::MESSAGE_TOO_LARGE, -1)] {
        let mut room = Room::new();
        let [a, b] = pair(&mut room, |member| member.with_session(5_000));
        room.disk = Disk::Fails(error);
        let ticket = room.join(&a.restarted().with_protocols("range:new").with_session(60_000));
        let answer = room.joined(ticket).unwrap();
        assert_eq!((answer.error.0, &*answer.member_id, answer.generation_id), (code, "", a.generation));
        assert_eq!((&*answer.leader, answer.members.len()), (&*a.id, 0));
        assert_eq!(
            (answer.protocol_type.as_deref(), answer.protocol_name.as_deref()),
            (Some("consumer"), Some("range"))
        );
        assert_eq!((room.heartbeat(&a), room.heartbeat(&b), assignment(&mut room, &a)), (0, 0, "part-0".into()));
        let ids: Vec<String> = room.members("g").into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [a.id.clone(), b.id.clone()]);
        room.pass(5_000);
        assert_eq!(room.heartbeat(&a), 25, "its old session time-out counts");
    }
}

#[test]
fn static_replaced_twice_while_nothing_can_be_written() {
    for result in [Ok(()), Err(ErrorCode::NOT_ENOUGH_REPLICAS)] {
        let mut room = Room::new();
        let [a, b] = pair(&mut room, |member| member);
        room.disk = Disk::Stalls;
        let tickets = [room.join(&b.restarted()), room.join(&b.restarted())];
        assert!(!room.is_answered(tickets[0]) && !room.is_answered(tickets[1]));
        room.end_writes(result);
        room.disk = Disk::Works;
        let [first, second] = tickets.map(|ticket| room.joined(ticket).unwrap());
        if result.is_ok() {
            assert_eq!((first.error.0, second.error.0), (82, 0), "the first one has lost its place meanwhile");
            let again = b.clone().with_id(&second.member_id);
            assert_eq!((room.heartbeat(&again), room.heartbeat(&b), room.heartbeat(&a)), (0, 82, 0));
        } else {
            assert_eq!((first.error.0, second.error.0), (15, 15));
            assert_eq!((room.heartbeat(&b), room.heartbeat(&a)), (0, 0));
        }
    }
}

#[test]
fn static_a_leader_whose_replacement_is_written_after_the_group_has_moved_on_comes_back_as_a_follower() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("a").with_protocols("range:r,robin:rr").with_version(9)];
    room.stable(&mut members);
    room.disk = Disk::Stalls;
    let replacing = room.join(&members[0].restarted());
    room.join(&client("g").with_protocols("robin:rr"));
    room.end_writes(Ok(()));
    let answer = room.joined(replacing).unwrap();
    assert_eq!((answer.error.0, answer.generation_id, answer.skip_assignment), (0, 1, false));
    assert_eq!((&*answer.leader, answer.members.len()), (&*members[0].id, 0));
    let ticket = room.sync(&Client { id: answer.member_id.to_string(), ..members[0].clone() }, &[]);
    assert_eq!(room.synced(ticket).unwrap().error.0, 27);
}

#[test]
fn static_a_replacement_that_is_written_after_the_next_join_phase_is_told_of_the_generation_as_it_is() {
    for version in [3, 8, 9] {
        let mut room = Room::new();
        let [_, b] = pair(&mut room, |member| member.with_version(version).with_session(60_000).with_rebalance(5_000));
        room.disk = Disk::Stalls;
        let replacing = room.join(&b.restarted());
        let newcomer = room.join(&client("g").with_rebalance(5_000));
        room.pass(5_000);
        assert!(!room.is_answered(replacing));
        let (generation, leader, _) = accepted(&mut room, newcomer);
        room.end_writes(Ok(()));
        let answer = room.joined(replacing).unwrap();
        assert_eq!((answer.error.0, answer.generation_id, answer.skip_assignment), (0, generation, false));
        assert_eq!(
            (&*answer.leader, answer.members.len()),
            (&*leader, 0),
            "the former leader has not come back in time"
        );
        assert_ne!(*answer.member_id, *b.id);
        let again = Client { id: answer.member_id.to_string(), generation, ..b };
        assert_eq!(room.heartbeat(&again), 0);
    }
}

#[test]
fn static_a_replacement_that_fails_after_the_group_has_moved_on_is_left_alone() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("a").with_protocols("range:r,robin:rr")];
    room.stable(&mut members);
    room.disk = Disk::Stalls;
    let replacing = room.join(&members[0].restarted().with_protocols("range:r,x:y"));
    let id = room.members("g").remove(0).0;
    let newcomer = room.join(&client("g").with_protocols("x:y"));
    let member = members[0].clone().with_id(&id).with_protocols("range:r,x:y");
    let rejoining = room.join(&member);
    assert_eq!(room.joined(rejoining).unwrap().protocol_name.as_deref(), Some("x"));
    room.end_writes(Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(room.joined(replacing).unwrap().error.0, 15);
    assert_eq!((room.state("g"), accepted(&mut room, newcomer).0), ("CompletingRebalance", 2));
    assert_eq!((room.heartbeat(&Client { generation: 2, ..member }), room.heartbeat(&members[0])), (0, 82));
}

#[test]
fn static_a_replacement_waits_for_its_record_and_the_member_may_leave_meanwhile() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member);
    room.disk = Disk::Stalls;
    let ticket = room.join(&b.restarted());
    assert_eq!(room.leave("g", &[("", Some("b"))]).1, [0]);
    assert_eq!(room.heartbeat(&a), 27);
    room.end_writes(Ok(()));
    assert_refused(room.joined(ticket), 25, "");
}

#[test]
fn static_a_replacement_is_answered_though_its_group_is_deleted_meanwhile() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("b")];
    room.stable(&mut members);
    room.disk = Disk::Stalls;
    let ticket = room.join(&members[0].restarted());
    assert_eq!(room.leave("g", &[("", Some("b"))]).1, [0]);
    assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
    room.end_writes(Ok(()));
    assert_refused(room.joined(ticket), 25, "");
}

#[test]
fn static_12_a_sync_that_is_won_is_not_fenced_while_assignments_are_handed_out() {
    let settings = GroupSettings { members_per_piece: 1, ..settings() };
    let mut room = Room::with(settings, OffsetSettings::default());
    let mut members = ["a", "b", "c"].map(|instance| client("g").with_instance(instance));
    room.join_all(&mut members);
    room.disk = Disk::Stalls;
    let plan = [(&*members[0].id, "A"), (&*members[1].id, "B"), (&*members[2].id, "C")];
    let tickets = [&members[2], &members[1], &members[0]].map(|member| room.sync(member, &plan));
    let (write, _) = room.stalled.pop().expect("the generation's record");
    room.groups.written(write, Ok(()), room.now);
    (0..2).for_each(|_| room.groups.do_a_piece(room.now));
    room.join(&members[2].restarted());
    let answer = room.synced(tickets[0]).expect("it is answered");
    assert_eq!((answer.error, &*answer.assignment), (ErrorCode::NONE, &b"C"[..]));
}

#[test]
fn static_09_in_completing_rebalance_a_replacement_always_starts_over() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("a"), client("g").with_instance("b")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let ticket = room.join(&b.restarted());
    assert_eq!((room.is_answered(ticket), room.heartbeat(a)), (false, 27));
    let leader = room.join(a);
    assert_eq!(accepted(&mut room, leader).0, a.generation + 1);
    assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
}

#[test]
fn static_11_the_parked_join_of_a_replaced_member_is_fenced_with_its_old_id() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member);
    let first = room.join(&a);
    let second = room.join(&a.restarted());
    assert_refused(room.joined(first), 82, &a.id);
    let second_id = room.members("g").into_iter().map(|(id, _)| id).find(|id| id.starts_with("a-")).unwrap();
    assert_ne!(second_id, a.id);
    let third = room.join(&a.restarted());
    assert_refused(room.joined(second), 82, &second_id);
    let follower = room.join(&b);
    assert_eq!(accepted(&mut room, third).0, a.generation + 1);
    assert_eq!(accepted(&mut room, follower).0, a.generation + 1);
}

#[test]
fn static_12_the_parked_sync_of_a_replaced_member_is_fenced() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("a"), client("g").with_instance("b")];
    room.join_all(&mut members);
    let ticket = room.sync(&members[1], &[]);
    room.join(&members[1].restarted());
    let answer = room.synced(ticket).unwrap();
    assert_eq!((answer.error.0, answer.assignment.len()), (82, 0));
    assert_eq!(room.state("g"), "PreparingRebalance");
}

#[test]
fn static_13_24_the_replaced_id_afterwards() {
    let mut room = Room::new();
    for member in pair(&mut room, |member| member) {
        comes_back(&mut room, &mut member.restarted());
        refuses(&mut room, &member, 82, &member.id);
        refuses(&mut room, &Client { instance: None, ..member.clone() }, 25, &member.id);
        for (instance, code) in [(Some("x"), 25), (member.instance.as_deref(), 82), (None, 25)] {
            let old = Client { instance: instance.map(Into::into), ..member.clone() };
            assert_eq!(room.heartbeat(&old), code);
            let ticket = room.sync(&old, &[]);
            assert_eq!(room.synced(ticket).unwrap().error.0, code);
            assert_eq!(room.leave("g", &[(&old.id, instance)]).1, [code]);
            assert_eq!(room.commit(&old, "t", 0, 1), code);
        }
    }
    assert_eq!(room.state("g"), "Stable");
}

#[test]
fn static_14_a_leader_that_rejoins_with_its_own_id_starts_a_rebalance() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member);
    let tickets = [room.join(&a), room.join(&b)];
    let answers = tickets.map(|ticket| accepted(&mut room, ticket));
    assert_eq!((answers[0].0, answers[0].2.len()), (a.generation + 1, 2));
    assert_eq!(answers[1].1, a.id);
}

#[test]
fn static_16_an_absent_static_leader_stays_a_member_and_the_follower_leads() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member.with_protocols("range:r,robin:rr").with_rebalance(1_500));
    let ticket = room.join(&b.clone().with_protocols("robin:rr"));
    room.pass(1_499);
    assert!(!room.is_answered(ticket));
    room.pass(1);
    let answer = room.joined(ticket).unwrap();
    assert_eq!((answer.protocol_name.as_deref(), &*answer.leader), (Some("robin"), &*b.id));
    let known: Vec<_> = answer.members.iter().map(|m| (m.member_id(), m.metadata())).collect();
    assert_eq!(known, [(&*a.id, &b"rr"[..]), (&*b.id, b"rr")]);
    assert_eq!(room.heartbeat(&a), 22);
}

#[test]
fn static_17_18_instance_ids_and_member_ids_that_do_not_go_together() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member);
    refuses(&mut room, &a.clone().with_id(&b.id), 82, &b.id);
    refuses(&mut room, &b.clone().with_instance("unknown"), 25, &b.id);
    assert_eq!((room.heartbeat(&a), room.heartbeat(&b)), (0, 0));
}

#[test]
fn static_21_22_an_absent_static_member_stays_over_a_rebalance() {
    for absent in [0, 1] {
        let mut room = Room::new();
        let members = pair(&mut room, |member| member.with_rebalance(3_000));
        let newcomer = room.join(&client("g").with_instance("c").with_rebalance(3_000));
        let present = room.join(&members[1 - absent]);
        room.pass(3_000);
        let answers = [newcomer, present].map(|ticket| accepted(&mut room, ticket));
        assert_eq!(answers[0].0, members[0].generation + 1);
        assert_eq!(answers[0].1, answers[1].1);
        assert_eq!(answers[0].2.len() + answers[1].2.len(), 3);
        if absent == 1 {
            assert_eq!(answers[0].1, members[0].id, "the leader is unchanged");
        } else {
            assert_ne!(answers[0].1, members[0].id);
        }
        assert_eq!(room.heartbeat(&members[absent]), 22);
    }
}

#[test]
fn static_23_k1_every_restart_yields_a_new_id_and_no_rebalance() {
    for version in 5..=9 {
        let mut room = Room::new();
        let mut members = [client("g").with_instance("only")];
        room.stable(&mut members);
        let [mut member] = members;
        for _ in 0..5 {
            let before = member.id.clone();
            member = member.restarted().with_version(version);
            let answer = comes_back(&mut room, &mut member);
            assert_eq!((answer.generation_id, answer.members.len()), (1, usize::from(version >= 9)));
            assert_eq!(&*answer.leader, if version >= 9 { &*member.id } else { &*before });
            assert_eq!(assignment(&mut room, &member), "part-0");
        }
    }
}

#[test]
fn static_k2_k3_k4_client_id_session_timeout_and_coming_back_after_leaving() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member);
    let mut again = Client { client_id: "other".into(), ..b.restarted() }.with_session(1_000);
    comes_back(&mut room, &mut again);
    let group = room.groups.describe("g").unwrap();
    assert_eq!(group.members().nth(1).unwrap().client_id(), "client", "that of the replaced member");
    room.pass(1_000);
    assert_eq!((room.heartbeat(&again), room.heartbeat(&a)), (25, 27), "the session time-out it brought counts");
    let rejoining = room.join(&a);
    accepted(&mut room, rejoining);
    let ticket = room.join(&b.restarted());
    let rejoining = room.join(&a);
    accepted(&mut room, rejoining);
    assert_ne!(room.joined(ticket).unwrap().member_id.to_string(), b.id);
    assert_eq!(room.heartbeat(&b), 82);
}

#[test]
fn static_k5_k7_mixed_groups_and_the_empty_instance_id() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g").with_instance(""), client("g")];
    room.stable(&mut members);
    assert!(members[1].id.starts_with('-'));
    comes_back(&mut room, &mut members[1].restarted());
    let codes = members.each_ref().map(|member| room.heartbeat(member));
    assert_eq!(codes, [0, 82, 0]);
}

#[test]
fn static_a_replacement_in_preparing_rebalance_is_parked_and_may_complete_the_phase() {
    let mut room = Room::new();
    let [a, b] = pair(&mut room, |member| member);
    let leader = room.join(&a);
    let ticket = room.join(&b.restarted());
    assert_eq!(accepted(&mut room, leader).0, a.generation + 1);
    accepted(&mut room, ticket);
}

#[test]
fn static_a_full_group_turns_a_restarted_client_away_as_kafka_does() {
    let mut room = Room::with_max_size(2, 0);
    let [a, b] = pair(&mut room, |member| member);
    refuses(&mut room, &b.restarted(), 81, "");
    assert_eq!((room.heartbeat(&a), room.heartbeat(&b)), (0, 0));
}

//! JoinGroup: checks, member ids, who rebalances, votes.

use super::room::*;
use crate::errors::ErrorCode;
use crate::group::{JoinAnswer, Record};

/// The shape of every JoinGroup answer that is an error.
#[track_caller]
pub(super) fn assert_refused(answer: Option<JoinAnswer>, error: i16, member_id: &str) {
    let answer = answer.expect("it is answered at once");
    assert_eq!((answer.error.0, answer.generation_id, &*answer.member_id), (error, -1, member_id));
    assert_eq!((&*answer.leader, answer.members.len(), answer.skip_assignment), ("", 0, false));
    assert_eq!((answer.protocol_type, answer.protocol_name), (None, None));
}

#[track_caller]
pub(super) fn refuses(room: &mut Room, client: &Client, error: i16, member_id: &str) {
    let ticket = room.join(client);
    assert_refused(room.joined(ticket), error, member_id);
}

/// Of a JoinGroup that succeeded: generation, leader, member ids.
#[track_caller]
pub(super) fn accepted(room: &mut Room, ticket: i32) -> (i32, String, Vec<String>) {
    let answer = room.joined(ticket).expect("the JoinGroup is answered");
    assert_eq!(answer.error, ErrorCode::NONE);
    (answer.generation_id, answer.leader.to_string(), answer.members.iter().map(|m| m.member_id().into()).collect())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.chars().enumerate().all(|(at, c)| match at {
            8 | 13 | 18 | 23 => c == '-',
            14 => c == '4',
            _ => c.is_ascii_hexdigit() && !c.is_ascii_uppercase(),
        })
}

// ---- checks before the group is looked at ------------------------------------------------------------------------

#[test]
fn join_02_08_21_an_empty_group_id_is_refused() {
    for version in 0..=9 {
        refuses(&mut Room::new(), &client("").with_id("m").with_version(version), 24, "m");
    }
}

#[test]
fn join_03_04_k1_session_timeouts_out_of_bounds_are_refused_and_create_nothing() {
    let mut room = Room::with(crate::group::settings::GroupSettings::default(), Default::default());
    for (session_ms, is_legal) in [
        (5_999, false),
        (6_000, true),
        (1_800_000, true),
        (1_800_001, false),
        (0, false),
        (-1, false),
        (i32::MIN, false),
    ] {
        let asking = client("g").with_id("m").with_session(session_ms);
        refuses(&mut room, &asking, if is_legal { 25 } else { 26 }, "m");
    }
    assert_eq!(room.state("g"), "Dead");
}

#[test]
fn join_k1_the_rebalance_timeout_has_no_bounds() {
    for rebalance_ms in [i32::MAX, 0, -1, i32::MIN] {
        let mut room = Room::new();
        let ticket = room.join(&client("g").with_rebalance(rebalance_ms));
        assert_eq!(accepted(&mut room, ticket).0, 1, "{rebalance_ms}");
    }
}

#[test]
fn join_k2_the_group_id_comes_before_the_session_timeout_and_that_before_the_member() {
    let mut room = Room::new();
    refuses(&mut room, &client("").with_id("ghost").with_session(0), 24, "ghost");
    refuses(&mut room, &client("g").with_id("ghost").with_session(0).with_type("").with_protocols(""), 26, "ghost");
}

// ---- creating a group ----------------------------------------------------------------------------------------------

#[test]
fn join_11_an_unknown_member_of_an_unknown_group_creates_nothing() {
    let mut room = Room::new();
    refuses(&mut room, &client("g").with_id("ghost"), 25, "ghost");
    assert_eq!((room.state("g"), room.journal.len()), ("Dead", 0));
}

#[test]
fn join_12_14_23_a_newcomer_is_given_an_id_and_an_empty_group_is_written() {
    let mut room = Room::new();
    let ticket = room.join(&client("g").with_version(4));
    let answer = room.joined(ticket).unwrap();
    let id = answer.member_id.to_string();
    assert_refused(Some(answer), 79, &id);
    assert!(id.strip_prefix("client-").is_some_and(is_uuid), "{id}");
    assert_eq!(room.state("g"), "Empty");
    let [Record::GroupMetadata { group_id, group }] = &room.journal[..] else { panic!("{:?}", room.journal) };
    assert_eq!((&**group_id, &*group.protocol_type, group.generation), ("g", "", 0));
    assert_eq!((&group.protocol, &group.leader, group.members.len()), (&None, &None, 0));
}

#[test]
fn join_12_the_answer_does_not_wait_for_the_record() {
    let mut room = Room::new();
    room.disk = Disk::Stalls;
    let ticket = room.join(&client("g").with_version(4));
    assert_eq!(room.joined(ticket).unwrap().error.0, 79);
}

#[test]
fn join_13_15_16_if_the_first_record_fails_whoever_joined_is_told_and_the_group_is_gone() {
    for (error, answer) in [
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, 16),
        (ErrorCode::KAFKA_STORAGE_ERROR, 16),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 15),
        (ErrorCode::NOT_ENOUGH_REPLICAS, 15),
        (ErrorCode::REQUEST_TIMED_OUT, 15),
        (ErrorCode::MESSAGE_TOO_LARGE, -1),
        (ErrorCode::RECORD_LIST_TOO_LARGE, -1),
        (ErrorCode::INVALID_FETCH_SIZE, -1),
        (ErrorCode::CORRUPT_MESSAGE, 2),
    ] {
        for joining in [client("g"), client("g").with_instance("i")] {
            let mut room = Room::with_delay(3_000);
            room.disk = Disk::Fails(error);
            refuses(&mut room, &joining, answer, "");
            assert_eq!(room.state("g"), "Dead");
            assert!(room.groups.core.timers.is_empty());
        }
    }
}

#[test]
fn join_13_others_that_joined_meanwhile_are_told_too() {
    let mut room = Room::with_delay(3_000);
    room.disk = Disk::Stalls;
    let tickets = [room.join(&client("g")), room.join(&client("g"))];
    let handed_out = room.join(&client("g").with_version(4));
    assert_eq!(room.joined(handed_out).unwrap().error.0, 79);
    room.end_writes(Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    for ticket in tickets {
        assert_refused(room.joined(ticket), 15, "");
    }
    assert_eq!((room.state("g"), room.groups.core.pending_members), ("Dead", 0));
}

#[test]
fn join_17_49_the_group_exists_after_a_first_join_was_refused_for_its_protocols() {
    for joining in [client("g").with_type(""), client("g").with_protocols("")] {
        let mut room = Room::new();
        refuses(&mut room, &joining, 23, "");
        assert_eq!(room.state("g"), "Empty");
        assert_eq!(room.groups.list().next().unwrap().protocol_type, "");
    }
}

#[test]
fn join_23_k3_ids_start_with_the_client_or_the_instance_id_and_differ() {
    let mut room = Room::with_delay(3_000);
    let mut seen = Vec::new();
    for (joining, prefix) in [
        (Client { client_id: "cid".into(), ..client("g") }, "cid-"),
        (Client { client_id: "cid".into(), ..client("g") }, "cid-"),
        (Client { client_id: String::new(), ..client("g") }, "-"),
        (client("g").with_instance("iid"), "iid-"),
    ] {
        room.join(&joining);
        let id = room.members("g").into_iter().map(|(id, _)| id).find(|id| !seen.contains(id)).unwrap();
        assert!(id.strip_prefix(prefix).is_some_and(is_uuid), "{id}");
        seen.push(id);
    }
}

#[test]
fn join_k4_before_v4_a_newcomer_is_a_member_before_it_is_answered() {
    let mut room = Room::with_delay(3_000);
    let ticket = room.join(&client("g").with_version(3));
    assert!(!room.is_answered(ticket));
    assert_eq!((room.state("g"), room.members("g").len()), ("PreparingRebalance", 1));
}

// ---- joining a group that exists -----------------------------------------------------------------------------------

#[test]
fn join_18_19_another_type_or_no_common_protocol_is_refused_and_disturbs_nobody() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    for stranger in
        [client("g").with_type("connect"), client("g").with_protocols("robin"), client("g").with_protocols("")]
    {
        refuses(&mut room, &stranger, 23, "");
        refuses(&mut room, &stranger.with_id("ghost"), 23, "ghost");
    }
    assert_eq!((room.heartbeat(&members[0]), room.members("g").len()), (0, 1));
}

#[test]
fn join_20_an_inconsistent_second_joiner_is_refused_and_the_first_succeeds_alone() {
    let mut room = Room::with_delay(3_000);
    let first = room.join(&client("g"));
    refuses(&mut room, &client("g").with_protocols("robin"), 23, "");
    room.pass(3_000);
    assert_eq!(accepted(&mut room, first).2.len(), 1);
}

#[test]
fn join_22_a_lone_member_leads() {
    for version in 0..=9 {
        let mut room = Room::new();
        let mut member = client("g").with_version(version);
        let answer = room.join_through(&mut member);
        assert_eq!(
            (answer.protocol_type.as_deref(), answer.protocol_name.as_deref()),
            (Some("consumer"), Some("range"))
        );
        assert_eq!((answer.generation_id, &*answer.leader, &*answer.member_id), (1, &*member.id, &*member.id));
        assert_eq!(room.state("g"), "CompletingRebalance");
    }
}

#[test]
fn join_25_28_an_unknown_id_is_refused_whether_the_group_has_members_or_had() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    refuses(&mut room, &client("g").with_id("ghost"), 25, "ghost");
    room.leave("g", &[(&members[0].id, None)]);
    refuses(&mut room, &members[0].clone(), 25, &members[0].id);
}

#[test]
fn join_26_27_an_id_that_was_handed_out_joins_without_an_instance_id_only() {
    let mut room = Room::with_delay(1_000);
    let mut member = client("g").with_version(5);
    let ticket = room.join(&member);
    member.id = room.joined(ticket).unwrap().member_id.to_string();
    refuses(&mut room, &Client { instance: Some("i".into()), ..member.clone() }, -1, "");
    let ticket = room.join(&member);
    assert!(!room.is_answered(ticket));
    room.pass(1_000);
    assert_eq!(accepted(&mut room, ticket), (1, member.id.clone(), vec![member.id.clone()]));
    assert_eq!(room.groups.core.pending_members, 0);
}

#[test]
fn join_29_30_36_a_leader_that_rejoins_unchanged_starts_a_rebalance_and_stays_leader() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let [a, b] = &members;
    let ticket_a = room.join(a);
    assert_eq!((room.is_answered(ticket_a), room.state("g"), room.heartbeat(b)), (false, "PreparingRebalance", 27));
    let ticket_b = room.join(b);
    let (generation, leader, known) = accepted(&mut room, ticket_a);
    assert_eq!((generation, &leader, known.len()), (a.generation + 1, &a.id, 2));
    assert_eq!(accepted(&mut room, ticket_b), (a.generation + 1, a.id.clone(), vec![]));
}

#[test]
fn join_31_32_a_follower_that_rejoins_unchanged_is_answered_at_once() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    let [a, b] = &members;
    let ticket = room.join(b);
    assert_eq!(accepted(&mut room, ticket), (a.generation, a.id.clone(), vec![]));
    assert_eq!((room.state("g"), room.heartbeat(a)), ("Stable", 0));
}

#[test]
fn join_33_35_k5_only_other_protocols_count_as_changed() {
    for (again, is_changed) in [
        ("range:r,robin:rr", false),
        ("range:other,robin:rr", true),
        ("robin:rr,range:r", true),
        ("range:r", true),
        ("range:r,robin:rr,more", true),
    ] {
        let mut room = Room::new();
        let mut members = [(); 2].map(|()| client("g").with_protocols("range:r,robin:rr"));
        room.stable(&mut members);
        let [a, b] = &members;
        let ticket = room.join(&b.clone().with_protocols(again).with_session(20_000).with_rebalance(20_000));
        assert_eq!(room.is_answered(ticket), !is_changed, "{again}");
        assert_eq!(room.heartbeat(a), if is_changed { 27 } else { 0 }, "{again}");
        if is_changed {
            let leader = room.join(a);
            let known = room.joined(leader).unwrap();
            let of_b = known.members.iter().find(|member| member.member_id() == b.id).unwrap();
            assert_eq!(of_b.metadata() == b"other", again.starts_with("range:other"), "{again}");
            accepted(&mut room, ticket);
        }
    }
}

#[test]
fn join_34_in_completing_rebalance_other_metadata_starts_over() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b, c] = &members;
    let syncing = room.sync(b, &[]);
    let joining = room.join(&c.clone().with_protocols("range:other"));
    let answer = room.synced(syncing).unwrap();
    assert_eq!((answer.error.0, answer.assignment.len(), answer.protocol_name), (27, 0, None));
    assert_eq!((room.state("g"), room.heartbeat(a), room.is_answered(joining)), ("PreparingRebalance", 27, false));
}

#[test]
fn join_34_a_member_whose_own_sync_is_parked_rejoins_with_other_metadata() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let syncing = room.sync(b, &[]);
    let joining = room.join(&b.clone().with_protocols("range:other"));
    assert_eq!(room.synced(syncing).unwrap().error.0, 27);
    let leader = room.join(a);
    assert_eq!(accepted(&mut room, leader).2.len(), 2);
    assert_eq!(accepted(&mut room, joining).0, a.generation + 1);
}

#[test]
fn join_50_51_a_member_that_lost_the_answer_in_completing_rebalance_gets_it_again() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let mut all = vec![a.id.clone(), b.id.clone()];
    all.sort();
    for (member, known) in [(a, all), (b, vec![])] {
        let ticket = room.join(member);
        let (generation, leader, mut seen) = accepted(&mut room, ticket);
        seen.sort();
        assert_eq!((generation, leader, seen), (a.generation, a.id.clone(), known));
    }
    assert_eq!(room.state("g"), "CompletingRebalance");
}

#[test]
fn join_k6_a_newcomer_in_completing_rebalance_starts_over() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let [a, b] = &members;
    let tickets = [room.join(&client("g")), room.join(b), room.join(a)];
    for ticket in tickets {
        assert_eq!(accepted(&mut room, ticket).0, a.generation + 1);
    }
    assert_eq!(room.members("g").len(), 3);
}

#[test]
fn join_k8_an_id_that_was_handed_out_keeps_the_join_phase_open() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let mut newcomer = client("g").with_version(5);
    let ticket = room.join(&newcomer);
    newcomer.id = room.joined(ticket).unwrap().member_id.to_string();
    assert_eq!((room.heartbeat(&members[0]), room.members("g").len()), (0, 1));
    let leader = room.join(&members[0]);
    room.pass(500);
    assert!(!room.is_answered(leader));
    let ticket = room.join(&newcomer);
    assert_eq!(accepted(&mut room, ticket).0, 2);
    assert_eq!(accepted(&mut room, leader).2.len(), 2);
}

#[test]
fn join_k9_k10_any_bytes_and_many_protocols() {
    let mut room = Room::new();
    let many: String = (0..200).map(|i| format!(",p{i}:")).collect();
    let answer = room.join_through(&mut client("日本語 😀\t'").with_protocols(&format!("range:,range:{many}")));
    assert_eq!((answer.error.0, answer.protocol_name.as_deref()), (0, Some("range")));
    let mut big = client("big");
    big.protocols[0].1 = (0..=255).cycle().take(300_000).collect();
    assert_eq!(room.join_through(&mut big).members[0].metadata(), &big.protocols[0].1[..]);
}

#[test]
fn a_second_join_of_a_parked_member_takes_the_place_of_the_first() {
    let mut room = Room::with_delay(1_000);
    let mut member = client("g").with_version(5);
    let ticket = room.join(&member);
    member.id = room.joined(ticket).unwrap().member_id.to_string();
    let (first, second) = (room.join(&member), room.join(&member));
    room.pass(1_000);
    assert!(!room.is_answered(first));
    assert_eq!(accepted(&mut room, second).0, 1);
}

// ---- votes and leaders ---------------------------------------------------------------------------------------------

#[test]
fn join_45_46_k12_the_first_candidate_of_most_members_is_chosen() {
    for (lists, chosen, metadata) in [
        (&["range:1", "robin:2,range:3"][..], "range", "13"),
        (&["range:1,robin:2", "robin:3,range:4", "range:5,robin:6"], "range", "145"),
        (&["range:1,robin:2", "robin:3,range:4", "robin:5,range:6"], "robin", "235"),
        (&["range:1,robin:2", "x,robin:3,range:4", "y,robin:5,range:6"], "robin", "235"),
    ] {
        let mut room = Room::new();
        let mut members: Vec<Client> = lists.iter().map(|list| client("g").with_protocols(list)).collect();
        room.join_all(&mut members);
        let ticket = room.join(&members[0]);
        let answer = room.joined(ticket).unwrap();
        assert_eq!(answer.protocol_name.as_deref(), Some(chosen), "{lists:?}");
        let seen: Vec<u8> = answer.members.iter().flat_map(|member| member.metadata().to_vec()).collect();
        assert_eq!(String::from_utf8(seen).unwrap(), metadata);
    }
}

#[test]
fn join_47_if_the_leader_misses_the_join_phase_one_that_rejoined_leads() {
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_rebalance(2_000));
    room.stable(&mut members);
    let [a, b] = &members;
    let ticket = room.join(&b.clone().with_protocols("range:other"));
    room.pass(1_999);
    assert!(!room.is_answered(ticket));
    room.pass(1);
    assert_eq!(accepted(&mut room, ticket), (a.generation + 1, b.id.clone(), vec![b.id.clone()]));
    assert_eq!(room.heartbeat(a), 25);
    refuses(&mut room, a, 25, &a.id);
}

#[test]
fn join_k13_when_the_leader_leaves_another_member_leads() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g"), client("g")];
    room.stable(&mut members);
    let [a, b, c] = &members;
    room.leave("g", &[(&a.id, None)]);
    let tickets = [room.join(b), room.join(c)];
    let answers = tickets.map(|ticket| accepted(&mut room, ticket));
    assert_eq!(answers[0].1, answers[1].1);
    assert!([&b.id, &c.id].contains(&&answers[0].1));
    assert_eq!(answers[0].2.len() + answers[1].2.len(), 2);
}

#[test]
fn join_k13_a_newcomer_does_not_lead_where_older_members_are() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g"), client("g")];
    room.stable(&mut members);
    let [a, b, c] = &members;
    room.leave("g", &[(&a.id, None)]);
    let tickets = [room.join(&client("g")), room.join(b), room.join(c)];
    let answers = tickets.map(|ticket| accepted(&mut room, ticket));
    assert!([&b.id, &c.id].contains(&&answers[0].1), "{answers:?}");
}

// ---- limits ----------------------------------------------------------------------------------------------------------

#[test]
fn protocols_and_metadata_of_one_member_are_bounded() {
    use crate::limits::{MEMBER_METADATA_MAX_BYTES, MEMBER_PROTOCOLS_MAX};
    let mut room = Room::new();
    for (count, error) in [(MEMBER_PROTOCOLS_MAX, 0), (MEMBER_PROTOCOLS_MAX + 1, 42)] {
        let mut joining = client(&format!("count-{count}"));
        joining.protocols = (0..count).map(|i| (format!("p{i}"), Vec::new())).collect();
        let ticket = room.join(&joining);
        assert_eq!(room.joined(ticket).unwrap().error.0, error, "{count}");
    }
    for (bytes, error) in [(MEMBER_METADATA_MAX_BYTES, 0), (MEMBER_METADATA_MAX_BYTES + 1, 42)] {
        let mut joining = client(&format!("bytes-{bytes}"));
        joining.protocols[0].1 = vec![7; bytes - "range".len()];
        let ticket = room.join(&joining);
        assert_eq!(room.joined(ticket).unwrap().error.0, error, "{bytes}");
    }
    assert_eq!(room.groups.len(), 2, "what is refused creates nothing");
}

#[test]
fn names_that_the_journal_cannot_hold_are_refused() {
    use crate::limits::NAME_MAX_BYTES;
    let mut room = Room::new();
    let name = |bytes: usize| "x".repeat(bytes);
    let refused = |room: &mut Room, joining: &Client| {
        let ticket = room.join(joining);
        room.joined(ticket).unwrap().error.0
    };
    for (surplus, group, other) in [(0, 0, 0), (1, 24, 42)] {
        let mut joining = client(&name(NAME_MAX_BYTES + surplus));
        assert_eq!(refused(&mut room, &joining), group);
        assert_eq!(room.commit(&joining, "topic", 0, 7), if group == 0 { 25 } else { 24 });
        joining = client(&format!("client-{surplus}"));
        joining.client_id = name(NAME_MAX_BYTES - 37 + surplus);
        assert_eq!(refused(&mut room, &joining), other);
        joining = client(&format!("instance-{surplus}")).with_instance(&name(NAME_MAX_BYTES - 37 + surplus));
        assert_eq!(refused(&mut room, &joining), other);
        joining = client(&format!("type-{surplus}")).with_type(&name(NAME_MAX_BYTES + surplus));
        assert_eq!(refused(&mut room, &joining), other);
        joining = client(&format!("protocol-{surplus}")).with_protocols(&name(NAME_MAX_BYTES + surplus));
        assert_eq!(refused(&mut room, &joining), other);
    }
    assert_eq!(room.groups.len(), 5, "what is refused creates nothing");
    room.restart();
    assert_eq!(room.state(&name(NAME_MAX_BYTES)), "Empty");
}

#[test]
fn of_too_many_ids_that_are_handed_out_the_oldest_is_forgotten() {
    use crate::limits::{PENDING_MEMBERS_MAX, PENDING_MEMBERS_MAX_BYTES};
    let mut room = Room::new();
    let limits = &room.groups.core.handed_out;
    assert_eq!((limits.max, limits.max_bytes), (PENDING_MEMBERS_MAX, PENDING_MEMBERS_MAX_BYTES));
    room.groups.core.handed_out.max = 3;
    let ids: Vec<String> = (0..4).map(|number| ask_for_id(&mut room, &format!("g{number}"))).collect();
    assert_eq!(room.groups.core.pending_members, 3);
    refuses(&mut room, &client("g0").with_version(5).with_id(&ids[0]), 25, &ids[0]);
    let ticket = room.join(&client("g1").with_version(5).with_id(&ids[1]));
    accepted(&mut room, ticket);
    ask_for_id(&mut room, "g4");
    assert_eq!(room.groups.core.pending_members, 3, "at the limit nobody is forgotten");
    let ticket = room.join(&client("g2").with_version(5).with_id(&ids[2]));
    accepted(&mut room, ticket);

    room.groups.core.handed_out.max_bytes = room.groups.core.handed_out.bytes;
    ask_for_id(&mut room, "g5");
    assert_eq!(room.groups.core.pending_members, 3, "at the limit of bytes nobody is forgotten");
    ask_for_id(&mut room, "g6");
    assert_eq!(room.groups.core.pending_members, 3, "one past it the oldest is");
    room.pass(10_000);
    assert_eq!((room.groups.core.pending_members, room.groups.core.handed_out.bytes), (0, 0));
}

#[test]
fn a_rebalance_does_not_wait_for_an_id_that_was_forgotten() {
    let mut room = Room::new();
    let mut members = [client("g").with_version(5)];
    room.stable(&mut members);
    room.groups.core.handed_out.max = 1;
    ask_for_id(&mut room, "g");
    let ticket = room.join(&members[0]);
    assert!(!room.is_answered(ticket));
    ask_for_id(&mut room, "other");
    accepted(&mut room, ticket);
}

fn ask_for_id(room: &mut Room, group: &str) -> String {
    let ticket = room.join(&client(group).with_version(5));
    let answer = room.joined(ticket).unwrap();
    assert_eq!(answer.error.0, 79);
    answer.member_id.to_string()
}

#[test]
fn the_memory_of_groups_is_bounded_and_who_is_there_goes_on() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    assert_eq!(room.commit(&members[0], "t", 0, 1), 0);
    room.groups.core.memory.max_bytes = room.groups.core.memory.used_bytes();

    refuses(&mut room, &client("g"), 15, "");
    refuses(&mut room, &client("new"), 15, "");
    assert_eq!((room.groups.len(), room.commit(&client("new"), "t", 0, 1)), (1, 15));
    assert_eq!(room.commit(&members[0], "t", 1, 1), 15, "an offset more");
    assert_eq!(room.commit(&members[0], "t", 0, 2), 0, "another offset in its place");
    assert_eq!(room.heartbeat(&members[0]), 0);
    let longer = members[0].clone().with_protocols(&format!("range:{}", "x".repeat(1_000)));
    refuses(&mut room, &longer, 15, &members[0].id);

    room.join_all(&mut members);
    let leader = members[0].clone();
    let ticket = room.sync(&leader, &[(&leader.id, "four")]);
    assert_eq!(room.synced(ticket).unwrap().error.0, 15, "assignments");
    let ticket = room.sync(&leader, &[]);
    assert_eq!(room.synced(ticket).unwrap().error.0, 0);

    room.leave("g", &[(&members[0].id, None)]);
    let ticket = room.join(&client("g"));
    accepted(&mut room, ticket);
}

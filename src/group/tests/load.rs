//! Restarts: what was written is there again, nothing else.

use super::join::{accepted, refuses};
use super::room::*;
use crate::group::{GroupMetadata, MemberMetadata, Record};

#[test]
fn load_01_a_stable_group_with_offsets() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("i-0"), client("g"), client("g")];
    room.stable(&mut members);
    for (i, member) in members.iter().enumerate() {
        room.commit(member, "t", i as i32, 100 + i as i64);
    }
    let shown = |room: &Room| {
        let group = room.groups.describe("g").unwrap();
        let mut members: Vec<_> = group
            .members()
            .map(|m| {
                format!(
                    "{} {:?} {} {} {:?} {:?}",
                    m.member_id(),
                    m.group_instance_id(),
                    m.client_id(),
                    m.client_host(),
                    m.metadata(),
                    m.assignment()
                )
            })
            .collect();
        members.sort();
        (group.state(), group.protocol_type().to_owned(), group.protocol_data().to_owned(), members)
    };
    let before = shown(&room);
    for _ in 0..2 {
        room.restart();
        assert_eq!(shown(&room), before);
        for (i, member) in members.iter().enumerate() {
            assert_eq!((room.heartbeat(member), room.offset("g", "t", i as i32)), (0, 100 + i as i64));
            let ticket = room.sync(member, &[]);
            assert_eq!(&*room.synced(ticket).unwrap().assignment, format!("part-{i}").as_bytes());
        }
    }
    assert_eq!((room.commit(&members[1], "t", 1, 500), room.offset("g", "t", 1)), (0, 500));
}

#[test]
fn load_02_03_04_15_simple_groups_deleted_offsets_and_deleted_groups() {
    let mut room = Room::new();
    for group in ["simple", "cleared", "emptied", "deleted", "remade"] {
        room.commit(&client(group), "t", 0, 10);
        room.commit(&client(group), "t", 1, 11);
    }
    let now = room.now;
    room.groups.begin_offset_delete("cleared").unwrap().delete("t", 0);
    let mut deleter = room.groups.begin_offset_delete("emptied").unwrap();
    deleter.delete("t", 0);
    deleter.delete("t", 1);
    room.groups.delete_group("deleted", now);
    room.groups.delete_group("remade", now);
    room.settle();
    room.commit(&client("remade"), "t", 1, 99);
    let mut members = [client("left")];
    room.stable(&mut members);
    room.leave("left", &[(&members[0].id, None)]);
    for _ in 0..2 {
        room.restart();
        let offsets = |group: &str| [0, 1].map(|partition| room.offset(group, "t", partition));
        assert_eq!([offsets("simple"), offsets("cleared")], [[10, 11], [-1, 11]]);
        assert_eq!([offsets("deleted"), offsets("remade")], [[-1, -1], [-1, 99]]);
        let mut listed: Vec<_> = room.groups.list().map(|g| (g.group_id, g.protocol_type, g.state)).collect();
        listed.sort_unstable();
        assert_eq!(
            listed,
            [("cleared", "", "Empty"), ("left", "consumer", "Empty"), ("remade", "", "Empty"), ("simple", "", "Empty")]
        );
    }
}

#[test]
fn load_a_group_that_was_written_stays_without_its_offsets() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    room.commit(&members[0], "t", 0, 7);
    room.leave("g", &[(&members[0].id, None)]);
    assert!(room.groups.begin_offset_delete("g").unwrap().delete("t", 0).is_none());
    room.settle();
    room.restart();
    assert_eq!((room.state("g"), room.offset("g", "t", 0)), ("Empty", -1));
}

#[test]
fn load_04_a_group_tombstone_leaves_offsets_alone() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    room.commit(&members[0], "t", 0, 7);
    room.journal.push(Record::GroupTombstone { group_id: "g".into() });
    room.restart();
    assert_eq!((room.state("g"), room.offset("g", "t", 0), room.members("g").len()), ("Empty", 7, 0));
    assert_eq!(room.groups.describe("g").unwrap().protocol_type(), "");
}

#[test]
fn load_08_timer_k11_sessions_start_anew_and_in_full() {
    let mut room = Room::new();
    let mut members = [client("g").with_session(5_000)];
    room.stable(&mut members);
    room.pass(4_999);
    room.now = room.now.after(std::time::Duration::from_secs(3_600));
    room.restart();
    room.pass(4_999);
    assert_eq!(room.state("g"), "Stable");
    room.pass(1);
    assert_eq!((room.state("g"), room.heartbeat(&members[0])), ("Empty", 25));
}

#[test]
fn join_14_load_k5_the_group_outlives_a_crash_and_the_handed_out_id_does_not() {
    let mut room = Room::new();
    let ticket = room.join(&client("g").with_version(5));
    let id = room.joined(ticket).unwrap().member_id.to_string();
    room.restart();
    assert_eq!(room.state("g"), "Empty");
    refuses(&mut room, &client("g").with_id(&id).with_version(5), 25, &id);
    let mut again = client("g").with_version(5);
    assert_eq!(room.join_through(&mut again).generation_id, 1);
}

#[test]
fn join_k11_members_generation_and_leader_outlive_a_crash() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.stable(&mut members);
    room.restart();
    let [a, b] = &members;
    let ticket = room.join(b);
    assert_eq!(accepted(&mut room, ticket), (a.generation, a.id.clone(), vec![]));
    let tickets = [room.join(&client("g")), room.join(a), room.join(b)];
    let answers = tickets.map(|ticket| accepted(&mut room, ticket));
    assert_eq!((answers[1].0, &answers[1].1, answers[1].2.len()), (a.generation + 1, &a.id, 3));
}

#[test]
fn load_only_the_chosen_protocol_is_known_so_a_follower_with_several_counts_as_changed() {
    let mut room = Room::new();
    let mut members = [(); 2].map(|()| client("g").with_protocols("range:r,robin:rr"));
    room.stable(&mut members);
    room.restart();
    let ticket = room.join(&members[1]);
    assert_eq!((room.is_answered(ticket), room.heartbeat(&members[0])), (false, 27));
}

#[test]
fn leave_k8_load_k3_who_has_left_stays_away_and_an_empty_group_keeps_its_generation() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    room.leave("g", &[(&members[0].id, None)]);
    room.restart();
    assert_eq!((room.heartbeat(&members[0]), room.groups.describe("g").unwrap().protocol_type()), (25, "consumer"));
    let mut again = client("g").with_type("connect");
    assert_eq!(room.join_through(&mut again).generation_id, 3);
}

#[test]
fn sync_k9_load_k4_a_crash_in_the_middle_of_a_rebalance_goes_back_to_the_last_generation() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let [a] = &members;
    let tickets = [room.join(&client("g")), room.join(a)];
    let newcomer = room.joined(tickets[0]).unwrap().member_id.to_string();
    assert_eq!(accepted(&mut room, tickets[1]).0, 2);
    room.restart();
    assert_eq!((room.state("g"), room.members("g").len()), ("Stable", 1));
    assert_eq!((room.heartbeat(a), room.heartbeat(&Client { generation: 2, ..a.clone() })), (0, 22));
    assert_eq!(room.heartbeat(&Client { generation: 1, ..client("g").with_id(&newcomer) }), 25);
    assert_eq!(room.commit(a, "t", 0, 1), 0);
}

#[test]
fn static_k9_static_members_outlive_a_crash() {
    let mut room = Room::new();
    let mut members = ["a", "b"].map(|instance| client("g").with_instance(instance));
    room.stable(&mut members);
    let replaced = room.join(&members[1].restarted());
    let id = room.joined(replaced).unwrap().member_id.to_string();
    room.restart();
    let [a, b] = &members;
    assert_eq!((room.heartbeat(a), room.heartbeat(b), room.heartbeat(&b.clone().with_id(&id))), (0, 82, 0));
    let ticket = room.join(&b.restarted());
    let again = room.joined(ticket).unwrap();
    assert_eq!((again.error.0, again.generation_id, &*again.leader), (0, a.generation, &*a.id));
    let ticket = room.sync(&Client { id: again.member_id.to_string(), ..b.clone() }, &[]);
    assert_eq!(&*room.synced(ticket).unwrap().assignment, b"part-1");
}

#[test]
fn load_partition_by_partition() {
    let mut room = Room::new();
    room.stable(&mut [client("first").with_session(5_000)]);
    room.stable(&mut [client("second").with_session(5_000)]);
    let (group, offsets) = room.settings.clone();
    room.groups = crate::group::Groups::new(group, offsets, Box::new(CountedIds(99)), room.now);
    let journal = std::mem::take(&mut room.journal);
    let partition = |record: &Record| i32::from(&**record.group_id() == "second");
    journal.iter().for_each(|record| room.groups.apply(partition(record), record));
    assert!(!room.groups.start_loaded(0, room.now));
    room.pass(5_000);
    assert_eq!((room.state("first"), room.state("second")), ("Empty", "Stable"));
    assert!(!room.groups.start_loaded(1, room.now));
    room.pass(5_000);
    assert_eq!(room.state("second"), "Empty");
}

#[test]
fn load_a_topic_that_goes_meanwhile_is_deleted_from_the_groups_when_they_are_there() {
    let mut room = Room::new();
    for group in ["open", "loading"] {
        room.commit(&client(group), "gone", 0, 5);
        room.commit(&client(group), "stays", 0, 6);
    }
    let (group, offsets) = room.settings.clone();
    room.groups = crate::group::Groups::new(group, offsets, Box::new(CountedIds(99)), room.now);
    let journal = std::mem::take(&mut room.journal);
    let (first, second): (Vec<_>, Vec<_>) = journal.iter().partition(|record| &**record.group_id() == "open");
    first.iter().for_each(|record| room.groups.apply(0, record));
    assert!(!room.groups.start_loaded(0, room.now));
    let (before, last) = second.split_at(second.len() - 1);
    before.iter().for_each(|record| room.groups.apply(1, record));
    room.delete_topic("gone");
    room.settle();
    assert_eq!((room.journal.len(), room.offset("open", "gone", 0), room.offset("loading", "gone", 0)), (1, -1, 5));
    last.iter().for_each(|record| room.groups.apply(1, record));
    assert!(!room.groups.start_loaded(1, room.now));
    room.delete_topic("gone");
    room.settle();
    let shown = ["open", "loading"].map(|group| [room.offset(group, "gone", 0), room.offset(group, "stays", 0)]);
    assert_eq!((room.journal.len(), shown), (2, [[-1, 6]; 2]));
}

#[test]
fn load_nothing_expires_before_all_is_there() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 5);
    let (group, offsets) = room.settings.clone();
    room.groups = crate::group::Groups::new(group, offsets, Box::new(CountedIds(99)), room.now);
    let journal = std::mem::take(&mut room.journal);
    journal.iter().for_each(|record| room.groups.apply(0, record));
    let long_ms = 1_000 * 24 * 3_600_000;
    room.pass(long_ms);
    assert_eq!((room.journal.len(), room.offset("g", "t", 0)), (0, 5));
    assert!(!room.groups.start_loaded(0, room.now));
    room.pass(0);
    assert_eq!(room.offset("g", "t", 0), -1);
}

#[test]
#[should_panic(expected = "in use")]
fn load_what_is_in_use_is_not_overwritten() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 5);
    room.restart();
    let record = room.journal[0].clone();
    room.groups.apply(0, &record);
}

#[test]
fn load_many_groups_are_started_in_bounded_pieces() {
    let mut room = Room::new();
    for group in 0..1_000 {
        room.commit(&client(&format!("g-{group}")), "t", 0, 5);
    }
    let (group, offsets) = room.settings.clone();
    room.groups = crate::group::Groups::new(group, offsets, Box::new(CountedIds(99)), room.now);
    let journal = std::mem::take(&mut room.journal);
    journal.iter().for_each(|record| room.groups.apply(0, record));
    let pieces = std::iter::from_fn(|| room.groups.start_loaded(0, room.now).then_some(())).count();
    assert_eq!(pieces, 1_000 / 256);
}

#[test]
fn load_what_other_writers_may_have_written() {
    let member = |id: &str| MemberMetadata::new(id, Some("i"), "c", "/h", 1_000, 2_000, b"s", b"a");
    let group = |members: Vec<MemberMetadata>, leader: Option<&str>, protocol: Option<&str>| {
        let group = GroupMetadata {
            protocol_type: "consumer".into(),
            generation: 7,
            protocol: protocol.map(Into::into),
            leader: leader.map(Into::into),
            current_state_timestamp_ms: -1,
            members,
        };
        Record::GroupMetadata { group_id: "g".into(), group: std::rc::Rc::new(group) }
    };
    for record in [
        group(vec![member("m")], Some("m"), Some("range")),
        group(vec![member("m")], Some("gone"), Some("range")),
        group(vec![member("m")], None, None),
    ] {
        let mut room = Room::new();
        room.journal.push(record);
        room.restart();
        let known = Client { generation: 7, ..client("g").with_id("m").with_instance("i") };
        assert_eq!((room.state("g"), room.heartbeat(&known)), ("Stable", 0));
        let ticket = room.sync(&known, &[]);
        assert_eq!(&*room.synced(ticket).unwrap().assignment, b"a");
        room.pass(2_000);
        assert_eq!(room.state("g"), "Empty");
    }
}

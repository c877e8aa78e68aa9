//! DescribeGroups, ListGroups, DeleteGroups.

use super::join::accepted;
use super::room::*;
use crate::errors::ErrorCode;
use crate::group::Record;

fn listed(room: &Room) -> Vec<(String, String, &'static str, &'static str)> {
    let mut groups: Vec<_> = room
        .groups
        .list()
        .map(|group| (group.group_id.to_owned(), group.protocol_type.to_owned(), group.state, group.group_type))
        .collect();
    groups.sort();
    groups
}

#[test]
fn describe_01_06_a_stable_group() {
    let mut room = Room::new();
    let mut members = [Client { client_id: "client-id".into(), ..client("g") }.with_protocols("range:123,other:no")];
    room.join_all(&mut members);
    room.sync(&members[0], &[(&members[0].id, "456")]);
    let group = room.groups.describe("g").unwrap();
    assert_eq!((group.state(), group.protocol_type(), group.protocol_data()), ("Stable", "consumer", "range"));
    let member = group.members().next().unwrap();
    assert_eq!((member.member_id(), member.group_instance_id()), (&*members[0].id, None));
    assert_eq!((member.client_id(), member.client_host()), ("client-id", "/127.0.0.1"));
    assert_eq!((member.metadata(), member.assignment(), group.member_count()), (&b"123"[..], &b"456"[..], 1));
}

#[test]
fn describe_02_07_assign_k4_while_rebalancing_there_is_no_metadata_and_the_last_assignment() {
    let mut room = Room::new();
    let mut members = [client("g"), client("g")];
    room.join_all(&mut members);
    let shown = |room: &Room| {
        let group = room.groups.describe("g").unwrap();
        let metadata: Vec<Vec<u8>> = group.members().map(|member| member.metadata().to_vec()).collect();
        let assignments: Vec<String> = room.members("g").into_iter().map(|(_, assignment)| assignment).collect();
        (group.state(), group.protocol_data().to_owned(), metadata.concat(), assignments)
    };
    let none = vec![String::new(); 2];
    assert_eq!(shown(&room), ("CompletingRebalance", String::new(), vec![], none.clone()));
    room.sync(&members[0], &[(&members[0].id, "part-0"), (&members[1].id, "part-1")]);
    let parts = vec!["part-0".to_owned(), "part-1".to_owned()];
    assert_eq!(shown(&room), ("Stable", "range".into(), b"metameta".to_vec(), parts.clone()));
    room.join(&members[0]);
    assert_eq!(shown(&room), ("PreparingRebalance", String::new(), vec![], parts.clone()));
    room.join(&members[1]);
    assert_eq!(shown(&room), ("CompletingRebalance", String::new(), vec![], parts));
    room.join(&client("g"));
    assert_eq!(shown(&room).3, vec![""; 3], "a rebalance out of CompletingRebalance takes the assignments away");
}

#[test]
fn describe_03_10_k2_unknown_empty_and_simple_groups() {
    let mut room = Room::new();
    assert!(room.groups.describe("g").is_none() && room.groups.describe("").is_none());
    let mut members = [client("g").with_type("connect")];
    room.stable(&mut members);
    room.leave("g", &[(&members[0].id, None)]);
    room.commit(&client("simple"), "t", 0, 1);
    for (id, protocol_type) in [("g", "connect"), ("simple", "")] {
        let group = room.groups.describe(id).unwrap();
        assert_eq!((group.state(), group.protocol_type(), group.protocol_data()), ("Empty", protocol_type, ""));
        assert_eq!(group.member_count(), 0);
    }
}

#[test]
fn list_01_15_k1_groups_of_all_kinds() {
    let mut room = Room::new();
    room.stable(&mut [client("1-stable")]);
    room.join_all(&mut [client("2-completing")]);
    let mut members = [client("3-empty")];
    room.stable(&mut members);
    room.leave("3-empty", &[(&members[0].id, None)]);
    room.stable(&mut [client("4-preparing").with_type("connect")]);
    room.join(&client("4-preparing").with_type("connect"));
    room.commit(&client("5-simple"), "t", 0, 1);
    let expected = [
        ("1-stable", "consumer", "Stable", "classic"),
        ("2-completing", "consumer", "CompletingRebalance", "classic"),
        ("3-empty", "consumer", "Empty", "classic"),
        ("4-preparing", "connect", "PreparingRebalance", "classic"),
        ("5-simple", "", "Empty", "classic"),
    ];
    assert_eq!(listed(&room), expected.map(|(id, kind, state, group)| (id.into(), kind.into(), state, group)));
}

#[test]
fn delete_01_02_03_06_only_empty_groups_go_and_their_offsets_with_them() {
    let mut room = Room::new();
    let mut members = [client("g")];
    let delete = |room: &mut Room, id: &str| {
        let code = room.groups.delete_group(id, room.now);
        room.settle();
        code
    };
    assert_eq!(delete(&mut room, "g"), ErrorCode::GROUP_ID_NOT_FOUND);
    room.join_all(&mut members);
    assert_eq!(delete(&mut room, "g"), ErrorCode::NON_EMPTY_GROUP);
    room.sync(&members[0], &[]);
    assert_eq!((room.state("g"), delete(&mut room, "g")), ("Stable", ErrorCode::NON_EMPTY_GROUP));
    assert_eq!((room.commit(&members[0], "t", 0, 7), room.commit(&members[0], "u", 3, 8)), (0, 0));
    room.join(&client("g"));
    assert_eq!((room.state("g"), delete(&mut room, "g")), ("PreparingRebalance", ErrorCode::NON_EMPTY_GROUP));
    room.pass(60_000);
    let left: Vec<String> = room.members("g").into_iter().map(|(id, _)| id).collect();
    for id in &left {
        room.leave("g", &[(id, None)]);
    }
    let records = room.journal.len();
    assert_eq!(delete(&mut room, "g"), ErrorCode::NONE);
    let kinds: Vec<&str> = room.journal[records..]
        .iter()
        .map(|record| match record {
            Record::OffsetTombstone { key } => &*key.topic,
            Record::GroupTombstone { group_id } => group_id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["t", "u", "g"]);
    assert_eq!((room.state("g"), room.offset("g", "t", 0), room.groups.len()), ("Dead", -1, 0));
    assert_eq!(delete(&mut room, "g"), ErrorCode::GROUP_ID_NOT_FOUND);
    room.restart();
    assert_eq!((room.state("g"), room.offset("g", "u", 3)), ("Dead", -1));
}

#[test]
fn delete_k1_a_deleted_group_starts_from_nothing() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    room.leave("g", &[(&members[0].id, None)]);
    room.groups.delete_group("g", room.now);
    let mut again = [client("g").with_type("connect")];
    room.stable(&mut again);
    assert_eq!((again[0].generation, room.heartbeat(&members[0])), (1, 25));
}

#[test]
fn delete_takes_ids_that_were_handed_out_with_it() {
    let mut room = Room::new();
    let ticket = room.join(&client("g").with_version(5));
    let id = room.joined(ticket).unwrap().member_id.to_string();
    assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
    room.settle();
    assert_eq!((room.groups.core.pending_members, room.groups.core.timers.len()), (0, 0));
    super::join::refuses(&mut room, &client("g").with_id(&id), 25, &id);
}

#[test]
fn delete_a_refused_deletion_brings_the_group_back() {
    for is_made_anew in [false, true] {
        let mut room = Room::new();
        room.commit(&client("g"), "t", 0, 7);
        room.disk = Disk::Stalls;
        assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
        room.settle();
        assert_eq!((room.state("g"), room.offset("g", "t", 0)), ("Dead", -1));
        if is_made_anew {
            room.commit(&client("g"), "t", 0, 8);
        }
        room.disk = Disk::Works;
        room.end_writes(Err(ErrorCode::KAFKA_STORAGE_ERROR));
        assert_eq!((room.state("g"), room.offset("g", "t", 0)), ("Empty", 7));
        assert_eq!(room.groups.len(), 1);
    }
}

/// A commit and the deletion of its group are on their way: four outcomes, in order or with the refusals at once.
#[test]
fn delete_and_a_commit_before_it_have_a_fate_each() {
    let refused = Err(ErrorCode::KAFKA_STORAGE_ERROR);
    for (commit, deletion, left) in
        [(Ok(()), Ok(()), -1), (refused, Ok(()), -1), (Ok(()), refused, 8), (refused, refused, 7)]
    {
        for is_reversed in [false, true] {
            let mut room = Room::new();
            room.commit(&client("g"), "t", 0, 7);
            room.commit(&client("other"), "t", 0, 7);
            room.disk = Disk::Stalls;
            room.commit(&client("g"), "t", 0, 8);
            assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
            room.settle();
            let mut ends: Vec<_> = room.stalled.drain(..).map(|(write, _)| write).zip([commit, deletion]).collect();
            if is_reversed && deletion.is_err() {
                ends.reverse();
            }
            for (write, result) in ends {
                room.groups.written(write, result, room.now);
            }
            assert_eq!(room.offset("g", "t", 0), left, "{commit:?} {deletion:?} {is_reversed}");
            assert!(room.groups.offsets("g").is_none_or(|offsets| offsets.is_settled()));
        }
    }
}

#[test]
fn delete_refused_after_the_group_was_made_anew_by_a_commit_that_fails_too() {
    for is_reversed in [false, true] {
        let mut room = Room::new();
        room.commit(&client("g"), "t", 0, 7);
        room.commit(&client("g"), "t", 1, 7);
        room.disk = Disk::Stalls;
        assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
        room.settle();
        room.commit(&client("g"), "t", 0, 8);
        let mut writes: Vec<_> = room.stalled.drain(..).map(|(write, _)| write).collect();
        if is_reversed {
            writes.reverse();
        }
        for write in writes {
            room.groups.written(write, Err(ErrorCode::KAFKA_STORAGE_ERROR), room.now);
        }
        assert_eq!((room.offset("g", "t", 0), room.offset("g", "t", 1)), (7, 7), "{is_reversed}");
        assert!(room.groups.offsets("g").unwrap().is_settled());
    }
}

/// A group of consumers that is Empty, made anew by a commit or a JoinGroup while its deletion is on its way. Both fail.
#[test]
fn delete_refused_after_the_group_was_made_anew_gives_it_back_as_it_was() {
    const DAY_MS: i64 = 24 * 3_600_000;
    for (is_joined, is_reversed) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut room = Room::new();
        let mut members = [client("g")];
        room.stable(&mut members);
        room.commit(&members[0], "t", 0, 7);
        let Some(Record::OffsetCommit { offset, .. }) = room.journal.last_mut() else { panic!("no commit") };
        offset.commit_timestamp_ms -= 8 * DAY_MS;
        room.leave("g", &[(&members[0].id, None)]);
        room.restart();
        let before = listed(&room);
        room.disk = Disk::Stalls;
        assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
        room.settle();
        if is_joined {
            room.join(&client("g").with_type("connect"));
        } else {
            room.commit(&client("g"), "t", 0, 8);
        }
        if is_reversed {
            room.stalled.reverse();
        }
        room.disk = Disk::Works;
        room.end_writes(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
        assert_eq!((listed(&room), room.offset("g", "t", 0)), (before, 7), "{is_joined} {is_reversed}");
        room.pass(DAY_MS as u64);
        assert_eq!(room.offset("g", "t", 0), 7, "kept from when the group became Empty on");
        room.join_all(&mut [client("other")]);
        assert_eq!(room.join_through(&mut client("g")).generation_id, 3);
    }
}

#[test]
fn load_11_losing_the_partition_sends_everybody_away_and_writes_nothing() {
    let mut room = Room::with_delay(3_000);
    let mut members = [client("lost"), client("lost")];
    let joining = room.join(&members[0]);
    let id = room.members("lost").remove(0).0;
    let kept = room.join(&client("kept"));
    room.groups.unload(|group_id| group_id == "lost", room.now);
    room.settle();
    let answer = room.joined(joining).unwrap();
    assert_eq!((answer.error.0, &*answer.member_id), (16, &*id));
    assert_eq!((room.state("lost"), room.state("kept")), ("Dead", "PreparingRebalance"));
    room.settings.0.initial_rebalance_delay_ms = 0;
    room.restart();
    room.join_all(&mut members);
    let syncing = room.sync(&members[1], &[]);
    let records = room.journal.len();
    room.groups.unload(|group_id| group_id == "lost", room.now);
    room.settle();
    assert_eq!((room.synced(syncing).unwrap().error.0, room.journal.len()), (16, records));
    assert!(!room.is_answered(kept));
}

#[test]
fn groups_are_bounded() {
    use crate::limits::GROUPS_MAX;
    assert_eq!(GROUPS_MAX, 1 << 22);
    let mut room = Room::new();
    room.groups.groups_max = 2;
    let first = room.join(&client("1"));
    accepted(&mut room, first);
    assert_eq!(room.commit(&client("2"), "t", 0, 1), 0);
    super::join::refuses(&mut room, &client("3"), 15, "");
    assert_eq!(room.commit(&client("3"), "t", 0, 1), 15);
    assert_eq!((room.groups.len(), room.commit(&client("2"), "t", 0, 2)), (2, 0));
}

#[test]
fn until_a_deletion_is_written_nobody_is_sure_that_the_group_has_no_offsets() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 5);
    assert!(!room.groups.has_unwritten_deletions());
    for result in [Err(ErrorCode::COORDINATOR_NOT_AVAILABLE), Ok(())] {
        room.disk = Disk::Stalls;
        assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
        room.settle();
        assert!(room.groups.offsets("g").is_none() && room.groups.has_unwritten_deletions());
        room.disk = Disk::Works;
        room.end_writes(result);
        assert!(!room.groups.has_unwritten_deletions());
        assert_eq!(room.offset("g", "t", 0), if result.is_err() { 5 } else { -1 });
    }
}

#[test]
fn a_commit_that_fails_with_the_deletion_before_it_goes_back_to_what_was_to_be_deleted() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 5);
    room.commit(&client("g"), "t", 1, 6);
    room.disk = Disk::Stalls;
    assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
    room.settle();
    room.commit(&client("g"), "t", 0, 7);
    room.commit(&client("g"), "t", 2, 8);
    assert_eq!([0, 1, 2].map(|partition| room.offset("g", "t", partition)), [7, -1, 8]);
    room.disk = Disk::Works;
    room.end_writes(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!([0, 1, 2].map(|partition| room.offset("g", "t", partition)), [5, 6, -1]);
}

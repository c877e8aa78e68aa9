//! OffsetCommit: who may commit, what is refused, what is stored.

use super::join::accepted;
use super::room::*;
use crate::errors::ErrorCode;
use crate::group::settings::OffsetSettings;
use crate::group::{PartitionCommit, Record};

const PLAIN: PartitionCommit<'static> = PartitionCommit {
    partition: 0,
    offset: 1,
    leader_epoch: -1,
    metadata: None,
    commit_timestamp_ms: None,
    retention_ms: None,
};

fn with_generation(client: &Client, generation: i32) -> Client {
    Client { generation, ..client.clone() }
}

#[test]
fn commit_01_04_a_commit_from_outside_makes_a_simple_group_and_the_empty_id_is_legal() {
    for id in ["g", ""] {
        let mut room = Room::new();
        assert_eq!(room.commit(&client(id), "foo", 0, 100), 0);
        let group = room.groups.list().next().unwrap();
        assert_eq!((group.group_id, group.state, group.protocol_type), (id, "Empty", ""));
        assert_eq!(room.offset(id, "foo", 0), 100);
        let [Record::OffsetCommit { key, offset }] = &room.journal[..] else { panic!("{:?}", room.journal) };
        assert_eq!((&*key.group_id, &*key.topic, key.partition), (id, "foo", 0));
        assert_eq!((offset.offset, offset.leader_epoch, &offset.metadata), (100, -1, &None));
        assert_eq!((offset.commit_timestamp_ms, offset.expire_timestamp_ms), (room.now.unix_ms, -1));
    }
}

#[test]
fn commit_02_03_an_unknown_group_with_a_generation_creates_nothing() {
    let mut room = Room::new();
    for (version, code) in [(9, 69), (10, 69), (8, 22), (1, 22)] {
        for generation in [0, 10] {
            assert_eq!(room.commit(&with_generation(&client("g").with_version(version), generation), "t", 0, 1), code);
        }
    }
    assert_eq!((room.state("g"), room.journal.len()), ("Dead", 0));
}

#[test]
fn commit_06_07_10_members_and_generations() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    let [member] = &members;
    let generation = member.generation;
    for (id, generation, code) in [
        ("stranger", generation, 25),
        ("stranger", generation + 9, 25),
        (&*member.id, generation + 9, 22),
        (&*member.id, generation - 1, 22),
        (&*member.id, -1, 22),
        ("", generation, 25),
        ("", -1, 25),
        (&*member.id, generation, 0),
    ] {
        assert_eq!(room.commit(&with_generation(&member.clone().with_id(id), generation), "t", 0, 1), code, "{id}");
    }
    let static_outsider = Client { instance: Some("x".into()), id: String::new(), generation: -1, ..member.clone() };
    assert_eq!(room.commit(&static_outsider, "t", 0, 1), 25);
}

#[test]
fn commit_08_instance_ids() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("i-1")];
    room.stable(&mut members);
    let [member] = &members;
    assert_eq!(room.commit(&member.clone().with_id("formerly"), "t", 0, 1), 82);
    assert_eq!(room.commit(&with_generation(&member.clone().with_id("formerly"), 99), "t", 0, 1), 82);
    assert_eq!(room.commit(member, "t", 0, 1), 0);
    assert_eq!(room.commit(&Client { instance: None, ..member.clone() }, "t", 0, 1), 0);
}

#[test]
fn commit_09_30_k11_completing_rebalance_refuses_after_the_id_checks() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.join_all(&mut members);
    let [member] = &members;
    for (id, generation, code) in [(&*member.id, 1, 27), ("stranger", 1, 25), (&*member.id, 2, 22), ("", -1, 25)] {
        assert_eq!(room.commit(&with_generation(&member.clone().with_id(id), generation), "t", 0, 1), code);
    }
    assert_eq!(room.offset("g", "t", 0), -1);
}

#[test]
fn commit_11_31_commits_keep_a_session_in_stable_and_in_preparing_rebalance() {
    for is_preparing in [false, true] {
        let mut room = Room::new();
        let mut members = [client("g").with_session(5_000)];
        room.stable(&mut members);
        if is_preparing {
            room.join(&client("g"));
            assert_eq!(room.state("g"), "PreparingRebalance");
        }
        for i in 0..10 {
            room.pass(2_500);
            assert_eq!(room.commit(&members[0], "t", 0, i), 0);
        }
        room.pass(4_999);
        assert!(room.members("g").iter().any(|(id, _)| *id == members[0].id));
        room.pass(1);
        assert_eq!(room.commit(&members[0], "t", 0, 99), 25);
        assert_eq!(room.offset("g", "t", 0), 9);
    }
}

#[test]
fn commit_12_17_timestamps() {
    let mut room = Room::new();
    let now = room.now.unix_ms;
    for (commit, committed_at, expires_at) in [
        (PLAIN, now, -1),
        (PartitionCommit { retention_ms: Some(1_234), ..PLAIN }, now, now + 1_234),
        (PartitionCommit { commit_timestamp_ms: Some(5_555), ..PLAIN }, 5_555, -1),
        (PartitionCommit { retention_ms: Some(i64::MAX), ..PLAIN }, now, i64::MAX),
    ] {
        assert_eq!(room.commit_as(&client("g"), "t", commit), 0);
        let Some(Record::OffsetCommit { offset, .. }) = room.journal.last() else { panic!("no record") };
        assert_eq!((offset.commit_timestamp_ms, offset.expire_timestamp_ms), (committed_at, expires_at));
    }
}

#[test]
fn commit_13_14_an_empty_group_does_not_look_at_ids() {
    let mut room = Room::new();
    let stranger = client("g").with_id("unknown").with_instance("x");
    assert_eq!((room.commit(&stranger, "t", 0, 1), room.commit(&stranger, "t", 0, 2)), (0, 0));
    let mut members = [client("g")];
    room.stable(&mut members);
    room.leave("g", &[(&members[0].id, None)]);
    assert_eq!((room.commit(&stranger, "t", 0, 3), room.offset("g", "t", 0)), (0, 3));
    assert_eq!(room.commit(&members[0], "t", 0, 4), 25, "a generation is for members");
}

#[test]
fn commit_15_16_32_metadata() {
    let limit = OffsetSettings { metadata_max_bytes: 16, ..OffsetSettings::default() };
    let mut room = Room::with(settings(), limit);
    for (metadata, code) in [
        ("m".repeat(16), 0),
        ("m".repeat(17), 12),
        ("\u{e9}".repeat(16), 0),
        ("\u{e9}".repeat(17), 12),
        ("\u{1F680}".repeat(8), 0),
        ("\u{1F680}".repeat(9), 12),
    ] {
        let commit = PartitionCommit { metadata: Some(&metadata), ..PLAIN };
        assert_eq!(room.commit_as(&client("g"), "t", commit), code, "{metadata}");
        if code == 0 {
            assert_eq!(room.groups.offsets("g").unwrap().get("t", None, 0).unwrap().metadata, metadata);
        }
    }
    for metadata in [None, Some("")] {
        assert_eq!(room.commit_as(&client("g"), "t", PartitionCommit { metadata, ..PLAIN }), 0);
        assert_eq!(room.groups.offsets("g").unwrap().get("t", None, 0).unwrap().metadata, "");
    }
}

#[test]
fn commit_k2_k3_k4_any_number_goes_and_the_last_one_stays() {
    let mut room = Room::new();
    for offset in [i64::MAX, 0, -1, i64::MIN, 40, 40, 7] {
        assert_eq!(room.commit(&client("g"), "t", 0, offset), 0);
        assert_eq!(room.offset("g", "t", 0), offset);
    }
    let request = crate::group::CommitRequest {
        group_id: "g",
        member_id: "",
        group_instance_id: None,
        generation_id: -1,
        knows_group_id_not_found: true,
    };
    let mut committer = room.groups.begin_commit(&request, room.now).unwrap();
    for offset in [7, 8] {
        assert!(committer.commit("t", [0; 16], PartitionCommit { offset, ..PLAIN }).is_none());
    }
    room.settle();
    assert_eq!(room.offset("g", "t", 0), 8);
}

#[test]
fn commit_k9_a_simple_group_turns_into_one_with_members_and_keeps_its_offsets() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 12);
    let mut members = [client("g")];
    room.stable(&mut members);
    assert_eq!((members[0].generation, room.offset("g", "t", 0), room.commit(&client("g"), "t", 0, 13)), (1, 12, 25));
    room.leave("g", &[(&members[0].id, None)]);
    assert_eq!(room.groups.list().next().unwrap().protocol_type, "consumer");
    assert_eq!(room.offset("g", "t", 0), 12);
}

#[test]
fn a_refused_write_takes_the_commit_back() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 1);
    room.disk = Disk::Fails(ErrorCode::KAFKA_STORAGE_ERROR);
    room.commit(&client("g"), "t", 0, 2);
    room.commit(&client("g"), "t", 1, 2);
    assert_eq!((room.offset("g", "t", 0), room.offset("g", "t", 1)), (1, -1));
    assert!(room.groups.offsets("g").unwrap().is_settled());
}

#[test]
fn a_refused_commit_takes_the_group_that_it_made_with_it() {
    let mut room = Room::new();
    room.disk = Disk::Fails(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    room.commit(&client("g"), "t", 0, 1);
    assert_eq!((room.state("g"), room.groups.len()), ("Dead", 0));
    assert_eq!(room.commit(&with_generation(&client("g").with_version(9), 5), "t", 0, 1), 69);
    room.disk = Disk::Works;
    room.commit(&client("g"), "t", 0, 1);
    room.delete_topic("t");
    room.settle();
    room.disk = Disk::Fails(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    room.commit(&client("g"), "t", 0, 2);
    assert_eq!(room.state("g"), "Empty", "it was there before");
}

/// A JoinGroup or a commit makes a group; another commit, or its deletion, is on its way behind that. Both fail.
#[test]
fn a_creation_that_fails_leaves_nothing_of_what_came_behind_it() {
    for [is_joined, is_deleted, is_reversed] in
        [false, true].map(|a| [false, true].map(|b| [false, true].map(|c| [a, b, c]))).concat().concat()
    {
        let mut room = Room::new();
        room.disk = Disk::Stalls;
        if is_joined {
            room.join(&client("g").with_version(5));
        } else {
            room.commit(&client("g"), "t", 0, 1);
        }
        if is_deleted {
            assert_eq!(room.groups.delete_group("g", room.now), ErrorCode::NONE);
            room.settle();
            room.commit(&client("other"), "t", 0, 1);
        } else {
            room.commit(&client("g"), "t", 1, 2);
        }
        if is_reversed {
            room.stalled.reverse();
        }
        room.disk = Disk::Works;
        room.end_writes(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
        let case = format!("joined {is_joined}, deleted {is_deleted}, reversed {is_reversed}");
        assert_eq!((room.state("g"), room.groups.len()), ("Dead", 0), "{case}");
        room.commit(&client("g"), "t", 2, 3);
        assert_eq!([0, 1, 2].map(|partition| room.offset("g", "t", partition)), [-1, -1, 3], "{case}");
    }
}

#[test]
fn a_refused_write_of_several_commits_goes_back_to_before_all_of_them() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 1);
    let request = crate::group::CommitRequest {
        group_id: "g",
        member_id: "",
        group_instance_id: None,
        generation_id: -1,
        knows_group_id_not_found: true,
    };
    let mut committer = room.groups.begin_commit(&request, room.now).unwrap();
    for offset in [2, 3, 4] {
        assert!(committer.commit("t", [0; 16], PartitionCommit { offset, ..PLAIN }).is_none());
    }
    assert_eq!(room.offset("g", "t", 0), 4);
    room.disk = Disk::Fails(ErrorCode::KAFKA_STORAGE_ERROR);
    room.settle();
    assert_eq!(room.offset("g", "t", 0), 1);
}

/// Commit 2, delete, commit 3 are on their way; each is written or refused. In their order, or with refusals at once.
#[test]
fn each_write_in_flight_has_its_own_fate() {
    let refused = Err(ErrorCode::KAFKA_STORAGE_ERROR);
    for fates in 0..8 {
        for are_refused_at_once in [false, true] {
            let mut room = Room::new();
            room.commit(&client("g"), "t", 0, 1);
            room.disk = Disk::Stalls;
            room.commit(&client("g"), "t", 0, 2);
            room.delete_topic("t");
            room.settle();
            assert_eq!(room.offset("g", "t", 0), -1);
            room.commit(&client("g"), "t", 0, 3);
            assert!(!room.groups.offsets("g").unwrap().is_settled());
            let writes: Vec<_> = room.stalled.drain(..).map(|(write, _)| write).zip([2, -1, 3]).collect();
            let mut ends: Vec<_> = (0..3).map(|i| (writes[i], fates >> i & 1 == 0)).collect();
            if are_refused_at_once {
                ends.reverse();
                ends.sort_by_key(|(_, is_written)| *is_written);
                let written = ends.iter().position(|(_, is_written)| *is_written).unwrap_or(3);
                ends[written..].reverse();
            }
            let mut durable = 1;
            for ((write, value), is_written) in ends {
                room.groups.written(write, if is_written { Ok(()) } else { refused }, room.now);
                if is_written {
                    durable = value;
                }
            }
            assert_eq!(room.offset("g", "t", 0), durable, "{fates:03b} {are_refused_at_once}");
            assert!(room.groups.offsets("g").unwrap().is_settled());
        }
    }
}

#[test]
fn commits_of_a_member_survive_a_rebalance() {
    let mut room = Room::new();
    let mut members = [client("g")];
    room.stable(&mut members);
    room.commit(&members[0], "t", 0, 5);
    let tickets = [room.join(&client("g")), room.join(&members[0])];
    let generation = tickets.map(|ticket| accepted(&mut room, ticket).0)[0];
    assert_eq!(room.commit(&members[0], "t", 0, 6), 22, "the old generation while completing");
    assert_eq!(room.commit(&with_generation(&members[0], generation), "t", 0, 6), 27);
    assert_eq!(room.offset("g", "t", 0), 5);
}

//! Expiry of offsets and of empty groups.

use std::rc::Rc;

use super::join::accepted;
use super::room::*;
use crate::group::settings::OffsetSettings;
use crate::group::subscription::tests::subscription;
use crate::group::{GroupMetadata, MemberMetadata, PartitionCommit, Record};

const MINUTE: u64 = 60_000;

/// Keeps offsets for ten minutes and looks every second.
fn room() -> Room {
    let offsets = OffsetSettings { retention_minutes: 10, retention_check_interval_ms: 1_000, ..Default::default() };
    Room::with(settings(), offsets)
}

fn consumer(topics: &[&str]) -> Client {
    let mut consumer = client("g").with_session(1_800_000);
    consumer.protocols[0].1 = subscription(0, topics);
    consumer
}

fn short_lived(partition: i32, retention_ms: i64) -> PartitionCommit<'static> {
    PartitionCommit {
        partition,
        offset: 5,
        leader_epoch: -1,
        metadata: None,
        commit_timestamp_ms: None,
        retention_ms: Some(retention_ms),
    }
}

#[test]
fn expiry_01_a_simple_groups_offset_lives_from_its_commit_on_and_the_group_as_long_as_its_last_offset() {
    let mut room = room();
    room.commit(&client("g"), "t", 0, 5);
    room.pass(5 * MINUTE);
    room.commit(&client("g"), "t", 1, 6);
    room.pass(5 * MINUTE - 1);
    assert_eq!(room.offset("g", "t", 0), 5);
    room.pass(1_001);
    assert_eq!((room.offset("g", "t", 0), room.offset("g", "t", 1), room.state("g")), (-1, 6, "Empty"));
    room.pass(5 * MINUTE);
    assert_eq!((room.offset("g", "t", 1), room.state("g"), room.groups.len()), (-1, "Dead", 0));
    let tail: Vec<bool> =
        room.journal.iter().rev().take(2).map(|record| matches!(record, Record::GroupTombstone { .. })).collect();
    assert_eq!(tail, [true, false]);
    room.restart();
    assert_eq!(room.groups.len(), 0);
}

#[test]
fn expiry_02_the_clock_starts_when_the_group_becomes_empty() {
    for is_restarted in [false, true] {
        let mut room = room();
        let mut members = [consumer(&["t"])];
        room.stable(&mut members);
        room.commit(&members[0], "t", 0, 5);
        room.pass(8 * MINUTE);
        room.leave("g", &[(&members[0].id, None)]);
        if is_restarted {
            room.restart();
        }
        room.pass(10 * MINUTE - 1);
        assert_eq!(room.offset("g", "t", 0), 5, "{is_restarted}");
        room.pass(1_001);
        assert_eq!((room.offset("g", "t", 0), room.state("g")), (-1, "Dead"));
    }
}

#[test]
fn expiry_03_k2_k4_a_stable_group_keeps_what_it_subscribes_to() {
    let mut room = room();
    let mut members = [consumer(&["foo"])];
    room.stable(&mut members);
    room.commit(&members[0], "foo", 0, 5);
    room.commit(&members[0], "bar", 0, 6);
    room.commit_as(&members[0], "foo", short_lived(1, 500));
    room.commit_as(&members[0], "bar", short_lived(1, 500));
    room.pass(2_000);
    assert_eq!((room.offset("g", "foo", 1), room.offset("g", "bar", 1), room.offset("g", "bar", 0)), (5, -1, 6));
    room.pass(10 * MINUTE);
    assert_eq!((room.offset("g", "foo", 0), room.offset("g", "bar", 0), room.state("g")), (5, -1, "Stable"));
    room.leave("g", &[(&members[0].id, None)]);
    room.pass(2_000);
    assert_eq!((room.offset("g", "foo", 0), room.offset("g", "foo", 1)), (5, -1));
}

#[test]
fn expiry_04_nothing_goes_from_rebalancing_groups_other_types_and_unreadable_subscriptions() {
    for kind in ["connect", "unreadable", "preparing", "completing"] {
        let mut room = room();
        let mut members = [consumer(&["foo"]).with_rebalance(3_600_000)];
        match kind {
            "connect" => members[0].protocol_type = "connect".into(),
            "unreadable" => members[0].protocols[0].1 = b"\0".to_vec(),
            _ => {}
        }
        room.stable(&mut members);
        assert_eq!(room.commit_as(&members[0], "bar", short_lived(0, 10)), 0);
        if kind != "connect" && kind != "unreadable" {
            let newcomer = room.join(&consumer(&["foo"]).with_rebalance(3_600_000));
            if kind == "completing" {
                room.join(&members[0]);
                accepted(&mut room, newcomer);
            }
        }
        room.pass(4 * MINUTE);
        assert_eq!(room.offset("g", "bar", 0), 5, "{kind}");
    }
}

#[test]
fn expiry_05_k1_an_expiry_of_its_own_holds_whatever_the_retention() {
    let mut room = room();
    room.commit_as(&client("g"), "t", short_lived(0, 1_500));
    room.commit_as(&client("g"), "t", short_lived(1, 20 * MINUTE as i64));
    room.commit(&client("g"), "t", 2, 7);
    room.pass(1_499);
    assert_eq!(room.offset("g", "t", 0), 5);
    room.pass(1_000);
    assert_eq!((room.offset("g", "t", 0), room.offset("g", "t", 1), room.offset("g", "t", 2)), (-1, 5, 7));
    room.pass(12 * MINUTE);
    assert_eq!((room.offset("g", "t", 1), room.offset("g", "t", 2)), (5, -1));
    room.commit_as(&client("g"), "t", short_lived(3, 500));
    room.commit(&client("g"), "t", 3, 8);
    room.pass(2_000);
    assert_eq!(room.offset("g", "t", 3), 8, "a later commit without one takes it back");
}

#[test]
fn expiry_07_k7_an_empty_group_without_offsets_goes_at_the_next_look() {
    let mut room = room();
    let mut members = [client("g").with_session(60_000)];
    room.stable(&mut members);
    room.pass(5_000);
    assert_eq!(room.heartbeat(&members[0]), 0);
    room.leave("g", &[(&members[0].id, None)]);
    room.pass(1_000);
    assert_eq!(room.state("g"), "Dead");
    let ticket = room.join(&client("g").with_version(5));
    let id = room.joined(ticket).unwrap().member_id.to_string();
    room.pass(1_000);
    super::join::refuses(&mut room, &client("g").with_id(&id), 25, &id);
    assert_eq!((room.groups.len(), room.groups.core.timers.len()), (0, 0));
}

#[test]
fn expiry_10_a_deleted_topic_takes_its_offsets_with_it() {
    let mut room = room();
    for group in ["1", "2", "3"] {
        for (topic, partition) in [("foo", 0), ("foo", 1), ("bar", 0)] {
            room.commit(&client(group), topic, partition, 1);
        }
    }
    room.delete_topic("foo");
    room.delete_topic("unheard of");
    room.settle();
    for is_restarted in [false, true] {
        for group in ["1", "2", "3"] {
            let offsets = [("foo", 0), ("foo", 1), ("bar", 0)].map(|(topic, p)| room.offset(group, topic, p));
            assert_eq!(offsets, [-1, -1, 1], "{is_restarted}");
        }
        room.restart();
    }
}

#[test]
fn expiry_11_many_groups_are_looked_at_in_pieces() {
    let mut room = room();
    for i in 0..1_000 {
        let group = client(&format!("g{i}"));
        match i % 3 {
            0 => drop(room.commit_as(&group, "t", short_lived(0, 700))),
            1 => drop((room.commit_as(&group, "t", short_lived(0, 700)), room.commit(&group, "t", 1, 9))),
            _ => drop(room.commit(&group, "t", 0, 9)),
        }
    }
    let now = room.now.after(std::time::Duration::from_millis(1_000));
    room.groups.advance(now);
    assert!((600..1_000).contains(&room.groups.len()), "{}", room.groups.len());
    assert!(room.groups.next_deadline_ms().unwrap() <= now.monotonic_ms, "there is more to do");
    room.now = now;
    room.settle();
    assert_eq!(room.groups.len(), 666);
    for i in 0..1_000 {
        let left = [-1, -1, 9][i % 3];
        assert_eq!(room.offset(&format!("g{i}"), "t", 0), left);
    }
}

#[test]
fn expiry_11_groups_of_many_members_are_looked_at_one_by_one() {
    let mut room = room();
    let metadata = subscription(0, &["foo"]);
    let member = |i| MemberMetadata::new(&format!("m-{i}"), None, "c", "/h", 1_800_000, 2_000, &metadata, b"");
    let group = Rc::new(GroupMetadata {
        protocol_type: "consumer".into(),
        generation: 1,
        protocol: Some("range".into()),
        leader: None,
        current_state_timestamp_ms: -1,
        members: (0..5_000).map(member).collect(),
    });
    for group_id in ["g-1", "g-2"] {
        room.journal.push(Record::GroupMetadata { group_id: group_id.into(), group: group.clone() });
    }
    room.restart();
    let now = room.now.after(std::time::Duration::from_millis(1_000));
    let is_done = [(); 2].map(|()| {
        room.groups.advance(now);
        room.groups.next_deadline_ms().unwrap() > now.monotonic_ms
    });
    assert_eq!(is_done, [false, true]);
}

#[test]
fn expiry_k3_an_expiry_of_its_own_outlives_a_restart() {
    let mut room = room();
    room.commit(&client("g"), "t", 1, 6);
    room.commit_as(&client("g"), "t", short_lived(0, 3_000));
    room.restart();
    room.pass(2_000);
    assert_eq!(room.offset("g", "t", 0), 5);
    room.pass(2_000);
    assert_eq!((room.offset("g", "t", 0), room.offset("g", "t", 1)), (-1, 6));
}

#[test]
fn a_refused_tombstone_brings_the_offset_back_until_the_next_look() {
    let mut room = room();
    room.commit(&client("g"), "t", 1, 6);
    room.commit_as(&client("g"), "t", short_lived(0, 500));
    room.disk = Disk::Fails(crate::errors::ErrorCode::KAFKA_STORAGE_ERROR);
    room.pass(1_000);
    assert_eq!(room.offset("g", "t", 0), 5);
    room.disk = Disk::Works;
    room.pass(1_000);
    assert_eq!(room.offset("g", "t", 0), -1);
}

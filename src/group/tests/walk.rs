//! What a snapshot is made of: the same as a restart would find, however the groups stand.

use super::room::*;
use crate::errors::ErrorCode;
use crate::group::Record;

/// What a restart finds in the journal, and what it finds in the records that live.
fn both(room: &mut Room) -> [Vec<String>; 2] {
    let (journal, now) = (room.journal.clone(), room.now);
    let mut live = Vec::new();
    let mut walk = room.groups.begin_walk();
    while room.groups.walk(&mut walk, |_| true, &mut live) {}
    let group = |room: &Room, id: &str| {
        let Some(group) = room.groups.describe(id) else { return format!("{id}: none") };
        let members: Vec<_> = group.members().map(|m| format!("{} {:?}", m.member_id(), m.assignment())).collect();
        let (state, type_, data) = (group.state(), group.protocol_type(), group.protocol_data());
        format!("{id}: {state} {type_} {data} {members:?} {}", room.offset(id, "t", 0))
    };
    [journal, live].map(|records| {
        let mut other = Room::new();
        other.now = now;
        other.journal = records;
        other.restart();
        ["g", "simple", "new"].map(|id| group(&other, id)).to_vec()
    })
}

fn assert_both(room: &mut Room, expected: &str) {
    let [journal, live] = both(room);
    assert_eq!(journal, live);
    assert!(live[0].starts_with(expected), "{live:?}");
}

#[test]
fn sync_k9_a_snapshot_in_the_middle_of_a_rebalance_has_the_generation_before() {
    let mut room = Room::new();
    room.commit(&client("simple"), "t", 0, 5);
    let mut members = [client("g"), client("g").with_instance("i")];
    room.stable(&mut members);
    room.commit(&members[0], "t", 0, 7);
    let [_, stable] = both(&mut room);
    assert_both(&mut room, "g: Stable");
    // A third one joins, one that was there leaves, and nobody has synced.
    let third = client("g").with_version(3);
    room.join(&third);
    assert_eq!(room.state("g"), "PreparingRebalance");
    assert_both(&mut room, &stable[0]);
    room.leave("g", &[(&members[0].id, None)]);
    assert_both(&mut room, &stable[0]);
    let rejoined = room.join(&members[1]);
    room.settle();
    assert_eq!(room.state("g"), "CompletingRebalance");
    assert_both(&mut room, &stable[0]);
    // Its assignments are refused, then they are on their way, then they are there.
    room.disk = Disk::Fails(ErrorCode::NOT_ENOUGH_REPLICAS);
    let answer = room.joined(rejoined).unwrap();
    let mut leader = if *answer.leader == *answer.member_id { members[1].clone() } else { third };
    (leader.id, leader.generation) = (answer.leader.to_string(), answer.generation_id);
    let ticket = room.sync(&leader, &[(&leader.id, "new")]);
    room.settle();
    assert!(!room.synced(ticket).unwrap().error.is_none());
    assert_both(&mut room, &stable[0]);
}

#[test]
fn a_static_member_that_came_back_is_the_one_that_lives() {
    let mut room = Room::new();
    let mut members = [client("g").with_instance("i"), client("g")];
    room.stable(&mut members);
    room.join(&members[0].restarted());
    room.settle();
    assert_both(&mut room, "g: Stable");
    room.disk = Disk::Fails(ErrorCode::NOT_ENOUGH_REPLICAS);
    room.join(&members[0].restarted());
    room.settle();
    assert_both(&mut room, "g: Stable");
    room.disk = Disk::Works;
    for member in &members {
        room.pass(1);
        room.leave("g", &[(&member.id, member.instance.as_deref())]);
    }
    assert_both(&mut room, "g: Stable");
}

#[test]
fn a_deletion_that_is_refused_starts_the_walk_again() {
    let mut room = Room::new();
    for group in 0..600 {
        room.commit(&client(&format!("g-{group}")), "t", 0, group);
    }
    let (mut walk, mut records) = (room.groups.begin_walk(), Vec::new());
    assert!(room.groups.walk(&mut walk, |_| true, &mut records));
    room.disk = Disk::Fails(ErrorCode::NOT_ENOUGH_REPLICAS);
    room.groups.delete_group("g-500", room.now);
    room.settle();
    while room.groups.walk(&mut walk, |_| true, &mut records) {}
    let keys: std::collections::BTreeSet<_> = records.iter().map(|record| record.group_id().to_string()).collect();
    assert_eq!(keys.len(), 600);
    assert!(records.len() > 600, "some were met twice");
}

#[test]
fn a_walk_takes_some_at_a_time_and_only_what_belongs() {
    let mut room = Room::new();
    for group in 0..1_000 {
        room.commit(&client(&format!("g-{group}")), "t", 0, group);
    }
    let (mut walk, mut steps, mut seen) = (room.groups.begin_walk(), 0, 0);
    loop {
        let mut records = Vec::new();
        let goes_on = room.groups.walk(&mut walk, |id| id.ends_with('7'), &mut records);
        assert!(records.len() <= 256);
        assert!(records.iter().all(|record| matches!(record, Record::OffsetCommit { .. })));
        (steps, seen) = (steps + 1, seen + records.len());
        if !goes_on {
            break;
        }
    }
    assert_eq!((steps, seen), (4, 100));
}

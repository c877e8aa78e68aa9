//! One member, two members, their whole life.

use super::room::*;

#[test]
fn a_lone_member_joins_syncs_heartbeats_and_leaves() {
    let mut room = Room::new();
    let mut member = client("g").with_version(5);
    let answer = room.join_through(&mut member);
    assert_eq!((answer.error.0, answer.generation_id, answer.members.len()), (0, 1, 1));
    assert_eq!((&*answer.leader, &*answer.member_id), (&*member.id, &*member.id));
    assert_eq!(answer.members[0].metadata(), b"meta");
    assert!(member.id.starts_with("client-"));
    let ticket = room.sync(&member, &[(&member.id, "all")]);
    assert_eq!(&*room.synced(ticket).unwrap().assignment, b"all");
    assert_eq!((room.heartbeat(&member), room.state("g")), (0, "Stable"));
    assert_eq!(room.leave("g", &[(&member.id, None)]), (0, vec![0]));
    assert_eq!((room.heartbeat(&member), room.state("g")), (25, "Empty"));
}

#[test]
fn two_members_share_a_generation() {
    let mut room = Room::new();
    let mut clients = [client("g"), client("g")];
    room.stable(&mut clients);
    let [a, b] = &clients;
    assert_eq!((a.generation, b.generation), (2, 2));
    assert_eq!(room.leave("g", &[(&b.id, None)]), (0, vec![0]));
    assert_eq!(room.heartbeat(a), 27);
}

//! OffsetFetch and OffsetDelete.

use super::room::*;
use crate::errors::ErrorCode;
use crate::group::subscription::tests::subscription;
use crate::group::{CommitRequest, PartitionCommit, Record};

fn commit_with_id(room: &mut Room, topic: &str, topic_id: [u8; 16], partition: i32, offset: i64) {
    let request = CommitRequest {
        group_id: "g",
        member_id: "",
        group_instance_id: None,
        generation_id: -1,
        knows_group_id_not_found: true,
    };
    let commit = PartitionCommit {
        partition,
        offset,
        leader_epoch: 4,
        metadata: Some("note"),
        commit_timestamp_ms: None,
        retention_ms: None,
    };
    let error = room.groups.begin_commit(&request, room.now).unwrap().commit(topic, topic_id, commit);
    assert_eq!(error, ErrorCode::NONE);
    room.settle();
}

fn delete(room: &mut Room, group: &str, parts: &[(&str, i32)]) -> Result<Vec<i16>, i16> {
    let codes = room
        .groups
        .begin_offset_delete(group)
        .map(|mut deleter| parts.iter().map(|(topic, partition)| deleter.delete(topic, *partition).0).collect())
        .map_err(|error| error.0);
    room.settle();
    codes
}

fn consumer(topics: &[&str]) -> Client {
    let mut consumer = client("g");
    consumer.protocols[0].1 = subscription(1, topics);
    consumer
}

#[test]
fn fetch_01_02_17_18_19_21_what_is_there_and_what_is_not() {
    let mut room = Room::new();
    assert!(room.groups.offsets("g").is_none());
    room.commit(&client("g"), "foo", 0, 100);
    commit_with_id(&mut room, "foo", [0; 16], 1, 101);
    let offsets = room.groups.offsets("g").unwrap();
    let found = offsets.get("foo", None, 1).unwrap();
    assert_eq!((found.partition, found.offset, found.leader_epoch, found.metadata), (1, 101, 4, "note"));
    for (topic, partition) in [("foo", 5), ("foo", -1), ("foo", i32::MIN), ("unknown", 0)] {
        assert_eq!(offsets.get(topic, None, partition), None);
    }
    let all: Vec<_> = offsets
        .topics()
        .flat_map(|topic| topic.partitions().map(move |p| (topic.topic(), p.partition, p.offset)))
        .collect();
    assert_eq!(all, [("foo", 0, 100), ("foo", 1, 101)]);
}

#[test]
fn fetch_23_commit_k14_topic_ids() {
    let (old, new) = ([1; 16], [2; 16]);
    let mut room = Room::new();
    commit_with_id(&mut room, "foo", old, 0, 100);
    room.commit(&client("g"), "bar", 0, 7);
    let offsets = room.groups.offsets("g").unwrap();
    assert_eq!(offsets.get("foo", Some(old), 0).unwrap().offset, 100);
    assert_eq!(offsets.get("foo", None, 0).unwrap().offset, 100);
    assert_eq!(offsets.get("foo", Some(new), 0), None);
    assert_eq!(offsets.get("bar", Some(new), 0).unwrap().offset, 7, "stored without an id, it is not compared");
    commit_with_id(&mut room, "foo", new, 0, 200);
    let offsets = room.groups.offsets("g").unwrap();
    assert_eq!((offsets.get("foo", Some(new), 0).unwrap().offset, offsets.get("foo", Some(old), 0)), (200, None));
}

#[test]
fn fetch_04_05_a_reply_waits_for_what_is_not_durable_yet() {
    let mut room = Room::new();
    room.commit(&client("g"), "foo", 0, 100);
    room.commit(&client("other"), "foo", 0, 100);
    assert!(room.groups.offsets("g").unwrap().is_settled());
    room.disk = Disk::Stalls;
    room.commit(&client("g"), "foo", 0, 110);
    assert!(!room.groups.offsets("g").unwrap().is_settled());
    assert!(room.groups.offsets("other").unwrap().is_settled(), "other groups' replies do not wait");
    assert_eq!(room.offset("g", "foo", 0), 110, "an effect is seen by the next request of the same connection");
    room.end_writes(Ok(()));
    assert!(room.groups.offsets("g").unwrap().is_settled());
}

#[test]
fn fetch_k7_offsets_stay_readable_in_every_state() {
    let mut room = Room::new();
    room.commit(&client("g"), "t", 0, 5);
    let mut members = [client("g")];
    room.join_all(&mut members);
    assert_eq!((room.state("g"), room.offset("g", "t", 0)), ("CompletingRebalance", 5));
    room.sync(&members[0], &[]);
    assert_eq!((room.state("g"), room.offset("g", "t", 0)), ("Stable", 5));
    room.join(&client("g"));
    assert_eq!((room.state("g"), room.offset("g", "t", 0)), ("PreparingRebalance", 5));
}

// ---- OffsetDelete ----------------------------------------------------------------------------------------------------

#[test]
fn odelete_01_02_13_unknown_groups_and_the_empty_group_id() {
    let mut room = Room::new();
    for parts in [&[("foo", 0)][..], &[]] {
        assert_eq!(delete(&mut room, "g", parts), Err(69));
        assert_eq!(delete(&mut room, "", parts), Err(24));
    }
}

#[test]
fn odelete_05_a_group_of_another_type_gives_nothing_away_while_it_has_members() {
    let mut room = Room::new();
    room.commit(&client("g"), "foo", 0, 5);
    let mut members = [client("g").with_type("connect")];
    room.join_all(&mut members);
    assert_eq!(delete(&mut room, "g", &[("foo", 0)]), Err(68));
    room.sync(&members[0], &[]);
    assert_eq!(delete(&mut room, "g", &[("foo", 0)]), Err(68));
    room.leave("g", &[(&members[0].id, None)]);
    assert_eq!(delete(&mut room, "g", &[("foo", 0)]), Ok(vec![0]));
    assert_eq!(room.offset("g", "foo", 0), -1);
}

#[test]
fn odelete_06_08_k3_subscribed_topics_are_kept_in_every_state_but_empty() {
    let mut room = Room::new();
    let mut members = [consumer(&["foo"]), consumer(&["foo", "too"])];
    room.stable(&mut members);
    let both = [("foo", 0), ("bar", 0), ("too", 9)];
    room.commit(&members[0], "foo", 0, 5);
    room.commit(&members[0], "bar", 0, 6);
    assert_eq!(delete(&mut room, "g", &both), Ok(vec![86, 0, 86]));
    assert_eq!((room.offset("g", "foo", 0), room.offset("g", "bar", 0)), (5, -1));
    let Some(Record::OffsetTombstone { key }) = room.journal.last() else { panic!("no tombstone") };
    assert_eq!((&*key.topic, key.partition), ("bar", 0));
    let newcomer = room.join(&consumer(&["bar"]));
    assert_eq!(room.state("g"), "PreparingRebalance");
    assert_eq!(delete(&mut room, "g", &both), Ok(vec![86, 0, 86]), "the last completed join phase counts");
    room.join(&members[0]);
    room.join(&members[1].clone());
    assert!(room.is_answered(newcomer));
    assert_eq!(delete(&mut room, "g", &both), Ok(vec![86, 86, 86]));
    for (id, _) in room.members("g") {
        room.leave("g", &[(&id, None)]);
    }
    assert_eq!((room.state("g"), delete(&mut room, "g", &both)), ("Empty", Ok(vec![0, 0, 0])));
    assert_eq!((room.offset("g", "foo", 0), room.state("g")), (-1, "Empty"));
}

#[test]
fn odelete_07_unreadable_or_unknown_subscriptions_count_as_everything() {
    let mut room = Room::new();
    let mut members = [client("g").with_protocols("range:\u{0}"), consumer(&["foo"])];
    members[0].protocols[0].0 = "range".into();
    room.stable(&mut members);
    assert_eq!(delete(&mut room, "g", &[("foo", 0), ("any", 0)]), Ok(vec![86, 86]));
    let mut room = Room::with_delay(60_000);
    room.join(&consumer(&["foo"]));
    assert_eq!(delete(&mut room, "g", &[("any", 0)]), Ok(vec![86]), "no join phase was ever completed");
}

#[test]
fn odelete_the_first_consumers_of_a_group_that_was_of_another_type_may_subscribe_to_anything() {
    for is_restarted in [false, true] {
        for (kind, code) in [("connect", 86), ("consumer", 0)] {
            let mut room = Room::new();
            let mut members = [consumer(&["foo"]).with_type(kind)];
            room.stable(&mut members);
            room.leave("g", &[(&members[0].id, None)]);
            room.settings.0.initial_rebalance_delay_ms = 60_000;
            if is_restarted {
                room.restart();
            } else {
                room.groups.core.settings.initial_rebalance_delay_ms = 60_000;
            }
            room.commit(&client("g"), "foo", 0, 5);
            room.join(&consumer(&["foo"]));
            assert_eq!(room.state("g"), "PreparingRebalance");
            assert_eq!(delete(&mut room, "g", &[("foo", 0)]), Ok(vec![code]), "{kind} {is_restarted}");
            room.pass(60_000);
            assert_eq!(delete(&mut room, "g", &[("foo", 0), ("bar", 0)]), Ok(vec![86, 0]));
        }
    }
}

#[test]
fn odelete_a_subscription_is_read_as_version_0_whatever_it_says() {
    let mut room = Room::new();
    let mut members = [consumer(&["foo"])];
    for version in [1i16, 3, -1] {
        members[0].protocols[0].1[..2].copy_from_slice(&version.to_be_bytes());
        members[0] = Client { id: String::new(), ..members[0].clone() };
        room.stable(&mut members);
        assert_eq!(delete(&mut room, "g", &[("foo", 0), ("bar", 0)]), Ok(vec![86, 0]), "{version}");
        room.leave("g", &[(&members[0].id, None)]);
    }
}

#[test]
fn odelete_k2_a_group_that_lost_its_last_offset_is_still_there() {
    let mut room = Room::new();
    room.commit(&client("g"), "foo", 0, 5);
    let records = room.journal.len();
    assert_eq!(delete(&mut room, "g", &[("foo", 0), ("foo", 0), ("foo", 9)]), Ok(vec![0, 0, 0]));
    assert_eq!(room.journal.len() - records, 1, "nothing is written of what was not there");
    assert_eq!((delete(&mut room, "g", &[]), room.state("g")), (Ok(vec![]), "Empty"));
}

#[test]
fn fetch_24_the_end_of_a_topic_takes_no_offsets_of_a_later_one_of_its_name() {
    let mut room = Room::new();
    let (gone, again) = ([9; 16], [2; 16]);
    for (partition, id) in [gone, again, [0; 16]].into_iter().enumerate() {
        commit_with_id(&mut room, "t", id, partition as i32, 100);
        commit_with_id(&mut room, "other", id, partition as i32, 100);
    }
    room.delete_topic("t");
    room.settle();
    assert_eq!([0, 1, 2].map(|partition| room.offset("g", "t", partition)), [-1, 100, -1]);
    assert_eq!([0, 1, 2].map(|partition| room.offset("g", "other", partition)), [-1, 100, 100]);
}

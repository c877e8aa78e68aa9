//! Records of groups as entries of the journal, in Kafka's own schemas of `__consumer_offsets`, and back.
//!
//! Written are GroupMetadataValue v3, as Kafka does, and OffsetCommitValue v3; v1 if the commit has an expiry of its own, and
//! v4 if the topic's id is known, which no other version can hold. All versions are read. What a record does is the business
//! of `group`.

use std::rc::Rc;

use super::entry::EntryWriter;
use super::store::Entries;
use crate::group::{CommittedOffset, GroupMetadata, MemberMetadata, OffsetKey, Record};
use crate::wire::records::{self, GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, RecordKey};
use crate::wire::{Array, Malformed, Uuid};

/// Version of a group's value.
const GROUP_METADATA_VERSION: i16 = 3;

/// Records of one offsets partition, which go into the journal together.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a>(pub &'a [Record]);

impl Entries for Records<'_> {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        for record in self.0 {
            match record {
                Record::GroupMetadata { group_id, group } => {
                    entries.record(|bytes| group_key(group_id, bytes), |bytes| group_value(group, bytes));
                }
                Record::GroupTombstone { group_id } => entries.tombstone(|bytes| group_key(group_id, bytes)),
                Record::OffsetCommit { key, offset } => {
                    entries.record(|bytes| offset_key(key, bytes), |bytes| offset_value(offset, bytes));
                }
                Record::OffsetTombstone { key } => entries.tombstone(|bytes| offset_key(key, bytes)),
            }
        }
    }
}

/// Turns keys and values into records.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The names of the record before: records of a group come in runs.
    group_id: Option<Rc<str>>,
    topic: Option<Rc<str>>,
    unknown: u64,
}

impl Decoder {
    /// The record of a key and a value (`None` is a tombstone); nothing if its type is not known, as Kafka has it.
    ///
    /// # Errors
    /// Bytes that do not parse, or a value of a version that is not known: the partition cannot be loaded.
    pub fn decode(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Option<Record>, Malformed> {
        Ok(match (RecordKey::from_bytes(key)?, value) {
            (RecordKey::Unknown(_), _) => {
                self.unknown += 1;
                None
            }
            (RecordKey::OffsetCommit(key), value) => {
                let key = OffsetKey {
                    group_id: shared(&mut self.group_id, &key.group),
                    topic: shared(&mut self.topic, &key.topic),
                    partition: key.partition,
                };
                Some(match value {
                    None => Record::OffsetTombstone { key },
                    Some(value) => Record::OffsetCommit { key, offset: offset(&OffsetCommitValue::from_bytes(value)?) },
                })
            }
            (RecordKey::GroupMetadata(key), value) => {
                let group_id = shared(&mut self.group_id, &key.group);
                Some(match value {
                    None => Record::GroupTombstone { group_id },
                    Some(value) => {
                        let group = Rc::new(group(&GroupMetadataValue::from_bytes(value)?));
                        Record::GroupMetadata { group_id, group }
                    }
                })
            }
        })
    }

    /// How many records were of no known type.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}

fn shared(last: &mut Option<Rc<str>>, text: &str) -> Rc<str> {
    match last {
        Some(last) if **last == *text => last.clone(),
        _ => last.insert(Rc::from(text)).clone(),
    }
}

fn group_key(group_id: &str, bytes: &mut Vec<u8>) {
    GroupMetadataKey { group: group_id.into() }.append_to(bytes);
}

fn offset_key(key: &OffsetKey, bytes: &mut Vec<u8>) {
    let (group, topic) = ((&*key.group_id).into(), (&*key.topic).into());
    OffsetCommitKey { group, topic, partition: key.partition }.append_to(bytes);
}

fn offset_value(offset: &CommittedOffset, bytes: &mut Vec<u8>) {
    let topic_id = Uuid(offset.topic_id);
    let version = match offset.expire_timestamp_ms {
        -1 if topic_id == Uuid::default() => 3,
        -1 => 4,
        _ => 1,
    };
    let value = OffsetCommitValue {
        offset: offset.offset,
        leader_epoch: offset.leader_epoch,
        metadata: offset.metadata.as_deref().unwrap_or("").into(),
        commit_timestamp: offset.commit_timestamp_ms,
        expire_timestamp: offset.expire_timestamp_ms,
        topic_id,
    };
    value.append_to(version, bytes);
}

fn offset(value: &OffsetCommitValue<'_>) -> CommittedOffset {
    CommittedOffset {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: (!value.metadata.is_empty()).then(|| Rc::from(&*value.metadata)),
        commit_timestamp_ms: value.commit_timestamp,
        expire_timestamp_ms: value.expire_timestamp,
        topic_id: value.topic_id.0,
    }
}

fn group_value(group: &GroupMetadata, bytes: &mut Vec<u8>) {
    let value = GroupMetadataValue {
        protocol_type: (&*group.protocol_type).into(),
        generation: group.generation,
        protocol: group.protocol.as_deref().map(Into::into),
        leader: group.leader.as_deref().map(Into::into),
        current_state_timestamp: group.current_state_timestamp_ms,
        members: Array::Each {
            len: group.members.len(),
            each: &|rows| group.members.iter().for_each(|member| rows.push(member_value(member))),
        },
    };
    value.append_to(GROUP_METADATA_VERSION, bytes);
}

fn member_value(member: &MemberMetadata) -> records::MemberMetadata<'_> {
    records::MemberMetadata {
        member_id: member.member_id().into(),
        group_instance_id: member.group_instance_id().map(Into::into),
        client_id: member.client_id().into(),
        client_host: member.client_host().into(),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription(),
        assignment: &member.assignment,
    }
}

fn group(value: &GroupMetadataValue<'_>) -> GroupMetadata {
    GroupMetadata {
        protocol_type: Rc::from(&*value.protocol_type),
        generation: value.generation,
        protocol: value.protocol.as_deref().map(Rc::from),
        leader: value.leader.as_deref().map(Into::into),
        current_state_timestamp_ms: value.current_state_timestamp,
        members: value.members.iter().map(|member| member_metadata(&member)).collect(),
    }
}

/// Before v1 a member had no rebalance time-out: its session time-out stood for both.
fn member_metadata(member: &records::MemberMetadata<'_>) -> MemberMetadata {
    let rebalance_timeout_ms =
        if member.rebalance_timeout == -1 { member.session_timeout } else { member.rebalance_timeout };
    MemberMetadata::new(
        &member.member_id,
        member.group_instance_id.as_deref(),
        &member.client_id,
        &member.client_host,
        rebalance_timeout_ms,
        member.session_timeout,
        member.subscription,
        member.assignment,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::entry::{Entry, decode_checked};

    fn encoded(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Records(records).write(&mut EntryWriter::new(&mut bytes, 0, 0, 0));
        bytes
    }

    fn entries(mut bytes: &[u8]) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let entry = decode_checked(bytes);
            bytes = &bytes[entry.length()..];
            entries.push(entry);
        }
        entries
    }

    fn key() -> OffsetKey {
        OffsetKey { group_id: Rc::from("group"), topic: Rc::from("topic"), partition: 5 }
    }

    fn commit(expire_timestamp_ms: i64, topic_id: [u8; 16]) -> Record {
        let offset = CommittedOffset {
            offset: 77,
            leader_epoch: 4,
            metadata: Some(Rc::from("m")),
            commit_timestamp_ms: 1_000,
            expire_timestamp_ms,
            topic_id,
        };
        Record::OffsetCommit { key: key(), offset }
    }

    fn stable() -> Record {
        let member = |id: &str, instance| {
            MemberMetadata::new(id, instance, "client", "/127.0.0.1", 60_000, 10_000, b"subscribed", b"assigned")
        };
        let group = GroupMetadata {
            protocol_type: Rc::from("consumer"),
            generation: 3,
            protocol: Some(Rc::from("range")),
            leader: Some("a".into()),
            current_state_timestamp_ms: 99,
            members: vec![member("a", None), member("b", Some("instance"))],
        };
        Record::GroupMetadata { group_id: Rc::from("group"), group: Rc::new(group) }
    }

    /// What `Debug` shows is all there is.
    fn same(one: &Record, other: &Record) {
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }

    #[test]
    fn records_round_trip() {
        let empty = GroupMetadata {
            protocol_type: Rc::from(""),
            generation: 0,
            protocol: None,
            leader: None,
            current_state_timestamp_ms: -1,
            members: Vec::new(),
        };
        let records = [
            stable(),
            Record::GroupMetadata { group_id: Rc::from("empty"), group: Rc::new(empty) },
            Record::GroupTombstone { group_id: Rc::from("gone") },
            commit(-1, [0; 16]),
            commit(-1, [9; 16]),
            Record::OffsetTombstone { key: key() },
        ];
        let bytes = encoded(&records);
        let mut decoder = Decoder::default();
        let entries = entries(&bytes);
        assert_eq!(entries.len(), records.len());
        for (entry, record) in entries.iter().zip(&records) {
            same(&decoder.decode(entry.key, entry.value).expect("it parses").expect("it is known"), record);
        }
        assert_eq!(entries.last().map(|entry| entry.more), Some(false));
        assert!(entries[..records.len() - 1].iter().all(|entry| entry.more));
    }

    #[test]
    fn the_version_is_the_lowest_that_can_say_it() {
        let versions = [(commit(-1, [0; 16]), 3), (commit(-1, [1; 16]), 4), (commit(5_000, [0; 16]), 1), (stable(), 3)];
        for (record, version) in versions {
            let bytes = encoded(std::slice::from_ref(&record));
            assert_eq!(entries(&bytes)[0].value.expect("a value")[..2], [0, version], "{record:?}");
        }
        let bytes = encoded(&[commit(5_000, [0; 16])]);
        let entry = entries(&bytes)[0];
        let decoded = Decoder::default().decode(entry.key, entry.value).expect("it parses");
        let Some(Record::OffsetCommit { offset, .. }) = decoded else { panic!("{decoded:?}") };
        assert_eq!((offset.expire_timestamp_ms, offset.leader_epoch), (5_000, -1), "v1 has no leader epoch");
    }

    #[test]
    fn older_values_are_read() {
        let mut decoder = Decoder::default();
        let mut key = Vec::new();
        group_key("g", &mut key);
        let member = records::MemberMetadata { member_id: "m".into(), session_timeout: 30_000, ..Default::default() };
        let members = [member];
        let value = GroupMetadataValue {
            protocol_type: "consumer".into(),
            members: Array::Items(&members),
            ..GroupMetadataValue::default()
        };
        for version in 0..=4 {
            let mut bytes = Vec::new();
            value.append_to(version, &mut bytes);
            let decoded = decoder.decode(&key, Some(&bytes)).expect("it parses");
            let Some(Record::GroupMetadata { group, .. }) = decoded else { panic!("{decoded:?}") };
            let member = &group.members[0];
            assert_eq!((member.rebalance_timeout_ms, member.session_timeout_ms), (30_000, 30_000), "v{version}");
            assert_eq!((group.current_state_timestamp_ms, member.group_instance_id()), (-1, None), "v{version}");
        }
        // Type 0, as it was written before 0.9.
        let legacy = b"\0\0\0\x01g\0\x01t\0\0\0\x02";
        for version in 0..=4 {
            let mut bytes = Vec::new();
            OffsetCommitValue { offset: 8, ..OffsetCommitValue::default() }.append_to(version, &mut bytes);
            let decoded = decoder.decode(legacy, Some(&bytes)).expect("it parses");
            let Some(Record::OffsetCommit { key, offset }) = decoded else { panic!("{decoded:?}") };
            assert_eq!((key.partition, offset.offset, offset.metadata), (2, 8, None), "v{version}");
        }
    }

    #[test]
    fn unknown_types_are_skipped_and_unknown_versions_are_not() {
        let mut decoder = Decoder::default();
        assert!(decoder.decode(&[0, 3, 0, 1, b'g'], Some(&[0, 0])).expect("skipped").is_none());
        assert!(decoder.decode(&[0, 16, 1, 2, 3], None).expect("skipped").is_none());
        assert_eq!(decoder.unknown(), 2);
        for record in [stable(), commit(-1, [0; 16])] {
            let bytes = encoded(&[record]);
            let entry = entries(&bytes)[0];
            let mut newer = entry.value.expect("a value").to_vec();
            newer[1] = 5;
            assert!(decoder.decode(entry.key, Some(&newer)).is_err());
            assert!(decoder.decode(entry.key, Some(&newer[..newer.len() / 2])).is_err());
        }
        assert!(decoder.decode(&[0], None).is_err());
    }
}

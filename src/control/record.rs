//! What the control log says: the facts that must outlive a crash, and their bytes. A fact is never changed; a later one
//! adds to it or takes it back.
//!
//! Bytes of a record: kind (1), version (1), length of the rest (4), then the fields, big-endian. Text and lists have a
//! 32-bit length. A reader that meets an unknown kind or a newer version stops: it would lose what it does not know.

use std::collections::BTreeMap;

use crate::ids::TopicId;

/// A fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The cluster's identity; the first record of a log.
    Cluster {
        /// Random.
        id: [u8; 16],
        /// The node id of core 0.
        first_node_id: i32,
    },
    /// From here on there are so many nodes.
    Nodes {
        /// At least 1.
        count: u16,
        /// How often their number had changed before.
        generation: u32,
    },
    /// A topic came into being.
    Topic(TopicRecord),
    /// A topic is gone.
    TopicDeleted {
        /// Which one.
        id: TopicId,
    },
}

/// What is kept of a topic. Who leads its partitions follows from it and from the nodes that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRecord {
    /// Random, never used again.
    pub id: TopicId,
    /// A legal name.
    pub name: Box<str>,
    /// At least 1.
    pub partitions: u32,
    /// As asked.
    pub replication_factor: i16,
    /// The generation of nodes in which it was created; its leader epochs count from there.
    pub created_generation: u32,
    /// The node id of each partition's leader, where they were asked for; empty: in turn.
    pub assigned_leaders: Vec<i32>,
    /// The configs that were set.
    pub configs: BTreeMap<Box<str>, Box<str>>,
}

/// Why bytes with a good checksum are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableRecord {
    /// A later version of the program wrote them.
    #[error("record kind {kind} version {version} is newer than this program knows")]
    Newer {
        /// The kind.
        kind: u8,
        /// Its version.
        version: u8,
    },
    /// They end too early or make no sense.
    #[error("record has no valid form")]
    Invalid,
}

const CLUSTER: u8 = 1;
const NODES: u8 = 2;
const TOPIC: u8 = 3;
const TOPIC_DELETED: u8 = 4;
const VERSION: u8 = 0;
const LENGTH_BYTES: usize = 4;

impl Record {
    /// Appends the record's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self {
            Record::Cluster { .. } => CLUSTER,
            Record::Nodes { .. } => NODES,
            Record::Topic(_) => TOPIC,
            Record::TopicDeleted { .. } => TOPIC_DELETED,
        };
        out.extend_from_slice(&[kind, VERSION]);
        let length_at = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        match self {
            Record::Cluster { id, first_node_id } => {
                out.extend_from_slice(id);
                out.extend_from_slice(&first_node_id.to_be_bytes());
            }
            Record::Nodes { count, generation } => {
                out.extend_from_slice(&count.to_be_bytes());
                out.extend_from_slice(&generation.to_be_bytes());
            }
            Record::Topic(topic) => topic.encode(out),
            Record::TopicDeleted { id } => out.extend_from_slice(&id.0),
        }
        let length = (out.len() - length_at - LENGTH_BYTES) as u32;
        out[length_at..length_at + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    }

    /// Reads one record off the front of `bytes`.
    pub fn decode(bytes: &mut &[u8]) -> Result<Record, UnreadableRecord> {
        let [kind, version] = take(bytes)?;
        let length = u32::from_be_bytes(take(bytes)?) as usize;
        let (mut body, rest) = bytes.split_at_checked(length).ok_or(UnreadableRecord::Invalid)?;
        if version > VERSION {
            return Err(UnreadableRecord::Newer { kind, version });
        }
        let fields = &mut body;
        let record = match kind {
            CLUSTER => Record::Cluster { id: take(fields)?, first_node_id: i32::from_be_bytes(take(fields)?) },
            NODES => Record::Nodes {
                count: u16::from_be_bytes(take(fields)?),
                generation: u32::from_be_bytes(take(fields)?),
            },
            TOPIC => Record::Topic(TopicRecord::decode(fields)?),
            TOPIC_DELETED => Record::TopicDeleted { id: TopicId(take(fields)?) },
            _ => return Err(UnreadableRecord::Newer { kind, version }),
        };
        *bytes = rest;
        if body.is_empty() { Ok(record) } else { Err(UnreadableRecord::Invalid) }
    }
}

impl TopicRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        put_text(out, &self.name);
        out.extend_from_slice(&self.partitions.to_be_bytes());
        out.extend_from_slice(&self.replication_factor.to_be_bytes());
        out.extend_from_slice(&self.created_generation.to_be_bytes());
        put_count(out, self.assigned_leaders.len());
        self.assigned_leaders.iter().for_each(|leader| out.extend_from_slice(&leader.to_be_bytes()));
        put_count(out, self.configs.len());
        for (key, value) in &self.configs {
            put_text(out, key);
            put_text(out, value);
        }
    }

    fn decode(fields: &mut &[u8]) -> Result<Self, UnreadableRecord> {
        Ok(TopicRecord {
            id: TopicId(take(fields)?),
            name: take_text(fields)?,
            partitions: u32::from_be_bytes(take(fields)?),
            replication_factor: i16::from_be_bytes(take(fields)?),
            created_generation: u32::from_be_bytes(take(fields)?),
            assigned_leaders: (0..take_count(fields)?)
                .map(|_| Ok(i32::from_be_bytes(take(fields)?)))
                .collect::<Result<_, _>>()?,
            configs: (0..take_count(fields)?)
                .map(|_| Ok((take_text(fields)?, take_text(fields)?)))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u32::try_from(count).expect("lists of a record are short").to_be_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], UnreadableRecord> {
    let (head, tail) = bytes.split_first_chunk().ok_or(UnreadableRecord::Invalid)?;
    *bytes = tail;
    Ok(*head)
}

/// Lists are collected one element at a time, so a count that lies reserves nothing.
fn take_count(bytes: &mut &[u8]) -> Result<u32, UnreadableRecord> {
    Ok(u32::from_be_bytes(take(bytes)?))
}

fn take_text(bytes: &mut &[u8]) -> Result<Box<str>, UnreadableRecord> {
    let length = take_count(bytes)? as usize;
    let (text, tail) = bytes.split_at_checked(length).ok_or(UnreadableRecord::Invalid)?;
    *bytes = tail;
    std::str::from_utf8(text).map(Into::into).map_err(|_| UnreadableRecord::Invalid)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::control) fn samples() -> Vec<Record> {
        vec![
            Record::Cluster { id: *b"0123456789abcdef", first_node_id: 1 },
            Record::Nodes { count: 4, generation: 2 },
            Record::Topic(TopicRecord {
                id: TopicId([7; 16]),
                name: "orders".into(),
                partitions: 3,
                replication_factor: 1,
                created_generation: 2,
                assigned_leaders: vec![1, 2, 1],
                configs: [("retention.ms".into(), "5000".into())].into(),
            }),
            Record::TopicDeleted { id: TopicId([7; 16]) },
        ]
    }

    #[test]
    fn records_read_back() {
        let mut bytes = Vec::new();
        samples().iter().for_each(|record| record.encode(&mut bytes));
        let mut rest = &bytes[..];
        for sample in samples() {
            assert_eq!(Record::decode(&mut rest), Ok(sample));
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_record_cut_short_is_invalid() {
        for sample in samples() {
            let mut bytes = Vec::new();
            sample.encode(&mut bytes);
            for end in 0..bytes.len() {
                assert_eq!(Record::decode(&mut &bytes[..end]), Err(UnreadableRecord::Invalid), "{sample:?} to {end}");
            }
        }
    }

    #[test]
    fn what_a_later_program_wrote_is_not_guessed_at() {
        let mut bytes = Vec::new();
        samples()[1].encode(&mut bytes);
        for (kind, version) in [(NODES, VERSION + 1), (99, 0)] {
            (bytes[0], bytes[1]) = (kind, version);
            assert_eq!(Record::decode(&mut &bytes[..]), Err(UnreadableRecord::Newer { kind, version }));
        }
    }

    #[test]
    fn bytes_left_over_in_a_record_are_invalid() {
        let mut bytes = vec![NODES, VERSION, 0, 0, 0, 7, 0, 1, 0, 0, 0, 2, 0];
        assert_eq!(Record::decode(&mut &bytes[..]), Err(UnreadableRecord::Invalid));
        bytes[5] = 6;
        assert_eq!(Record::decode(&mut &bytes[..]), Ok(Record::Nodes { count: 1, generation: 2 }));
    }
}

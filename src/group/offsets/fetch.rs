//! OffsetFetch. Nothing is checked for existence, and an unknown group is no error: it has no offsets.

use crate::group::Groups;

use super::table::{Offset, OffsetTable, TopicOffsets};

/// The offsets of one group.
#[derive(Clone, Copy, Debug)]
pub struct OffsetsView<'a> {
    table: &'a OffsetTable,
    seed: u64,
}

/// The offsets of one topic of a group.
#[derive(Clone, Copy, Debug)]
pub struct TopicOffsetsView<'a> {
    topic: &'a TopicOffsets,
}

/// A committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchedOffset<'a> {
    /// The partition.
    pub partition: i32,
    /// As it was committed.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// The client's own text.
    pub metadata: &'a str,
}

impl Groups {
    /// The offsets of a group; `None`: there is no such group, which OffsetFetch answers like a group without offsets.
    pub fn offsets(&self, group_id: &str) -> Option<OffsetsView<'_>> {
        Some(OffsetsView { table: &self.get(group_id)?.offsets, seed: self.core.seed() })
    }

    /// Whether a group that is gone, or that has come again, may have offsets after a crash, because its deletion is not
    /// durable yet. A reply that shows that there are none then waits until all that was taken so far is durable.
    pub fn has_unwritten_deletions(&self) -> bool {
        self.core.writes.has_deletions()
    }
}

impl<'a> OffsetsView<'a> {
    /// The offset of one partition. With a topic id: unless it was committed under another id.
    pub fn get(&self, topic: &str, topic_id: Option<[u8; 16]>, partition: i32) -> Option<FetchedOffset<'a>> {
        let (topic, offset) = self.table.get(self.seed, topic, partition)?;
        let is_of_another = topic.topic_id != [0; 16] && topic_id.is_some_and(|id| id != topic.topic_id);
        (!is_of_another).then(|| fetched(offset))
    }

    /// All topics with an offset.
    pub fn topics(&self) -> impl Iterator<Item = TopicOffsetsView<'a>> + use<'a> {
        self.table.topics().map(|topic| TopicOffsetsView { topic })
    }

    /// Whether everything that is shown here is durable. If not, a reply that shows it waits.
    pub fn is_settled(&self) -> bool {
        self.table.is_settled()
    }
}

impl<'a> TopicOffsetsView<'a> {
    /// The topic's name.
    pub fn topic(&self) -> &'a str {
        &self.topic.topic
    }

    /// All zero if it was not known.
    pub fn topic_id(&self) -> [u8; 16] {
        self.topic.topic_id
    }

    /// Its partitions, in order.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = FetchedOffset<'a>> + use<'a> {
        self.topic.partitions().iter().map(fetched)
    }
}

fn fetched(offset: &Offset) -> FetchedOffset<'_> {
    let Offset { offset: committed, partition, leader_epoch, .. } = *offset;
    FetchedOffset { partition, offset: committed, leader_epoch, metadata: offset.metadata() }
}

//! Where a group's offsets are kept: 32 bytes each, by topic and partition, and more only for those with metadata or an
//! expiry of their own.

use std::rc::Rc;

use crate::group::index::{self, Index, SCAN_MAX};
use crate::group::memory::OFFSET_BYTES;
use crate::group::records::CommittedOffset;
use crate::group::slab::Slab;

/// The offsets of one group.
#[derive(Debug, Default)]
pub(in crate::group) struct OffsetTable(Option<Box<Topics>>);

#[derive(Debug, Default)]
struct Topics {
    slab: Slab<TopicOffsets>,
    by_name: Option<Index>,
    /// Changes that are not written yet.
    unsettled: u32,
    bytes: usize,
}

/// The offsets of one topic. A topic that was deleted and made again has another id, and then its name may stand here twice.
#[derive(Debug)]
pub(in crate::group) struct TopicOffsets {
    pub(in crate::group) topic: Rc<str>,
    /// All zero: not known.
    pub(in crate::group) topic_id: [u8; 16],
    /// By partition.
    partitions: Vec<Offset>,
}

/// The offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::group) struct Offset {
    pub(in crate::group) offset: i64,
    pub(in crate::group) commit_timestamp_ms: i64,
    pub(in crate::group) partition: i32,
    pub(in crate::group) leader_epoch: i32,
    more: Option<Box<More>>,
}

/// What most offsets do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct More {
    metadata: Option<Rc<str>>,
    expire_timestamp_ms: i64,
}

/// An offset and the id of its topic, as it stood before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::group) struct Committed {
    pub(in crate::group) topic_id: [u8; 16],
    pub(in crate::group) offset: Offset,
}

impl Offset {
    pub(in crate::group) fn new(
        partition: i32,
        offset: i64,
        leader_epoch: i32,
        commit_timestamp_ms: i64,
        metadata: Option<Rc<str>>,
        expire_timestamp_ms: i64,
    ) -> Offset {
        let has_more = metadata.is_some() || expire_timestamp_ms != -1;
        let more = has_more.then(|| Box::new(More { metadata, expire_timestamp_ms }));
        Offset { offset, commit_timestamp_ms, partition, leader_epoch, more }
    }

    /// As it is written.
    pub(in crate::group) fn as_committed(&self, topic_id: [u8; 16]) -> CommittedOffset {
        CommittedOffset {
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: self.more.as_ref().and_then(|more| more.metadata.clone()),
            commit_timestamp_ms: self.commit_timestamp_ms,
            expire_timestamp_ms: self.expire_timestamp_ms(),
            topic_id,
        }
    }

    pub(in crate::group) fn metadata(&self) -> &str {
        self.more.as_ref().and_then(|more| more.metadata.as_deref()).unwrap_or("")
    }

    /// -1: none of its own.
    pub(in crate::group) fn expire_timestamp_ms(&self) -> i64 {
        self.more.as_ref().map_or(-1, |more| more.expire_timestamp_ms)
    }
}

impl Offset {
    /// The memory that it takes, roughly.
    fn bytes(&self) -> usize {
        OFFSET_BYTES + self.more.as_ref().map_or(0, |_| size_of::<More>() + self.metadata().len())
    }
}

impl TopicOffsets {
    pub(in crate::group) fn partitions(&self) -> &[Offset] {
        &self.partitions
    }

    /// Where a partition is, or where it would be. Mostly the partitions from 0 on are all there.
    fn search(&self, partition: i32) -> Result<usize, usize> {
        match self.partitions.get(partition as usize) {
            Some(offset) if offset.partition == partition => Ok(partition as usize),
            _ => self.partitions.binary_search_by_key(&partition, |offset| offset.partition),
        }
    }
}

impl OffsetTable {
    pub(in crate::group) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.slab.len() == 0)
    }

    /// How many offsets there are.
    pub(in crate::group) fn len(&self) -> usize {
        self.topics().map(|topic| topic.partitions.len()).sum()
    }

    /// The memory that they take, roughly.
    pub(in crate::group) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |topics| topics.bytes)
    }

    /// Whether all changes are written.
    pub(in crate::group) fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|topics| topics.unsettled == 0)
    }

    pub(in crate::group) fn topics(&self) -> impl Iterator<Item = &TopicOffsets> {
        self.0.iter().flat_map(|topics| topics.slab.iter().map(|(_, topic)| topic))
    }

    /// Every topic and partition with an offset.
    pub(in crate::group) fn keys(&self) -> impl Iterator<Item = (&Rc<str>, i32)> {
        self.topics().flat_map(|topic| topic.partitions.iter().map(|offset| (&topic.topic, offset.partition)))
    }

    pub(in crate::group) fn get(&self, seed: u64, topic: &str, partition: i32) -> Option<(&TopicOffsets, &Offset)> {
        let topics = self.0.as_ref()?;
        let slot = topics.find(seed, topic, |known| known.search(partition).is_ok())?;
        let topic = &topics.slab[slot];
        topic.search(partition).ok().map(|at| (topic, &topic.partitions[at]))
    }

    /// Stores an offset and gives back what stood there.
    pub(in crate::group) fn set(
        &mut self,
        seed: u64,
        topic: &Rc<str>,
        topic_id: [u8; 16],
        offset: Offset,
    ) -> Option<Committed> {
        let topics = self.0.get_or_insert_default();
        if let Some(slot) = topics.find(seed, topic, |known| known.topic_id == topic_id) {
            let known = &mut topics.slab[slot];
            if let Ok(at) = known.search(offset.partition) {
                topics.bytes += offset.bytes();
                let before = std::mem::replace(&mut known.partitions[at], offset);
                topics.bytes -= before.bytes();
                return Some(Committed { topic_id, offset: before });
            }
        }
        // Under another id, or not at all.
        let before = self.remove(seed, topic, offset.partition);
        let topics = self.0.get_or_insert_default();
        let slot = topics
            .find(seed, topic, |known| known.topic_id == topic_id)
            .unwrap_or_else(|| topics.insert(seed, topic.clone(), topic_id));
        topics.bytes += offset.bytes();
        topics.slab[slot].insert(offset);
        before
    }

    /// Removes an offset, if it is there.
    pub(in crate::group) fn remove(&mut self, seed: u64, topic: &str, partition: i32) -> Option<Committed> {
        let topics = self.0.as_mut()?;
        let slot = topics.find(seed, topic, |known| known.search(partition).is_ok())?;
        let known = &mut topics.slab[slot];
        let at = known.search(partition).ok()?;
        let before = Committed { topic_id: known.topic_id, offset: known.partitions.remove(at) };
        topics.bytes -= before.offset.bytes();
        if known.partitions.is_empty() {
            topics.forget(seed, slot);
        }
        self.shrink();
        Some(before)
    }

    /// One change more that is not written yet.
    pub(in crate::group) fn unsettle(&mut self) {
        self.0.get_or_insert_default().unsettled += 1;
    }

    /// A change was written, or taken back.
    pub(in crate::group) fn settle(&mut self) {
        let topics = self.0.as_mut().expect("a change was counted");
        topics.unsettled -= 1;
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.0.as_ref().is_some_and(|topics| topics.slab.len() == 0 && topics.unsettled == 0) {
            self.0 = None;
        }
    }
}

impl Topics {
    fn find(&self, seed: u64, name: &str, mut is_it: impl FnMut(&TopicOffsets) -> bool) -> Option<u32> {
        let mut is_it = |slot: u32| *self.slab[slot].topic == *name && is_it(&self.slab[slot]);
        match &self.by_name {
            Some(by_name) => by_name.find(index::hash(seed, name.as_bytes()), is_it),
            None => self.slab.iter().map(|(slot, _)| slot).find(|slot| is_it(*slot)),
        }
    }

    fn insert(&mut self, seed: u64, topic: Rc<str>, topic_id: [u8; 16]) -> u32 {
        let slot = self.slab.insert(TopicOffsets { topic, topic_id, partitions: Vec::new() });
        let hash_of = |slot: u32| index::hash(seed, self.slab[slot].topic.as_bytes());
        if let Some(by_name) = &mut self.by_name {
            by_name.insert(hash_of(slot), slot);
        } else if self.slab.len() > SCAN_MAX {
            let mut by_name = Index::default();
            self.slab.iter().for_each(|(slot, _)| by_name.insert(hash_of(slot), slot));
            self.by_name = Some(by_name);
        }
        slot
    }

    fn forget(&mut self, seed: u64, slot: u32) {
        let topic = self.slab.remove(slot);
        if let Some(by_name) = &mut self.by_name {
            by_name.remove(index::hash(seed, topic.topic.as_bytes()), slot);
        }
        if self.slab.len() == 0 {
            self.by_name = None;
        }
    }
}

impl TopicOffsets {
    fn insert(&mut self, offset: Offset) {
        if self.partitions.len() == self.partitions.capacity() {
            // By a quarter: a group commits most of its partitions right at the start.
            self.partitions.reserve_exact((self.partitions.len() / 4).max(1));
        }
        let at = self.search(offset.partition).expect_err("the partition is not there");
        self.partitions.insert(at, offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const A: [u8; 16] = [1; 16];
    const B: [u8; 16] = [2; 16];

    fn offset(partition: i32, offset: i64) -> Offset {
        Offset::new(partition, offset, -1, 0, None, -1)
    }

    #[test]
    fn an_offset_takes_32_bytes() {
        assert_eq!(std::mem::size_of::<Offset>(), 32);
        assert_eq!(std::mem::size_of::<OffsetTable>(), 8);
    }

    #[test]
    fn a_partition_has_one_offset_whatever_the_topic_id() {
        let topic: Rc<str> = Rc::from("t");
        let mut table = OffsetTable::default();
        assert_eq!(table.set(1, &topic, A, offset(0, 10)), None);
        assert_eq!(table.set(1, &topic, A, offset(1, 11)), None);
        let before = table.set(1, &topic, B, offset(0, 20)).unwrap();
        assert_eq!((before.topic_id, before.offset.offset), (A, 10));
        let (known, found) = table.get(1, "t", 0).unwrap();
        assert_eq!((known.topic_id, found.offset), (B, 20));
        assert_eq!(table.get(1, "t", 1).unwrap().0.topic_id, A);
        assert_eq!(table.keys().count(), 2);
        assert!(table.remove(1, "t", 0).is_some() && table.remove(1, "t", 1).is_some());
        assert!(table.is_empty() && table.0.is_none());
    }

    #[test]
    fn many_topics_and_partitions_against_a_map() {
        let mut seed = 88172645463325252u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let names: Vec<Rc<str>> = (0..40).map(|i| Rc::from(format!("topic-{i}"))).collect();
        let mut table = OffsetTable::default();
        let mut model = BTreeMap::new();
        for step in 0..50_000 {
            let (topic, partition) = (&names[random(40) as usize], random(30) as i32 - 2);
            if random(5) < 3 {
                let id = if random(2) == 0 { A } else { B };
                let before = table.set(7, topic, id, offset(partition, step)).map(|c| (c.topic_id, c.offset.offset));
                assert_eq!(before, model.insert((topic.clone(), partition), (id, step)));
            } else {
                let before = table.remove(7, topic, partition).map(|c| (c.topic_id, c.offset.offset));
                assert_eq!(before, model.remove(&(topic.clone(), partition)));
            }
        }
        for ((topic, partition), (id, value)) in &model {
            let (known, found) = table.get(7, topic, *partition).unwrap();
            assert_eq!((known.topic_id, found.offset), (*id, *value));
        }
        assert_eq!((table.len(), table.keys().count()), (model.len(), model.len()));
        assert_eq!(table.bytes(), model.len() * OFFSET_BYTES);
    }

    #[test]
    fn metadata_and_an_expiry_of_its_own_cost_more() {
        let topic: Rc<str> = Rc::from("t");
        let mut table = OffsetTable::default();
        table.set(1, &topic, A, Offset::new(0, 1, -1, 0, Some("four".into()), -1));
        assert_eq!(table.bytes(), OFFSET_BYTES + size_of::<More>() + 4);
        table.set(1, &topic, B, offset(0, 2));
        assert_eq!(table.bytes(), OFFSET_BYTES);
        table.remove(1, "t", 0);
        assert_eq!(table.bytes(), 0);
    }
}

//! The catalogue of topics: an immutable snapshot, found by name and by id, published as a whole. A change makes a new
//! catalogue that shares the topics that stay.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::name::collision_key;
use crate::ids::{InternalTopicKind, NodeIndex, TopicId};

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// A legal name.
    pub name: Box<str>,
    /// Random; a topic made again under an old name has another one.
    pub id: TopicId,
    /// As it was asked for, at least 1. Metadata lists the leader as the only replica all the same: there is nothing to
    /// replicate.
    pub replication_factor: i16,
    /// By partition index; not empty.
    pub partitions: Vec<Partition>,
    /// The configs that were set, by key.
    pub configs: BTreeMap<Box<str>, Box<str>>,
    /// How many records each partition seems to hold; offsets count from 0. None in internal topics.
    pub records: i64,
}

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The only node that answers for it.
    pub leader: NodeIndex,
    /// 0 at first; grows when another node takes over.
    pub leader_epoch: i32,
}

impl Topic {
    /// Whether Kafka calls it internal.
    pub fn is_internal(&self) -> bool {
        InternalTopicKind::of_topic_name(&self.name).is_some()
    }

    /// A partition by its number as it comes from a peer.
    pub fn partition(&self, index: i32) -> Option<Partition> {
        self.partitions.get(usize::try_from(index).ok()?).copied()
    }
}

/// A topic that is ordered by its name and found by it, so that a new catalogue copies no names.
#[derive(Clone, Debug)]
struct ByName(Arc<Topic>);

/// All topics at one moment.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    epoch: u64,
    by_name: BTreeSet<ByName>,
    // Ids come from our own generator, so no peer can make this hash collide.
    by_id: HashMap<TopicId, Arc<Topic>, FxBuildHasher>,
    /// How many topics have each collision key; only keys of names with a dot or underscore.
    collisions: BTreeMap<Box<str>, u32>,
    partitions: usize,
}

impl Catalogue {
    /// Grows with every catalogue that is made out of another.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A topic by name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name).map(|by_name| &by_name.0)
    }

    /// A topic by id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// Whether a topic of another name stands in the way of this one.
    pub fn collides(&self, name: &str) -> bool {
        can_collide(name) && self.collisions.contains_key(&*collision_key(name)) && !self.by_name.contains(name)
    }

    /// All topics in the order of their names.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.by_name.iter().map(|by_name| &by_name.0)
    }

    /// The number of topics.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no topic.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The number of partitions of all topics.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Adds a topic.
    ///
    /// # Panics
    /// If there is one of that name or id: who creates topics asks first.
    pub fn insert(&mut self, topic: Topic) {
        let topic = Arc::new(topic);
        if can_collide(&topic.name) {
            *self.collisions.entry(collision_key(&topic.name).into()).or_default() += 1;
        }
        self.partitions += topic.partitions.len();
        assert!(self.by_name.insert(ByName(topic.clone())), "a topic of that name exists");
        assert!(self.by_id.insert(topic.id, topic).is_none(), "a topic of that id exists");
        self.epoch += 1;
    }

    /// Takes a topic away.
    pub fn remove(&mut self, id: TopicId) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.by_name.remove(&*topic.name);
        self.partitions -= topic.partitions.len();
        if can_collide(&topic.name) {
            let key = collision_key(&topic.name);
            match self.collisions.get_mut(&*key) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.collisions.remove(&*key)),
            }
        }
        self.epoch += 1;
        Some(topic)
    }
}

impl Borrow<str> for ByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

/// Names without `.` and `_` collide with none.
fn can_collide(name: &str) -> bool {
    name.contains(['.', '_'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, id: u8, partitions: usize) -> Topic {
        Topic {
            name: name.into(),
            id: TopicId([id; 16]),
            replication_factor: 1,
            partitions: vec![Partition { leader: NodeIndex(0), leader_epoch: 0 }; partitions],
            configs: BTreeMap::new(),
            records: 10,
        }
    }

    #[test]
    fn topics_are_found_by_name_and_id_until_they_are_removed() {
        let mut catalogue = Catalogue::default();
        catalogue.insert(topic("b", 1, 3));
        catalogue.insert(topic("a", 2, 2));
        let before = catalogue.clone();
        assert_eq!(catalogue.topics().map(|topic| &*topic.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(catalogue.by_name("b").map(|topic| topic.id), Some(TopicId([1; 16])));
        assert_eq!(catalogue.by_id(TopicId([2; 16])).map(|topic| &*topic.name), Some("a"));
        assert_eq!((catalogue.len(), catalogue.partitions()), (2, 5));
        assert_eq!(catalogue.remove(TopicId([1; 16])).map(|topic| topic.partitions.len()), Some(3));
        assert_eq!(catalogue.remove(TopicId([1; 16])), None);
        assert!(catalogue.by_name("b").is_none() && catalogue.by_id(TopicId([1; 16])).is_none());
        assert_eq!((catalogue.len(), catalogue.partitions()), (1, 2));
        assert!(catalogue.epoch() > before.epoch());
        assert!(before.by_name("b").is_some(), "a snapshot does not change");
    }

    #[test]
    fn collisions_follow_creation_and_deletion() {
        let mut catalogue = Catalogue::default();
        assert!(!catalogue.collides("a_b"));
        catalogue.insert(topic("a.b", 1, 1));
        assert!(catalogue.collides("a_b"));
        assert!(!catalogue.collides("a.b"), "the topic itself is no collision");
        assert!(!catalogue.collides("a-b"));
        catalogue.remove(TopicId([1; 16]));
        assert!(!catalogue.collides("a_b"));
    }

    #[test]
    #[should_panic(expected = "a topic of that name exists")]
    fn a_name_is_taken_once() {
        let mut catalogue = Catalogue::default();
        catalogue.insert(topic("a", 1, 1));
        catalogue.insert(topic("a", 2, 1));
    }

    #[test]
    fn partitions_by_a_peers_number() {
        let topic = topic("t", 1, 2);
        assert!(topic.partition(1).is_some());
        assert!([-1, 2, i32::MAX, i32::MIN].iter().all(|&index| topic.partition(index).is_none()));
    }

    #[test]
    fn internal_topics_are_known_by_name() {
        assert!(topic("__consumer_offsets", 1, 1).is_internal());
        assert!(!topic("consumer_offsets", 1, 1).is_internal());
    }
}

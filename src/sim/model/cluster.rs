//! What belongs to no group, as it can be known from outside: the cluster id, topics and their ids, who coordinates what.

use std::collections::{BTreeMap, BTreeSet};

use super::asked::TopicName;
use crate::wire::Uuid;

#[derive(Debug, Default)]
pub(super) struct Cluster {
    id: Option<String>,
    topics: BTreeMap<String, Topic>,
    by_id: BTreeMap<Uuid, String>,
    /// Topics that were deleted; their ids never come back.
    gone: BTreeSet<Uuid>,
    /// Node id by group id.
    coordinators: BTreeMap<String, i32>,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    partitions: usize,
    /// Its deletion was asked for.
    may_go: bool,
}

impl Cluster {
    pub(super) fn told_id(&mut self, told: &str) -> Result<(), String> {
        let id = self.id.get_or_insert_with(|| told.into());
        if id == told { Ok(()) } else { Err(format!("the cluster id was {id} and is {told}")) }
    }

    /// Metadata, or the answer of a creation, tells of a topic. `id` is zero and `partitions` 0 if the version does not tell.
    pub(super) fn told_topic(&mut self, name: &str, id: Uuid, partitions: usize) -> Result<(), String> {
        if self.gone.contains(&id) {
            return Err(format!("topic {name} has the id {id} of a topic that was deleted"));
        }
        if let Some(known) = self.topics.get(name)
            && !(id.is_zero() || known.id.is_zero() || known.id == id)
        {
            if !known.may_go {
                return Err(format!("topic {name} had the id {} and has {id}", known.id));
            }
            self.deleted(name);
        }
        if !id.is_zero()
            && let Some(other) = self.by_id.insert(id, name.into()).filter(|other| other != name)
        {
            return Err(format!("topics {other} and {name} have the id {id}"));
        }
        let known = self.topics.entry(name.into()).or_insert(Topic { id, partitions, may_go: false });
        if known.id.is_zero() {
            known.id = id;
        }
        if known.partitions == 0 || known.may_go && known.id.is_zero() {
            known.partitions = partitions;
        }
        if partitions != 0 && known.partitions != partitions {
            return Err(format!("topic {name} had {} partitions and has {partitions}", known.partitions));
        }
        Ok(())
    }

    /// A topic is said not to exist.
    pub(super) fn told_absent(&self, name: &str) -> Result<(), String> {
        match self.topics.get(name) {
            Some(known) if !known.may_go => Err(format!("topic {name} is not there any more")),
            _ => Ok(()),
        }
    }

    /// The deletion of a topic was asked for. Gives its name, if it is known.
    pub(super) fn deletion_asked(&mut self, topic: &TopicName) -> Option<String> {
        let name = self.name_of(topic)?;
        if let Some(known) = self.topics.get_mut(&name) {
            known.may_go = true;
        }
        Some(name)
    }

    /// Whether the topic's deletion was asked for, and has not been seen to be done.
    pub(super) fn may_go(&self, name: &str) -> bool {
        self.topics.get(name).is_none_or(|topic| topic.may_go)
    }

    pub(super) fn deleted(&mut self, name: &str) {
        if let Some(known) = self.topics.remove(name)
            && !known.id.is_zero()
        {
            self.gone.insert(known.id);
        }
    }

    pub(super) fn name_of(&self, topic: &TopicName) -> Option<String> {
        match topic {
            TopicName::Name(name) => Some(name.clone()),
            TopicName::Id(id) => self.by_id.get(id).cloned(),
        }
    }

    pub(super) fn id_of(&self, name: &str) -> Uuid {
        self.topics.get(name).map_or(Uuid::ZERO, |topic| topic.id)
    }

    pub(super) fn told_coordinator(&mut self, group_id: &str, node_id: i32) -> Result<(), String> {
        let known = *self.coordinators.entry(group_id.into()).or_insert(node_id);
        if known == node_id {
            Ok(())
        } else {
            Err(format!("{group_id:?} was coordinated by node {known} and is by {node_id}"))
        }
    }

    /// Groups are coordinated, but one is said not to be.
    pub(super) fn told_no_coordinator(&self, group_id: &str) -> Result<(), String> {
        if self.coordinators.is_empty() { Ok(()) } else { Err(format!("{group_id:?} has no coordinator")) }
    }

    /// `None`: not known.
    pub(super) fn coordinator(&self, group_id: &str) -> Option<i32> {
        self.coordinators.get(group_id).copied()
    }

    /// The machine has another number of nodes.
    pub(super) fn forget_coordinators(&mut self) {
        self.coordinators.clear();
    }
}

//! What belongs to no group, as it can be known from outside: the cluster id, topics and their ids, who coordinates what.

use std::collections::{BTreeMap, BTreeSet};

use super::asked::TopicName;
use crate::errors::ErrorCode;
use crate::wire::Uuid;

#[derive(Debug, Default)]
pub(super) struct Cluster {
    id: Option<String>,
    topics: BTreeMap<String, Topic>,
    by_id: BTreeMap<Uuid, String>,
    /// Topics that were deleted; their ids never come back.
    gone: BTreeSet<Uuid>,
    /// By name, deletions that were asked for and have not come to an end: not answered, or with an error that leaves it to the
    /// next start whether the topic is there.
    doomed: BTreeMap<String, usize>,
    /// Node id by group id.
    coordinators: BTreeMap<String, i32>,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    partitions: usize,
    /// Its deletion was asked for, and what came of it is not known for certain.
    may_go: bool,
}

impl Cluster {
    pub(super) fn told_id(&mut self, told: &str) -> Result<(), String> {
        let id = self.id.get_or_insert_with(|| told.into());
        if id == told { Ok(()) } else { Err(format!("the cluster id was {id} and is {told}")) }
    }

    /// Metadata, or the answer of a creation, tells of a topic. `id` is zero and `partitions` 0 if the version does not tell.
    /// `is_now`: it is there; otherwise it was there once, and may have been deleted since: an answer that goes to another core
    /// than the owner's arrives there late.
    pub(super) fn told_topic(&mut self, name: &str, id: Uuid, partitions: usize, is_now: bool) -> Result<(), String> {
        if self.gone.contains(&id) {
            if !is_now {
                return Ok(());
            }
            return Err(format!("topic {name} has the id {id} of a topic that was deleted"));
        }
        if !id.is_zero()
            && let Some(other) = self.by_id.insert(id, name.into()).filter(|other| other != name)
        {
            return Err(format!("topics {other} and {name} have the id {id}"));
        }
        let may_go = self.may_go(name);
        let Some(known) = self.topics.get_mut(name) else {
            self.topics.insert(name.into(), Topic { id, partitions, may_go: !is_now });
            return Ok(());
        };
        let has_other_id = !(id.is_zero() || known.id.is_zero() || known.id == id);
        let has_other_size = !(partitions == 0 || known.partitions == 0 || known.partitions == partitions);
        if (has_other_id || has_other_size) && !is_now {
            // Which of the two came first is not known.
            match may_go {
                true => *known = Topic { id, partitions, may_go },
                false => known.may_go = true,
            }
            return Ok(());
        }
        if (has_other_id || has_other_size) && !may_go {
            let Topic { id: known_id, partitions: known_partitions, .. } = known;
            return Err(format!(
                "topic {name} was {known_id} with {known_partitions} partitions and is {id} with {partitions}"
            ));
        }
        if has_other_id {
            self.gone.insert(known.id);
        }
        if has_other_id || has_other_size {
            *known = Topic { id, partitions, may_go: false };
        }
        if known.id.is_zero() {
            known.id = id;
        }
        known.partitions = known.partitions.max(partitions);
        Ok(())
    }

    /// A topic is said not to exist.
    pub(super) fn told_absent(&self, name: &str) -> Result<(), String> {
        match self.topics.get(name) {
            Some(_) if !self.may_go(name) => Err(format!("topic {name} is not there any more")),
            _ => Ok(()),
        }
    }

    /// The deletion of a topic was asked for. Gives its name, if it is known.
    pub(super) fn deletion_asked(&mut self, topic: &TopicName) -> Option<String> {
        let name = self.name_of(topic)?;
        *self.doomed.entry(name.clone()).or_default() += 1;
        Some(name)
    }

    /// The deletion is answered. `id` is zero if the version does not tell, or the topic was not there.
    pub(super) fn deletion_answered(&mut self, name: &str, id: Uuid, error: ErrorCode) {
        if error == ErrorCode::KAFKA_STORAGE_ERROR {
            // It may be in the log nevertheless.
            return;
        }
        if let Some(doomed) = self.doomed.get_mut(name) {
            *doomed = doomed.saturating_sub(1);
        }
        if !error.is_none() {
            return;
        }
        match self.topics.get_mut(name) {
            Some(known) if known.id == id && !id.is_zero() => drop(self.topics.remove(name)),
            Some(known) if id.is_zero() || known.id.is_zero() => known.may_go = true,
            _ => {}
        }
        if !id.is_zero() {
            self.gone.insert(id);
        }
    }

    /// The process has ended: what was asked for is done or not.
    pub(super) fn crashed(&mut self) {
        for (name, doomed) in std::mem::take(&mut self.doomed) {
            if let Some(known) = self.topics.get_mut(&name) {
                known.may_go |= doomed > 0;
            }
        }
    }

    /// Whether a topic may be gone, or another one of the same name may be there.
    pub(super) fn may_go(&self, name: &str) -> bool {
        let is_doomed = self.doomed.get(name).is_some_and(|doomed| *doomed > 0);
        is_doomed || self.topics.get(name).is_none_or(|topic| topic.may_go)
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

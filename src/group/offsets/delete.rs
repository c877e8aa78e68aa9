//! OffsetDelete, and the end of a topic.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::Groups;
use crate::group::classic::subscribed::Subscribed;
use crate::group::core::GroupKey;
use crate::group::records::Record;
use crate::group::writes::Wait;

use super::expiry::{GROUPS_MAX, PARTS_MAX};
use super::table::TopicOffsets;

/// Deletes offsets of a group that lets go of them.
#[derive(Debug)]
pub struct OffsetDeleter<'a> {
    groups: &'a mut Groups,
    key: GroupKey,
    subscribed: Subscribed,
}

/// Topics that are gone. There may be others of their names again.
#[derive(Debug, Default)]
pub struct DeletedTopics {
    ids: BTreeSet<[u8; 16]>,
    names: BTreeSet<String>,
}

impl DeletedTopics {
    /// A topic is gone.
    pub fn add(&mut self, name: String, id: [u8; 16]) {
        self.names.insert(name);
        self.ids.insert(id);
    }

    /// So are others.
    pub fn append(&mut self, mut others: DeletedTopics) {
        self.names.append(&mut others.names);
        self.ids.append(&mut others.ids);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn have(&self, topic: &TopicOffsets) -> bool {
        if topic.topic_id == [0; 16] { self.names.contains(&*topic.topic) } else { self.ids.contains(&topic.topic_id) }
    }
}

impl Groups {
    /// Whether the group lets offsets be deleted. An error is the top-level one, and empties the answer.
    pub fn begin_offset_delete(&mut self, group_id: &str) -> Result<OffsetDeleter<'_>, ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::INVALID_GROUP_ID);
        }
        let key = self.find(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        let classic = &self.group_mut(key).0.classic;
        if !classic.is_empty() && !classic.is_of_consumers() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        let subscribed = classic.subscribed();
        Ok(OffsetDeleter { groups: self, key, subscribed })
    }

    /// The offsets of topics that are gone go from all groups, some groups at a time: from those of a slot on, at first 0. Where
    /// to go on; nothing when all were looked at. Those that are loading are passed over: until a group has all of its records,
    /// one that deletes could come too early.
    pub fn delete_offsets_of(&mut self, topics: &DeletedTopics, from: u32) -> Option<u32> {
        let end = from.saturating_add(GROUPS_MAX).min(self.bound());
        let mut parts = 0;
        for slot in from..end {
            if parts >= PARTS_MAX {
                return Some(slot);
            }
            let Some((key, group)) = self.at(slot).filter(|(_, group)| !group.is_loading) else { continue };
            parts += group.offsets.len();
            let deleted: Vec<(Rc<str>, i32)> = group
                .offsets
                .topics()
                .filter(|topic| topics.have(topic))
                .flat_map(|topic| topic.partitions().iter().map(|offset| (topic.topic.clone(), offset.partition)))
                .collect();
            deleted.iter().for_each(|(topic, partition)| self.delete_offset(key, topic, *partition));
        }
        (end < self.bound()).then_some(end)
    }

    /// Removes an offset, if it is there, with a record that says so.
    pub(in crate::group) fn delete_offset(&mut self, key: GroupKey, topic: &Rc<str>, partition: i32) {
        let before = self.change(key, |group, core| group.offsets.remove(core.seed(), topic, partition));
        let Some(before) = before else { return };
        let (group, core) = self.group_mut(key);
        core.committed_offsets -= 1;
        group.offsets.unsettle();
        core.writes.push(Record::offset_tombstone(&group.id, topic, partition));
        core.writes.wait(Wait::Committed { group: key, topic: topic.clone(), partition, before: Some(before) });
    }
}

impl OffsetDeleter<'_> {
    /// Deletes one partition's offset, whether there is one or not.
    pub fn delete(&mut self, topic: &str, partition: i32) -> ErrorCode {
        if self.subscribed.contains(topic) {
            return ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC;
        }
        if let Some(topic) = self.groups.core.names.known_text(topic) {
            self.groups.delete_offset(self.key, &topic, partition);
        }
        ErrorCode::NONE
    }
}

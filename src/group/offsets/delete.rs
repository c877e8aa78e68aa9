//! OffsetDelete, and the end of a topic.

use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::Groups;
use crate::group::classic::subscribed::Subscribed;
use crate::group::core::GroupKey;
use crate::group::records::Record;
use crate::group::writes::Wait;

/// Deletes offsets of a group that lets go of them.
#[derive(Debug)]
pub struct OffsetDeleter<'a> {
    groups: &'a mut Groups,
    key: GroupKey,
    subscribed: Subscribed,
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

    /// A topic is gone: so are its offsets in all groups. For those that are still loading it must be told once more to
    /// [`Groups::start_loaded`]: until then not all that they have is there, and a record that deletes it could come too early.
    pub fn topic_deleted(&mut self, topic: &str) {
        let Some(topic) = self.core.names.known_text(topic) else { return };
        for slot in 0..self.bound() {
            if let Some((key, _)) = self.at(slot).filter(|(_, group)| !group.is_loading) {
                self.delete_offsets(key, &topic);
            }
        }
    }

    /// A topic was deleted while the group was loading.
    pub(in crate::group) fn delete_offsets_of(&mut self, key: GroupKey, topic: &str) {
        if let Some(topic) = self.core.names.known_text(topic) {
            self.delete_offsets(key, &topic);
        }
    }

    fn delete_offsets(&mut self, key: GroupKey, topic: &Rc<str>) {
        let topics = self.group_mut(key).0.offsets.topics().filter(|known| Rc::ptr_eq(&known.topic, topic));
        let partitions: Vec<i32> = topics.flat_map(|known| known.partitions()).map(|offset| offset.partition).collect();
        for partition in partitions {
            self.delete_offset(key, topic, partition);
        }
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

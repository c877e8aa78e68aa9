//! OffsetCommit: who may commit, what is stored. The topics have been checked before; a commit without any valid partition does
//! not come here.

use std::rc::Rc;

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::Groups;
use crate::group::core::GroupKey;
use crate::group::memory::OFFSET_BYTES;
use crate::group::records::{CommittedOffset, OffsetKey, Record};
use crate::group::writes::{Wait, WriteId};
use crate::limits;

use super::table::{Committed, Offset};

/// An OffsetCommit, without its partitions.
#[derive(Clone, Copy, Debug)]
pub struct CommitRequest<'a> {
    /// The group; may be empty.
    pub group_id: &'a str,
    /// The member; empty from outside of the group.
    pub member_id: &'a str,
    /// Of a static member (version 7 and above).
    pub group_instance_id: Option<&'a str>,
    /// The generation, or a negative number from outside of the group.
    pub generation_id: i32,
    /// Version 9 and above: an unknown group is called that, and not ILLEGAL_GENERATION.
    pub knows_group_id_not_found: bool,
}

/// One partition of an OffsetCommit.
#[derive(Clone, Copy, Debug)]
pub struct PartitionCommit<'a> {
    /// The partition.
    pub partition: i32,
    /// Any number.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// `None` is stored as the empty text.
    pub metadata: Option<&'a str>,
    /// Version 1 only: milliseconds since 1970.
    pub commit_timestamp_ms: Option<i64>,
    /// Versions 2 to 4: how long the offset is kept, in milliseconds, unless the server's own rule shall hold.
    pub retention_ms: Option<i64>,
}

/// Takes the partitions of a commit that the group accepts.
#[derive(Debug)]
pub struct OffsetCommitter<'a> {
    groups: &'a mut Groups,
    key: GroupKey,
    topic: Option<Rc<str>>,
    /// The group is new, and goes if its first commit is refused.
    creates: bool,
    now: Now,
}

impl Groups {
    /// Whether the group takes a commit. An error goes to each of its partitions.
    pub fn begin_commit(&mut self, request: &CommitRequest<'_>, now: Now) -> Result<OffsetCommitter<'_>, ErrorCode> {
        let (key, creates) = match self.find(request.group_id) {
            Some(key) => {
                self.with(key, now, |group, turn| group.classic.check_commit(request, turn))?;
                (key, false)
            }
            None if request.generation_id >= 0 => {
                return Err(if request.knows_group_id_not_found {
                    ErrorCode::GROUP_ID_NOT_FOUND
                } else {
                    ErrorCode::ILLEGAL_GENERATION
                });
            }
            // A group for nothing but offsets: it needs no record of its own.
            None if request.group_id.len() > limits::NAME_MAX_BYTES => return Err(ErrorCode::INVALID_GROUP_ID),
            None => (self.create(request.group_id, OFFSET_BYTES, now)?, true),
        };
        Ok(OffsetCommitter { groups: self, key, topic: None, creates, now })
    }

    /// The one way in which an offset comes into memory, from a commit or from the journal.
    pub(in crate::group) fn apply_commit(
        &mut self,
        key: GroupKey,
        topic: &Rc<str>,
        offset: &CommittedOffset,
        partition: i32,
    ) -> Option<Committed> {
        let stored = Offset::new(
            partition,
            offset.offset,
            offset.leader_epoch,
            offset.commit_timestamp_ms,
            offset.metadata.clone(),
            offset.expire_timestamp_ms,
        );
        self.change(key, |group, core| {
            let before = group.offsets.set(core.seed(), topic, offset.topic_id, stored);
            core.committed_offsets += usize::from(before.is_none());
            before
        })
    }

    /// A commit or a deletion was written or refused; refused, what stood there before comes back.
    pub(in crate::group) fn commit_ended(
        &mut self,
        write: WriteId,
        key: GroupKey,
        topic: &Rc<str>,
        partition: i32,
        before: Option<Committed>,
        result: Result<(), ErrorCode>,
    ) {
        let seed = self.core.seed();
        // If a later change waits for its own write, that one stays, and would go back to this.
        let back_to = match result {
            Ok(()) => None,
            Err(_) => self.core.writes.replace_before(write, key, topic, partition, before),
        };
        let is_there = self.is_there(key);
        let Some(offsets) = self.offsets_mut(key) else { return };
        let had_bytes = offsets.bytes();
        let change = match back_to {
            None => 0,
            Some(None) => -isize::from(offsets.remove(seed, topic, partition).is_some()),
            Some(Some(before)) => isize::from(offsets.set(seed, topic, before.topic_id, before.offset).is_none()),
        };
        offsets.settle();
        let has_bytes = offsets.bytes();
        if is_there {
            self.core.committed_offsets = self.core.committed_offsets.strict_add_signed(change);
            self.core.memory.change(had_bytes, has_bytes);
        }
    }
}

impl OffsetCommitter<'_> {
    /// Commits one partition. `topic_id` is all zero if it is not known.
    pub fn commit(&mut self, topic: &str, topic_id: [u8; 16], commit: PartitionCommit<'_>) -> ErrorCode {
        let metadata = commit.metadata.unwrap_or("");
        let max = self.groups.core.offset_settings.metadata_max_bytes;
        if is_longer_than(metadata, max) || metadata.len() > limits::NAME_MAX_BYTES {
            return ErrorCode::OFFSET_METADATA_TOO_LARGE;
        }
        if !self.has_room(topic, commit.partition, metadata) {
            return self.groups.core.memory.refuse("memory", self.now);
        }
        let topic = self.topic(topic);
        let unix_ms = self.now.unix_ms;
        let offset = CommittedOffset {
            offset: commit.offset,
            leader_epoch: commit.leader_epoch,
            metadata: (!metadata.is_empty()).then(|| Rc::from(metadata)),
            commit_timestamp_ms: commit.commit_timestamp_ms.unwrap_or(unix_ms),
            expire_timestamp_ms: commit.retention_ms.map_or(-1, |ms| unix_ms.saturating_add(ms)),
            topic_id,
        };
        let before = self.groups.apply_commit(self.key, &topic, &offset, commit.partition);
        let (group, core) = self.groups.group_mut(self.key);
        group.offsets.unsettle();
        let partition = commit.partition;
        let key = OffsetKey { group_id: group.id.clone(), topic: topic.clone(), partition };
        core.writes.push(Record::OffsetCommit { key, offset });
        if std::mem::take(&mut self.creates) {
            core.writes.wait(Wait::Created(self.key));
        }
        core.writes.wait(Wait::Committed { group: self.key, topic, partition, before });
        ErrorCode::NONE
    }

    /// An offset that takes the place of one that is as large is not refused.
    fn has_room(&self, topic: &str, partition: i32, metadata: &str) -> bool {
        let Groups { core, .. } = &*self.groups;
        if core.memory.has_room(OFFSET_BYTES + metadata.len()) {
            return true;
        }
        let offsets = self.groups.at(self.key.slot).map(|(_, group)| &group.offsets);
        let before = offsets.and_then(|offsets| offsets.get(core.seed(), topic, partition));
        before.is_some_and(|(_, before)| before.metadata().len() >= metadata.len())
    }

    /// The one copy of a topic's name; the same topic mostly comes several times in a row.
    fn topic(&mut self, topic: &str) -> Rc<str> {
        if let Some(last) = self.topic.as_ref().filter(|last| ***last == *topic) {
            return last.clone();
        }
        let topic = self.groups.core.names.text(topic);
        self.topic = Some(topic.clone());
        topic
    }
}

/// Kafka compares the setting, which speaks of bytes, with the length in UTF-16 code units.
fn is_longer_than(text: &str, max: i32) -> bool {
    let max = usize::try_from(max).unwrap_or(0);
    text.len() > max && text.encode_utf16().count() > max
}

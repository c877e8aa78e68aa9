//! Records on their way to the journal, and what waits for them.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::errors::ErrorCode;

use super::Ticket;
use super::core::GroupKey;
use super::groups::Group;
use super::offsets::table::Committed;
use super::piecework::Assigned;
use super::profile::Profile;
use super::records::Record;

/// The records of one [`super::Groups::take_records`]: written together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// What [`super::Groups::take_records`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// For [`super::Groups::written`].
    pub write: WriteId,
    /// Whether anything in the groups waits for the end of this write. If not, `written` need not be called.
    pub is_awaited: bool,
}

/// The records of the inputs since they were last taken, and what the inputs before wait for.
#[derive(Debug, Default)]
pub(super) struct Writes {
    records: Vec<Record>,
    next: u64,
    waits: VecDeque<(WriteId, Wait)>,
    /// Of the waits, those for the deletion of a group.
    deletions: usize,
}

/// What happens when a write has ended.
#[derive(Debug)]
pub(super) enum Wait {
    /// A group was created, by a JoinGroup or by a commit. Refused: it goes, and whoever joined it is told.
    Created(GroupKey),
    /// A leader's assignments.
    Assigned(Box<Assigned>),
    /// A static member's new id.
    Replaced(Box<Replaced>),
    /// A commit. Refused: the offset before it comes back.
    Committed { group: GroupKey, topic: Rc<str>, partition: i32, before: Option<Committed> },
    /// A group was deleted. Refused: it comes back.
    Deleted(Box<Group>),
}

#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) group: GroupKey,
    pub(super) generation_id: i32,
    pub(super) member: u32,
    pub(super) ticket: Ticket,
    pub(super) knows_skip_assignment: bool,
    /// The member as it now is.
    pub(super) profile: Profile,
    /// The leader before, as older versions are told.
    pub(super) leader_before: Profile,
    /// What comes back if the record is refused.
    pub(super) before: super::classic::member::Said,
}

impl Writes {
    pub(super) fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Waits for the records that were pushed since they were last taken.
    pub(super) fn wait(&mut self, wait: Wait) {
        self.deletions += usize::from(matches!(wait, Wait::Deleted(_)));
        self.waits.push_back((WriteId(self.next), wait));
    }

    pub(super) fn take(&mut self, records: &mut Vec<Record>) -> Option<Taken> {
        if self.records.is_empty() {
            return None;
        }
        records.append(&mut self.records);
        if self.records.capacity() > RECORDS_KEPT {
            self.records = Vec::new();
        }
        let write = WriteId(self.next);
        self.next += 1;
        Some(Taken { write, is_awaited: self.waits.back().is_some_and(|(waiting, _)| *waiting == write) })
    }

    /// The next of those that wait for a write that has ended: the oldest if it succeeded, the newest if it did not.
    pub(super) fn next_ended(&mut self, write: WriteId, has_succeeded: bool) -> Option<Wait> {
        let start = self.waits.partition_point(|(waiting, _)| *waiting < write);
        let at = if has_succeeded {
            start
        } else {
            self.waits.partition_point(|(waiting, _)| *waiting <= write).checked_sub(1)?
        };
        let is_of_it = self.waits.get(at).is_some_and(|(waiting, _)| *waiting == write);
        if !is_of_it {
            return None;
        }
        let (_, wait) = self.waits.remove(at)?;
        self.deletions -= usize::from(matches!(wait, Wait::Deleted(_)));
        Some(wait)
    }

    /// If a later write changes the same offset, what it would go back to becomes `earlier`; else `earlier` is given back.
    pub(super) fn replace_before(
        &mut self,
        refused: WriteId,
        key: GroupKey,
        changed_topic: &str,
        changed_partition: i32,
        earlier: Option<Committed>,
    ) -> Option<Option<Committed>> {
        for (_, wait) in self.later_than(refused) {
            match wait {
                Wait::Committed { group, topic, partition, before }
                    if *group == key && **topic == *changed_topic && *partition == changed_partition =>
                {
                    *before = earlier;
                    return None;
                }
                _ => {}
            }
        }
        Some(earlier)
    }

    /// If a later write replaces the same member, that one would go back to what this one goes back to.
    pub(super) fn replace_said_before(&mut self, write: WriteId, refused: &mut Replaced) {
        for (_, wait) in self.later_than(write) {
            if let Wait::Replaced(later) = wait
                && (later.group, later.member) == (refused.group, refused.member)
            {
                std::mem::swap(&mut later.before, &mut refused.before);
                return;
            }
        }
    }

    /// A group whose deletion is on its way to the journal.
    pub(super) fn deleted(&mut self, is_it: impl Fn(&Group) -> bool) -> Option<&mut Group> {
        self.waits.iter_mut().find_map(|(_, wait)| match wait {
            Wait::Deleted(group) if is_it(group) => Some(&mut **group),
            _ => None,
        })
    }

    /// These groups will not come back here, whatever becomes of their deletion.
    pub(super) fn forget_deleted(&mut self, is_it: impl Fn(WriteId, &Group) -> bool) {
        let before = self.waits.len();
        self.waits.retain(|(waiting, wait)| !matches!(wait, Wait::Deleted(group) if is_it(*waiting, group)));
        self.deletions -= before - self.waits.len();
    }

    /// A group has come back, in another place: what waits for it finds it there.
    pub(super) fn follow(&mut self, stamp: u32, key: GroupKey) {
        for (_, wait) in &mut self.waits {
            if let Wait::Created(group) | Wait::Committed { group, .. } = wait
                && group.stamp == stamp
            {
                *group = key;
            }
        }
    }

    fn later_than(&mut self, write: WriteId) -> impl Iterator<Item = &mut (WriteId, Wait)> {
        let start = self.waits.partition_point(|(waiting, _)| *waiting <= write);
        self.waits.range_mut(start..)
    }

    /// Whether a group was deleted and the deletion is not written yet.
    pub(super) fn has_deletions(&self) -> bool {
        self.deletions > 0
    }

    pub(super) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }
}

/// Room for this many records is kept from one taking to the next.
const RECORDS_KEPT: usize = 4_096;

/// The answer that a client gets if the write of its request failed (Kafka's mapping).
pub(super) fn answer_of_failed_write(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::NOT_ENOUGH_REPLICAS | ErrorCode::REQUEST_TIMED_OUT => {
            ErrorCode::COORDINATOR_NOT_AVAILABLE
        }
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::KAFKA_STORAGE_ERROR => ErrorCode::NOT_COORDINATOR,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE | ErrorCode::INVALID_FETCH_SIZE => {
            ErrorCode::UNKNOWN_SERVER_ERROR
        }
        other => other,
    }
}

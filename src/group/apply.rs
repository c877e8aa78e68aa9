//! The journal's records become groups again, in the order in which they were written.

use crate::clock::Now;

use super::Groups;
use super::core::GroupKey;
use super::records::{GroupMetadata, Record};

impl Groups {
    /// Takes over one record. The last one for a key counts. Offsets without a group's record make a simple group.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::GroupMetadata { group_id, group } => self.apply_group(group_id, group),
            Record::GroupTombstone { group_id } => self.apply_group_tombstone(group_id),
            Record::OffsetCommit { key, offset } => {
                let topic = self.core.names.text(&key.topic);
                let group = self.find_or_load(&key.group_id);
                self.apply_commit(group, &topic, offset, key.partition);
            }
            Record::OffsetTombstone { key } => {
                let Some(found) = self.find(&key.group_id) else { return };
                let (group, core) = self.group_mut(found);
                let removed = group.offsets.remove(core.seed(), &key.topic, key.partition);
                core.committed_offsets -= usize::from(removed.is_some());
                self.forget_if_nothing_is_left(found);
            }
        }
    }

    /// All records of some partitions have been applied: the sessions of their groups begin. `is_loaded` says of a group id
    /// whether its partition is among them.
    pub fn loaded(&mut self, is_loaded: impl Fn(&str) -> bool, now: Now) {
        let loading = std::mem::take(&mut self.loading);
        for key in loading {
            let Some((there, group)) = self.at(key.slot) else { continue };
            if there != key {
                continue;
            }
            if is_loaded(&group.id) {
                self.with(key, now, |group, turn| group.classic.start(turn));
            } else {
                self.loading.push(key);
            }
        }
    }

    fn apply_group(&mut self, group_id: &str, record: &GroupMetadata) {
        let key = self.find_or_load(group_id);
        let (group, core) = self.group_mut(key);
        group.classic.load(record, core);
    }

    /// The group is gone, its offsets are not: they have tombstones of their own.
    fn apply_group_tombstone(&mut self, group_id: &str) {
        let Some(key) = self.find(group_id) else { return };
        let (group, core) = self.group_mut(key);
        group.classic.load(&GroupMetadata::empty(-1), core);
        group.classic.is_written = false;
        self.forget_if_nothing_is_left(key);
    }

    fn forget_if_nothing_is_left(&mut self, key: GroupKey) {
        let group = self.group_mut(key).0;
        if !group.classic.is_written && group.offsets.is_empty() {
            self.remove(key);
        }
    }

    /// What was written once is not refused at a restart, however many groups there are.
    fn find_or_load(&mut self, group_id: &str) -> GroupKey {
        if let Some(key) = self.find(group_id) {
            return key;
        }
        let key = self.create_unchecked(group_id, -1);
        self.loading.push(key);
        key
    }
}

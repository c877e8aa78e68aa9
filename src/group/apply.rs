//! The journal's records become groups again, in the order in which they were written, one offsets partition independently of
//! the others: while some are still read, the groups of others may be in use.

use crate::clock::Now;

use super::Groups;
use super::core::GroupKey;
use super::records::{GroupMetadata, Record};

/// [`Groups::start_loaded`] starts so many groups in one go, or as many as have so many members together.
const GROUPS_MAX: usize = 256;
const PARTS_MAX: usize = 1_024;

impl Groups {
    /// Takes over one record of an offsets partition. The last one for a key counts. Offsets without a group's record make a
    /// simple group.
    ///
    /// # Panics
    /// If the group is in use: what has changed since it was loaded must not be overwritten.
    pub fn apply(&mut self, partition: i32, record: &Record) {
        match record {
            Record::GroupMetadata { group_id, group } => self.apply_group(partition, group_id, group),
            Record::GroupTombstone { group_id } => self.apply_group_tombstone(group_id),
            Record::OffsetCommit { key, offset } => {
                let topic = self.core.names.text(&key.topic);
                let group = self.find_or_load(partition, &key.group_id);
                self.apply_commit(group, &topic, offset, key.partition);
            }
            Record::OffsetTombstone { key } => {
                let Some(found) = self.find_loading(&key.group_id) else { return };
                self.change(found, |group, core| {
                    let removed = group.offsets.remove(core.seed(), &key.topic, key.partition);
                    core.committed_offsets -= usize::from(removed.is_some());
                });
                self.forget_if_nothing_is_left(found);
            }
        }
    }

    /// All records of an offsets partition have been applied: the sessions of its groups begin. Does a bounded piece of it;
    /// false when all is done, and then the partition may be used.
    pub fn start_loaded(&mut self, partition: i32, now: Now) -> bool {
        let Some(mut loading) = self.loading.remove(&partition) else { return false };
        let mut parts = 0;
        for _ in 0..GROUPS_MAX {
            if parts >= PARTS_MAX {
                break;
            }
            let Some(key) = loading.pop() else { return false };
            if !self.is_there(key) {
                continue;
            }
            let group = self.group_mut(key).0;
            group.is_loading = false;
            parts += group.classic.member_count();
            self.with(key, now, |group, turn| group.classic.start(turn));
        }
        self.loading.insert(partition, loading);
        true
    }

    fn apply_group(&mut self, partition: i32, group_id: &str, record: &GroupMetadata) {
        let key = self.find_or_load(partition, group_id);
        self.change(key, |group, core| group.classic.load(record, core));
    }

    /// The group is gone, its offsets are not: they have tombstones of their own.
    fn apply_group_tombstone(&mut self, group_id: &str) {
        let Some(key) = self.find_loading(group_id) else { return };
        self.change(key, |group, core| {
            group.classic.load(&GroupMetadata::empty(-1), core);
            group.classic.is_written = false;
        });
        self.forget_if_nothing_is_left(key);
    }

    fn forget_if_nothing_is_left(&mut self, key: GroupKey) {
        let group = self.group_mut(key).0;
        if !group.classic.is_written && group.offsets.is_empty() {
            self.remove(key);
        }
    }

    /// What was written once is not refused at a restart, however many groups there are.
    fn find_or_load(&mut self, partition: i32, group_id: &str) -> GroupKey {
        if let Some(key) = self.find_loading(group_id) {
            return key;
        }
        let key = self.create_unchecked(group_id, -1);
        self.group_mut(key).0.is_loading = true;
        self.loading.entry(partition).or_default().push(key);
        key
    }

    fn find_loading(&mut self, group_id: &str) -> Option<GroupKey> {
        let key = self.find(group_id)?;
        assert!(self.group_mut(key).0.is_loading, "group {group_id:?} is in use and still read");
        Some(key)
    }
}

//! All records that live now, some groups at a time: what a snapshot of an offsets partition is made of.

use super::Groups;
use super::groups::Group;
use super::records::{OffsetKey, Record};

/// How far a walk over all groups has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    slot: u32,
    came_back: u64,
}

/// So many groups are looked at in one go, or as many as have this many records together. A group is not cut in two.
const GROUPS_MAX: u32 = 256;
const RECORDS_MAX: usize = 512;

impl Groups {
    /// Before the first group. A group that changes or comes in meanwhile is met as it was or as it is, or not at all if it
    /// was created or deleted: that is written elsewhere.
    pub fn begin_walk(&self) -> Walk {
        Walk { slot: 0, came_back: self.came_back }
    }

    /// Appends the live records of the next groups; false if these were the last. `belongs` says of a group id whether it is
    /// asked for. All records must have been taken before ([`Groups::has_records`]).
    pub fn walk(&self, walk: &mut Walk, belongs: impl Fn(&str) -> bool, records: &mut Vec<Record>) -> bool {
        debug_assert!(!self.has_records(), "what is in memory is written or on its way");
        if walk.came_back != self.came_back {
            // A deleted group that came back may be behind us. To meet the others twice does no harm.
            *walk = self.begin_walk();
        }
        let enough = records.len() + RECORDS_MAX;
        let end = walk.slot.saturating_add(GROUPS_MAX).min(self.bound());
        while walk.slot < end && records.len() < enough {
            if let Some((_, group)) = self.at(walk.slot).filter(|(_, group)| belongs(&group.id)) {
                append(group, records);
            }
            walk.slot += 1;
        }
        walk.slot < self.bound()
    }
}

fn append(group: &Group, records: &mut Vec<Record>) {
    if let Some(written) = group.classic.last_written() {
        records.push(Record::GroupMetadata { group_id: group.id.clone(), group: written });
    }
    for topic in group.offsets.topics() {
        for offset in topic.partitions() {
            let key = OffsetKey { group_id: group.id.clone(), topic: topic.topic.clone(), partition: offset.partition };
            records.push(Record::OffsetCommit { key, offset: offset.as_committed(topic.topic_id) });
        }
    }
}

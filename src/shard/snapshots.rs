//! Snapshots: a partition's live records go into a file of their own, so that the log behind may go. A bounded piece in each
//! turn, while requests are served in between. When one is due, where it is kept and when it counts is the [`Store`]'s.

use super::Shard;
use crate::group::{Record, Walk};
use crate::journal::codec::Records;
use crate::journal::store::Store;

/// The snapshot that is being taken.
#[derive(Default)]
pub(super) struct Snapshots {
    walk: Walk,
    /// For giving records, reused.
    records: Vec<Record>,
}

impl Shard {
    /// Goes on with the snapshot that is being taken, or begins one that is due.
    pub(super) fn turn_snapshot(&mut self) {
        // A snapshot claims a position of the journal: what has not come there cannot be in it.
        if self.groups.has_records() {
            return;
        }
        let Some(store) = self.journal.store_mut() else { return };
        let guard = self.guard.as_ref().expect("pinned while a turn lasts");
        let Some(offsets) = self.views.table(guard).offsets.as_ref() else { return };
        let Some(partition) = store.snapshot_under_way().or_else(|| store.snapshot_due(self.now)) else { return };
        if store.snapshot_under_way().is_none() {
            let Some(leader_epoch) = offsets.leader_epochs.get(partition as usize) else { return };
            store.begin_snapshot(partition, *leader_epoch);
            self.snapshots.walk = self.groups.begin_walk();
        }
        if !store.snapshot_wants_records() {
            return;
        }
        let Snapshots { walk, records } = &mut self.snapshots;
        let goes_on = self.groups.walk(walk, |group_id| offsets.partition_of(group_id) == partition, records);
        store.snapshot_records(&Records(records));
        records.clear();
        if !goes_on {
            store.complete_snapshot();
        }
    }

    /// Whether the next turn has a piece of a snapshot to do.
    pub(super) fn has_snapshot_to_take(&self) -> bool {
        self.journal.store().is_some_and(Store::snapshot_wants_records)
    }
}

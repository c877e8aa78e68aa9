//! Member ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet.

use std::rc::Rc;

use crate::group::index::{self, Index, SCAN_MAX};
use crate::group::slab::Slab;
use crate::group::timers::TimerId;

/// The pending ids of one group.
#[derive(Debug, Default)]
pub(super) struct PendingMembers {
    slab: Slab<Pending>,
    by_id: Option<Index>,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) member_id: Rc<str>,
    /// Set right after it was added.
    pub(super) timer: Option<TimerId>,
}

impl PendingMembers {
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn find(&self, seed: u64, member_id: &str) -> Option<u32> {
        let is_it = |slot: u32| *self.slab[slot].member_id == *member_id;
        match &self.by_id {
            Some(index) => index.find(index::hash(seed, member_id.as_bytes()), is_it),
            None => self.slab.iter().map(|(slot, _)| slot).find(|slot| is_it(*slot)),
        }
    }

    pub(super) fn insert(&mut self, seed: u64, member_id: Rc<str>) -> u32 {
        let slot = self.slab.insert(Pending { member_id, timer: None });
        let hash_of = |slot: u32| index::hash(seed, self.slab[slot].member_id.as_bytes());
        if let Some(by_id) = &mut self.by_id {
            by_id.insert(hash_of(slot), slot);
        } else if self.slab.len() > SCAN_MAX {
            let mut by_id = Index::default();
            self.slab.iter().for_each(|(slot, _)| by_id.insert(hash_of(slot), slot));
            self.by_id = Some(by_id);
        }
        slot
    }

    pub(super) fn set_timer(&mut self, slot: u32, timer: TimerId) {
        self.slab[slot].timer = Some(timer);
    }

    /// Its timer is no longer in the wheel.
    pub(super) fn timer_has_fired(&mut self, slot: u32) {
        self.slab[slot].timer = None;
    }

    pub(super) fn remove(&mut self, seed: u64, slot: u32) -> Pending {
        let pending = self.slab.remove(slot);
        if let Some(by_id) = &mut self.by_id {
            by_id.remove(index::hash(seed, pending.member_id.as_bytes()), slot);
        }
        pending
    }

    pub(super) fn slots(&self) -> Vec<u32> {
        self.slab.iter().map(|(slot, _)| slot).collect()
    }
}

//! Member ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::clock::Now;
use crate::group::Groups;
use crate::group::core::{GroupKey, Turn};
use crate::group::index::{self, Index, SCAN_MAX};
use crate::group::memory::PENDING_MEMBER_BYTES;
use crate::group::slab::Slab;
use crate::group::timers::TimerId;
use crate::limits::{PENDING_MEMBERS_MAX, PENDING_MEMBERS_MAX_BYTES};

use super::ClassicGroup;

/// All ids of a core that were handed out, oldest first; some that are not pending any more are still in it.
#[derive(Debug)]
pub(in crate::group) struct HandedOutIds {
    queue: VecDeque<HandedOut>,
    next_serial: u64,
    /// Of those that are pending.
    pub(in crate::group) bytes: usize,
    /// [`PENDING_MEMBERS_MAX`], less in tests.
    pub(in crate::group) max: usize,
    /// [`PENDING_MEMBERS_MAX_BYTES`], less in tests.
    pub(in crate::group) max_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct HandedOut {
    group: GroupKey,
    slot: u32,
    serial: u64,
}

impl Default for HandedOutIds {
    fn default() -> Self {
        HandedOutIds {
            queue: VecDeque::new(),
            next_serial: 0,
            bytes: 0,
            max: PENDING_MEMBERS_MAX,
            max_bytes: PENDING_MEMBERS_MAX_BYTES,
        }
    }
}

impl HandedOutIds {
    /// One more; its serial number.
    fn push(&mut self, group: GroupKey, slot: u32, bytes: usize) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.bytes += bytes;
        self.queue.push_back(HandedOut { group, slot, serial });
        serial
    }
}

impl Groups {
    /// Makes room for one more id that is handed out. The oldest are forgotten, rather than the newest refused: a client asks
    /// and joins at once, so what is old was abandoned.
    pub(super) fn make_room_for_pending(&mut self, now: Now) {
        while self.core.pending_members >= self.core.handed_out.max
            || self.core.handed_out.bytes > self.core.handed_out.max_bytes
        {
            let Some(oldest) = self.core.handed_out.queue.pop_front() else { return };
            if self.is_pending(oldest) {
                self.core.memory.tell("member ids that were handed out", now);
                self.with(oldest.group, now, |group, turn| group.classic.forget_oldest(oldest.slot, turn));
            }
        }
        if self.core.handed_out.queue.len() > 2 * self.core.pending_members + 64 {
            let mut queue = std::mem::take(&mut self.core.handed_out.queue);
            queue.retain(|one| self.is_pending(*one));
            queue.shrink_to(2 * queue.len());
            self.core.handed_out.queue = queue;
        }
    }

    fn is_pending(&self, one: HandedOut) -> bool {
        self.at(one.group.slot).is_some_and(|(key, group)| {
            key == one.group && group.classic.pending.as_ref().is_some_and(|pending| pending.has(one.slot, one.serial))
        })
    }
}

impl ClassicGroup {
    pub(super) fn add_pending(&mut self, member_id: Rc<str>, turn: &mut Turn<'_>) -> u32 {
        turn.core.pending_members += 1;
        let bytes = member_id.len();
        let pending = self.pending.get_or_insert_default();
        let slot = pending.insert(turn.core.seed(), member_id);
        pending.slab[slot].serial = turn.core.handed_out.push(turn.key, slot, bytes);
        slot
    }

    pub(super) fn set_pending_timer(&mut self, slot: u32, timer: TimerId) {
        self.pending.as_mut().expect("it is pending").slab[slot].timer = Some(timer);
    }
}

/// The pending ids of one group.
#[derive(Debug, Default)]
pub(super) struct PendingMembers {
    slab: Slab<Pending>,
    by_id: Option<Index>,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) member_id: Rc<str>,
    serial: u64,
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

    fn insert(&mut self, seed: u64, member_id: Rc<str>) -> u32 {
        self.bytes += PENDING_MEMBER_BYTES + member_id.len();
        let slot = self.slab.insert(Pending { member_id, serial: 0, timer: None });
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

    fn has(&self, slot: u32, serial: u64) -> bool {
        self.slab.get(slot).is_some_and(|pending| pending.serial == serial)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its timer is no longer in the wheel.
    pub(super) fn timer_has_fired(&mut self, slot: u32) {
        self.slab[slot].timer = None;
    }

    pub(super) fn remove(&mut self, seed: u64, slot: u32) -> Pending {
        let pending = self.slab.remove(slot);
        self.bytes -= PENDING_MEMBER_BYTES + pending.member_id.len();
        if let Some(by_id) = &mut self.by_id {
            by_id.remove(index::hash(seed, pending.member_id.as_bytes()), slot);
        }
        pending
    }

    pub(super) fn slots(&self) -> Vec<u32> {
        self.slab.iter().map(|(slot, _)| slot).collect()
    }
}

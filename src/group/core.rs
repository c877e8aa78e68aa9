//! What the groups of a core share: settings, timers, names, the way out of answers and records.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::clock::Now;
use crate::errors::ErrorCode;

use super::classic::pending::HandedOutIds;
use super::memory::Memory;
use super::names::Names;
use super::outcome::{JoinAnswer, Queued};
use super::piecework::Piecework;
use super::settings::{GroupSettings, OffsetSettings};
use super::timers::{TimerId, Wheel};
use super::writes::Writes;
use super::{Ids, Ticket, index};

/// A hyphen and a UUID.
pub(super) const MEMBER_ID_SUFFIX_BYTES: usize = 37;

/// Everything but the groups themselves.
pub(super) struct Core {
    pub(super) settings: GroupSettings,
    pub(super) offset_settings: OffsetSettings,
    pub(super) timers: Wheel<TimerKey>,
    pub(super) names: Names,
    pub(super) writes: Writes,
    /// What the next turns go on with, a piece in each.
    pub(super) piecework: VecDeque<Piecework>,
    pub(super) outputs: VecDeque<Queued>,
    pub(super) memory: Memory,
    /// Member ids of all groups that were handed out and not used yet.
    pub(super) pending_members: usize,
    pub(super) handed_out: HandedOutIds,
    /// Members of all groups.
    pub(super) members: usize,
    /// Committed offsets of all groups.
    pub(super) committed_offsets: usize,
    /// For building profiles.
    pub(super) scratch: Vec<u8>,
    ids: Box<dyn Ids>,
    seed: u64,
}

/// A group of this core; a later group in the same place has another stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub(super) slot: u32,
    pub(super) stamp: u32,
}

/// What a timer is for. Cancelled with its group or member, so it needs no stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimerKey {
    pub(super) group: u32,
    pub(super) purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The join or the sync phase of the group ends.
    Phase,
    /// The session of a member ends.
    Session(u32),
    /// A member id that was handed out is forgotten.
    PendingMember(u32),
}

/// One input to one group: the core, the moment, and which group it is.
pub(super) struct Turn<'a> {
    pub(super) core: &'a mut Core,
    pub(super) now: Now,
    pub(super) key: GroupKey,
    pub(super) group_id: &'a Rc<str>,
}

impl Core {
    pub(super) fn new(
        settings: GroupSettings,
        offset_settings: OffsetSettings,
        mut ids: Box<dyn Ids>,
        now: Now,
    ) -> Core {
        let [seed, _] = halves(ids.next());
        Core {
            settings,
            offset_settings,
            timers: Wheel::new(now.monotonic_ms),
            names: Names::new(seed),
            writes: Writes::default(),
            piecework: VecDeque::new(),
            outputs: VecDeque::new(),
            memory: Memory::default(),
            pending_members: 0,
            handed_out: HandedOutIds::default(),
            members: 0,
            committed_offsets: 0,
            scratch: Vec::new(),
            ids,
            seed,
        }
    }

    /// Of all hashes of this core.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn hash(&self, name: &str) -> u32 {
        index::hash(self.seed, name.as_bytes())
    }

    /// `prefix-UUID`, as Kafka makes member ids: longer than the prefix by [`MEMBER_ID_SUFFIX_BYTES`].
    pub(super) fn new_member_id(&mut self, prefix: &str) -> Rc<str> {
        let [high, low] = halves(self.ids.next());
        let version_4 = high & !0xf000 | 0x4000;
        let variant_1 = low & !(0b11 << 62) | 0b10 << 62;
        Rc::from(format!(
            "{prefix}-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            version_4 >> 32,
            version_4 >> 16 & 0xffff,
            version_4 & 0xffff,
            variant_1 >> 48,
            variant_1 & 0xffff_ffff_ffff
        ))
    }
}

impl Turn<'_> {
    pub(super) fn answer_join(&mut self, ticket: Ticket, answer: JoinAnswer) {
        self.core.outputs.push_back(Queued::Join { ticket, answer: Box::new(answer) });
    }

    pub(super) fn refuse_sync(&mut self, ticket: Ticket, error: ErrorCode) {
        self.core.outputs.push_back(Queued::SyncRefused { ticket, error });
    }

    /// The moment this many milliseconds from now; now, if there are none.
    pub(super) fn after(&self, ms: i32) -> u64 {
        self.now.monotonic_ms + u64::try_from(ms).unwrap_or(0)
    }

    pub(super) fn arm(&mut self, deadline_ms: u64, purpose: Purpose) -> TimerId {
        self.core.timers.arm(deadline_ms, TimerKey { group: self.key.slot, purpose })
    }
}

fn halves(id: [u8; 16]) -> [u64; 2] {
    let id = u128::from_be_bytes(id);
    [(id >> 64) as u64, id as u64]
}

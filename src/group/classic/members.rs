//! The members of a group, found by member id and by instance id, with everything that is counted over them: parked requests,
//! those who owe a SyncGroup, votes. State changes only through methods that keep the counts.

use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::Ticket;
use crate::group::index::{self, Index, SCAN_MAX};
use crate::group::slab::Slab;

use super::member::{Member, Parked, Said};
use super::tally::Tally;

/// A member's place, the same as long as it is a member. A static member keeps it when its client comes back.
pub(super) type MemberSlot = u32;

#[derive(Debug)]
pub(super) struct Members {
    seed: u64,
    slab: Slab<Member>,
    by_id: Option<Box<Index>>,
    by_instance: Option<Box<Index>>,
    tally: Tally,
    static_members: u32,
    joining: u32,
    syncing: u32,
    owing: u32,
}

impl Members {
    pub(super) fn new(seed: u64) -> Members {
        Members {
            seed,
            slab: Slab::default(),
            by_id: None,
            by_instance: None,
            tally: Tally::default(),
            static_members: 0,
            joining: 0,
            syncing: 0,
            owing: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slab.len() == 0
    }

    /// Above all slots that are in use.
    pub(super) fn bound(&self) -> MemberSlot {
        self.slab.bound()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MemberSlot, &Member)> {
        self.slab.iter()
    }

    pub(super) fn get(&self, slot: MemberSlot) -> Option<&Member> {
        self.slab.get(slot)
    }

    /// For what is not counted: the assignment and the session.
    pub(super) fn get_mut(&mut self, slot: MemberSlot) -> Option<&mut Member> {
        self.slab.get_mut(slot)
    }

    pub(super) fn find(&self, member_id: &str) -> Option<MemberSlot> {
        let is_it = |slot: u32| self.slab[slot].said.profile.has_member_id(member_id);
        match &self.by_id {
            Some(index) => index.find(index::hash(self.seed, member_id.as_bytes()), is_it),
            None => self.slab.iter().map(|(slot, _)| slot).find(|slot| is_it(*slot)),
        }
    }

    pub(super) fn find_instance(&self, group_instance_id: &str) -> Option<MemberSlot> {
        if self.static_members == 0 {
            return None;
        }
        let is_it = |slot: u32| self.slab[slot].said.profile.has_group_instance_id(group_instance_id);
        match &self.by_instance {
            Some(index) => index.find(index::hash(self.seed, group_instance_id.as_bytes()), is_it),
            None => self.slab.iter().map(|(slot, _)| slot).find(|slot| is_it(*slot)),
        }
    }

    /// The member that a request speaks for. The instance id is looked at first, so a wrong one hides an unknown member id.
    pub(super) fn validate(&self, member_id: &str, group_instance_id: Option<&str>) -> Result<MemberSlot, ErrorCode> {
        if let Some(group_instance_id) = group_instance_id {
            let slot = self.find_instance(group_instance_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
            if !self.slab[slot].said.profile.has_member_id(member_id) {
                return Err(ErrorCode::FENCED_INSTANCE_ID);
            }
            return Ok(slot);
        }
        self.find(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    pub(super) fn insert(&mut self, said: Said) -> MemberSlot {
        self.tally.add(&said.protocols);
        let slot = self.slab.insert(Member::new(said));
        self.enter(slot);
        slot
    }

    /// Takes a member out; what it had parked is the caller's to answer.
    pub(super) fn remove(&mut self, slot: MemberSlot) -> Member {
        self.leave(slot);
        self.unpark(slot);
        self.set_owes_sync(slot, false);
        let member = self.slab.remove(slot);
        self.tally.remove(&member.said.protocols);
        if self.slab.len() == 0 {
            (self.by_id, self.by_instance) = (None, None);
        }
        member
    }

    /// Replaces what a member said of itself, and gives back what it had said.
    pub(super) fn say(&mut self, slot: MemberSlot, said: Said) -> Said {
        let has_other_id = self.slab[slot].said.profile.member_id_bytes() != said.profile.member_id_bytes();
        if has_other_id {
            self.leave(slot);
        }
        let before = std::mem::replace(&mut self.slab[slot].said, said);
        if has_other_id {
            self.enter(slot);
        }
        if !Rc::ptr_eq(&before.protocols, &self.slab[slot].said.protocols) {
            self.tally.add(&self.slab[slot].said.protocols);
            self.tally.remove(&before.protocols);
        }
        before
    }

    /// Parks a JoinGroup. One that the member had parked before is forgotten.
    pub(super) fn park_join(&mut self, slot: MemberSlot, ticket: Ticket) {
        self.unpark(slot);
        self.slab[slot].set_parked(Some(Parked::Join(ticket)));
        self.joining += 1;
    }

    /// Parks a SyncGroup. One that the member had parked before is forgotten.
    pub(super) fn park_sync(&mut self, slot: MemberSlot, ticket: Ticket) {
        self.unpark(slot);
        self.slab[slot].set_parked(Some(Parked::Sync(ticket)));
        self.syncing += 1;
    }

    /// Takes out what a member has parked.
    pub(super) fn unpark(&mut self, slot: MemberSlot) -> Option<Parked> {
        let parked = self.slab[slot].parked();
        match parked {
            None => return None,
            Some(Parked::Join(_)) => self.joining -= 1,
            Some(Parked::Sync(_)) => self.syncing -= 1,
        }
        self.slab[slot].set_parked(None);
        parked
    }

    pub(super) fn set_owes_sync(&mut self, slot: MemberSlot, owes_sync: bool) {
        let before = std::mem::replace(&mut self.slab[slot].owes_sync, owes_sync);
        self.owing = self.owing + u32::from(owes_sync) - u32::from(before);
    }

    /// How many members have a JoinGroup parked.
    pub(super) fn joining(&self) -> usize {
        self.joining as usize
    }

    /// How many members have a SyncGroup parked.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn syncing(&self) -> usize {
        self.syncing as usize
    }

    /// How many members have not synced this generation.
    pub(super) fn owing(&self) -> usize {
        self.owing as usize
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The largest rebalance time-out of the members; 0 if there are none.
    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        self.iter().map(|(_, member)| member.said.rebalance_timeout_ms).max().unwrap_or(0).max(0)
    }

    /// Counts everything anew and compares.
    #[cfg(any(debug_assertions, test))]
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let count = |is: fn(&Member) -> bool| self.iter().filter(|(_, member)| is(member)).count();
        let claims = [
            (count(Member::is_joining) == self.joining(), "parked JoinGroups"),
            (count(Member::is_syncing) == self.syncing(), "parked SyncGroups"),
            (count(|member| member.owes_sync) == self.owing(), "members that owe a SyncGroup"),
            (count(Member::is_static) == self.static_members as usize, "static members"),
            (self.tally.members() as usize == self.len(), "votes"),
            (self.by_id.as_ref().is_none_or(|index| index.len() == self.len()), "the index by member id"),
            (
                self.by_instance.as_ref().is_none_or(|index| index.len() == self.static_members as usize),
                "the index by instance id",
            ),
            (
                self.iter().all(|(slot, member)| {
                    self.find(member.said.profile.member_id()) == Some(slot)
                        && member.said.profile.group_instance_id().is_none_or(|id| self.find_instance(id) == Some(slot))
                }),
                "finding a member",
            ),
        ];
        claims.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(what))
    }

    fn enter(&mut self, slot: MemberSlot) {
        self.static_members += u32::from(self.slab[slot].is_static());
        if self.by_id.is_none() && self.slab.len() > SCAN_MAX {
            self.build_indexes(slot);
        }
        let profile = &self.slab[slot].said.profile;
        if let Some(by_id) = &mut self.by_id {
            by_id.insert(index::hash(self.seed, profile.member_id_bytes()), slot);
        }
        if let (Some(by_instance), true) = (&mut self.by_instance, profile.is_static()) {
            by_instance.insert(index::hash(self.seed, profile.group_instance_id_bytes()), slot);
        }
    }

    fn leave(&mut self, slot: MemberSlot) {
        let profile = &self.slab[slot].said.profile;
        self.static_members -= u32::from(profile.is_static());
        if let Some(by_id) = &mut self.by_id {
            by_id.remove(index::hash(self.seed, profile.member_id_bytes()), slot);
        }
        if let (Some(by_instance), true) = (&mut self.by_instance, profile.is_static()) {
            by_instance.remove(index::hash(self.seed, profile.group_instance_id_bytes()), slot);
        }
    }

    /// Indexes of all members but one.
    fn build_indexes(&mut self, but: MemberSlot) {
        let (mut by_id, mut by_instance) = (Index::default(), Index::default());
        for (slot, member) in self.slab.iter().filter(|(slot, _)| *slot != but) {
            let profile = &member.said.profile;
            by_id.insert(index::hash(self.seed, profile.member_id_bytes()), slot);
            if profile.is_static() {
                by_instance.insert(index::hash(self.seed, profile.group_instance_id_bytes()), slot);
            }
        }
        (self.by_id, self.by_instance) = (Some(Box::new(by_id)), Some(Box::new(by_instance)));
    }
}

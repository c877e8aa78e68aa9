//! The join phase: how it begins, when it is complete, and what it comes to.

use std::ops::Range;
use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::core::Turn;
use crate::group::names::ProtocolList;
use crate::group::outcome::{JoinedMember, Queued, Round, SharedBytes};
use crate::group::records::{GroupMetadata, MemberMetadata, Record};

use super::member::Parked;
use super::members::MemberSlot;
use super::{ClassicGroup, JoinPhase, State};

impl ClassicGroup {
    /// After anything that changes who is in the group: begins a join phase, or ends the one that is under way if it is
    /// complete.
    pub(super) fn rebalance(&mut self, turn: &mut Turn<'_>) {
        match self.state {
            State::PreparingRebalance(_) => self.complete_join_if_all_are_there(turn),
            State::Empty | State::CompletingRebalance | State::Stable => self.prepare_rebalance(turn),
        }
    }

    pub(super) fn prepare_rebalance(&mut self, turn: &mut Turn<'_>) {
        self.before_change(turn);
        if self.state == State::CompletingRebalance {
            self.refuse_parked_syncs(ErrorCode::REBALANCE_IN_PROGRESS, turn);
            self.is_assigning = false;
            self.kept_bytes = 0;
        }
        for slot in 0..self.members.bound() {
            if self.members.owing() == 0 {
                break;
            }
            if self.members.get(slot).is_some() {
                self.members.set_owes_sync(slot, false);
            }
        }
        self.cancel_phase_timer(turn);
        if self.state == State::Empty {
            let delay_ms = turn.core.settings.initial_rebalance_delay_ms.max(0);
            let remaining_ms = self.members.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
            let phase = JoinPhase::Initial { remaining_ms, has_newcomer: false };
            self.enter(State::PreparingRebalance(phase), turn);
            self.arm_phase_timer(delay_ms, turn);
            return;
        }
        self.enter(State::PreparingRebalance(JoinPhase::Rebalance), turn);
        if self.have_all_joined() {
            self.complete_join(turn);
        } else {
            self.arm_phase_timer(self.members.rebalance_timeout_ms(), turn);
        }
    }

    /// An initial rebalance is not cut short.
    pub(super) fn complete_join_if_all_are_there(&mut self, turn: &mut Turn<'_>) {
        if self.state == State::PreparingRebalance(JoinPhase::Rebalance) && self.have_all_joined() {
            self.complete_join(turn);
        }
    }

    /// An id that was handed out holds up the rebalance until it joins, leaves or is forgotten.
    pub(super) fn have_all_joined(&self) -> bool {
        self.members.joining() == self.members.len() && self.pending_members() == 0
    }

    /// Ends the join phase with those who are there. Static members stay, whether they are there or not.
    pub(super) fn complete_join(&mut self, turn: &mut Turn<'_>) {
        self.cancel_phase_timer(turn);
        self.remove_absent_dynamic_members(turn);
        if self.members.is_empty() {
            self.become_empty(turn);
            return;
        }
        if self.members.joining() == 0 {
            self.arm_phase_timer(self.members.rebalance_timeout_ms(), turn);
            return;
        }
        let leads = |slot: MemberSlot| self.members.get(slot).is_some_and(|member| member.is_joining());
        if !self.leader.is_some_and(leads) {
            self.leader = self.members.iter().find(|(_, member)| member.is_joining()).map(|(slot, _)| slot);
        }
        self.begin_generation(turn);
    }

    fn remove_absent_dynamic_members(&mut self, turn: &mut Turn<'_>) {
        for slot in 0..self.members.bound() {
            if self.members.joining() == self.members.len() {
                break;
            }
            if self.members.get(slot).is_some_and(|member| !member.is_joining() && !member.is_static()) {
                self.remove_member(slot, turn);
            }
        }
    }

    /// The last member has gone. The protocol type stays.
    fn become_empty(&mut self, turn: &mut Turn<'_>) {
        self.generation_id = self.generation_id.wrapping_add(1);
        self.was_of_consumers = self.is_of_consumers();
        self.enter(State::Empty, turn);
        self.round = None;
        (self.is_written, self.last_written) = (true, None);
        self.assigned_bytes = 0;
        let record = self.record(turn, |_| SharedBytes::default());
        turn.core.writes.push(record);
    }

    fn begin_generation(&mut self, turn: &mut Turn<'_>) {
        let protocol_name = self.members.tally().choose().expect("whoever joined shares a protocol with all others");
        self.generation_id = self.generation_id.wrapping_add(1);
        self.was_of_consumers = self.is_of_consumers();
        let round = Rc::new(self.round_of(protocol_name));
        self.round = Some(round.clone());
        self.enter(State::CompletingRebalance, turn);
        for slot in 0..self.members.bound() {
            let Some(member) = self.members.get_mut(slot) else { continue };
            member.is_new = false;
            let profile = member.said.profile.clone();
            if let Some(Parked::Join(ticket)) = self.members.unpark(slot) {
                turn.core.outputs.push_back(Queued::Joined { ticket, round: round.clone(), member: profile });
            }
            self.members.set_owes_sync(slot, true);
            self.renew_session(slot, turn);
        }
        self.arm_phase_timer(self.members.rebalance_timeout_ms(), turn);
    }

    /// The members as they are, under a protocol that all of them propose.
    pub(super) fn round_of(&self, protocol_name: Rc<str>) -> Round {
        let mut places = Places::new(&protocol_name);
        let members = self.members.iter().map(|(_, member)| {
            let place = places.of(&member.said.protocols);
            JoinedMember::new(member.said.profile.clone(), member.said.profile.metadata_range(place))
        });
        let members = members.collect();
        Round {
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone().expect("a member has set it"),
            protocol_name,
            leader: self.leader_profile().clone(),
            members,
        }
    }

    /// The group as it is written.
    pub(super) fn record(&self, turn: &Turn<'_>, assignment: impl Fn(MemberSlot) -> SharedBytes) -> Record {
        let group = Rc::new(self.metadata(turn.now.unix_ms, assignment));
        Record::GroupMetadata { group_id: turn.group_id.clone(), group }
    }

    pub(super) fn metadata(
        &self,
        current_state_timestamp_ms: i64,
        assignment: impl Fn(MemberSlot) -> SharedBytes,
    ) -> GroupMetadata {
        let members = self.describe_members(0..self.members.bound(), assignment).collect();
        self.metadata_of(members, current_state_timestamp_ms)
    }

    /// The members in these slots as they are written.
    pub(super) fn describe_members(
        &self,
        slots: Range<MemberSlot>,
        assignment: impl Fn(MemberSlot) -> SharedBytes,
    ) -> impl Iterator<Item = MemberMetadata> {
        let mut places = self.round.as_ref().map(|round| Places::new(&round.protocol_name));
        slots.filter_map(move |slot| {
            let said = &self.members.get(slot)?.said;
            let place = places.as_mut().map_or(0, |places| places.of(&said.protocols));
            let (rebalance_timeout_ms, session_timeout_ms) = (said.rebalance_timeout_ms, said.session_timeout_ms);
            let profile = said.profile.clone();
            Some(MemberMetadata::of(profile, place, rebalance_timeout_ms, session_timeout_ms, assignment(slot)))
        })
    }

    /// The group as it is written with these members.
    pub(super) fn metadata_of(&self, members: Vec<MemberMetadata>, current_state_timestamp_ms: i64) -> GroupMetadata {
        let protocol = self.round.as_ref().map(|round| round.protocol_name.clone());
        GroupMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_else(|| Rc::from("")),
            generation: self.generation_id,
            protocol,
            leader: self.leader.map(|_| self.leader_profile().into()),
            current_state_timestamp_ms,
            members,
        }
    }
}

/// Where a protocol stands in the members' lists; mostly they have the same list.
struct Places<'a> {
    protocol_name: &'a str,
    last: Option<(*const ProtocolList, usize)>,
}

impl<'a> Places<'a> {
    fn new(protocol_name: &'a str) -> Places<'a> {
        Places { protocol_name, last: None }
    }

    fn of(&mut self, list: &Rc<ProtocolList>) -> usize {
        match self.last {
            Some((last, place)) if last == Rc::as_ptr(list) => place,
            _ => {
                let place = list.place(self.protocol_name).expect("all members propose the protocol");
                self.last = Some((Rc::as_ptr(list), place));
                place
            }
        }
    }
}

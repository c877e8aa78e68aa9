//! What time brings: sessions end, handed-out ids are forgotten, join and sync phases are over.

use crate::group::core::{Purpose, Turn};

use super::members::MemberSlot;
use super::{ClassicGroup, JoinPhase, State};

impl ClassicGroup {
    pub(in crate::group) fn timer_fired(&mut self, purpose: Purpose, turn: &mut Turn<'_>) {
        match purpose {
            Purpose::Session(slot) => self.session_timer_fired(slot, turn),
            Purpose::PendingMember(slot) => {
                self.pending_timer_fired(slot, turn);
            }
            Purpose::Phase => {
                self.phase_timer = None;
                match self.state {
                    State::PreparingRebalance(phase) => self.join_timer_fired(phase, turn),
                    State::CompletingRebalance | State::Stable => self.expire_sync_phase(turn),
                    State::Empty => {}
                }
            }
        }
    }

    fn session_timer_fired(&mut self, slot: MemberSlot, turn: &mut Turn<'_>) {
        let member = self.members.get_mut(slot).expect("its timer goes with it");
        member.timer = None;
        if member.deadline_ms > turn.now.monotonic_ms {
            member.timer = Some(turn.arm(member.deadline_ms, Purpose::Session(slot)));
            return;
        }
        // A parked request stands in for heartbeats, but not that of a newcomer, whose time is five minutes.
        if member.parked().is_some() && !member.is_new {
            return;
        }
        self.remove_member(slot, turn);
        self.go_on_without(turn);
    }

    fn pending_timer_fired(&mut self, slot: u32, turn: &mut Turn<'_>) {
        if let Some(pending) = &mut self.pending {
            pending.timer_has_fired(slot);
        }
        self.forget_oldest(slot, turn);
    }

    /// Forgets an id that was handed out and has not come back.
    pub(super) fn forget_oldest(&mut self, slot: u32, turn: &mut Turn<'_>) {
        self.forget_pending(slot, turn);
        if matches!(self.state, State::PreparingRebalance(_)) {
            self.go_on_without(turn);
        }
    }

    /// Somebody was too late. Here even an initial rebalance ends once nobody is missing.
    fn go_on_without(&mut self, turn: &mut Turn<'_>) {
        match self.state {
            State::PreparingRebalance(_) => {
                if self.have_all_joined() {
                    self.complete_join(turn);
                }
            }
            State::CompletingRebalance | State::Stable => self.prepare_rebalance(turn),
            State::Empty => {}
        }
    }

    fn join_timer_fired(&mut self, phase: JoinPhase, turn: &mut Turn<'_>) {
        match phase {
            JoinPhase::Initial { remaining_ms, has_newcomer: true } if remaining_ms > 0 => {
                let extension_ms = turn.core.settings.initial_rebalance_delay_ms.min(remaining_ms);
                let remaining_ms = remaining_ms - extension_ms;
                self.state = State::PreparingRebalance(JoinPhase::Initial { remaining_ms, has_newcomer: false });
                self.arm_phase_timer(extension_ms, turn);
            }
            JoinPhase::Initial { .. } | JoinPhase::Rebalance => self.complete_join(turn),
        }
    }

    /// Whoever owes a SyncGroup is removed, static or not, and heartbeats do not save it.
    fn expire_sync_phase(&mut self, turn: &mut Turn<'_>) {
        if self.members.owing() == 0 {
            return;
        }
        for slot in 0..self.members.bound() {
            if self.members.get(slot).is_some_and(|member| member.owes_sync) {
                self.remove_member(slot, turn);
            }
        }
        self.prepare_rebalance(turn);
    }
}

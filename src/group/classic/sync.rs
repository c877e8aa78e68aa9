//! SyncGroup: the leader hands in everybody's assignment, everybody gets its own.

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::core::Turn;
use crate::group::outcome::{SharedBytes, SyncAnswer, synced};
use crate::group::piecework::KeptAssignments;
use crate::group::{Groups, Ticket};

use super::member::Parked;
use super::members::MemberSlot;
use super::{ClassicGroup, State};

/// A SyncGroup.
#[derive(Clone)]
pub struct SyncRequest<'a, A> {
    /// The group.
    pub group_id: &'a str,
    /// The generation that the member joined.
    pub generation_id: i32,
    /// The member.
    pub member_id: &'a str,
    /// Of a static member (version 3 and above).
    pub group_instance_id: Option<&'a str>,
    /// `None`: not sent (before version 5).
    pub protocol_type: Option<&'a str>,
    /// `None`: not sent (before version 5).
    pub protocol_name: Option<&'a str>,
    /// Member ids and their assignments; the leader's alone counts.
    pub assignments: A,
    /// Copies the assignments: those for a large group are not taken at once. [`CopiedAssignments::of`] can do it.
    ///
    /// [`CopiedAssignments::of`]: crate::group::CopiedAssignments::of
    pub keep: &'a dyn Fn() -> Box<dyn KeptAssignments>,
}

impl Groups {
    /// SyncGroup. `None`: the request is parked, its answer comes out of [`Groups::poll_output`].
    pub fn sync<'a, A, N>(&mut self, request: &SyncRequest<'a, A>, ticket: Ticket, now: Now) -> Option<SyncAnswer>
    where
        A: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        if request.group_id.is_empty() {
            return Some(SyncAnswer::refused(ErrorCode::INVALID_GROUP_ID));
        }
        let Some(key) = self.find(request.group_id) else {
            return Some(SyncAnswer::refused(ErrorCode::UNKNOWN_MEMBER_ID));
        };
        self.with(key, now, |group, turn| match group.classic.check_sync(request) {
            Err(error) => Some(SyncAnswer::refused(error)),
            Ok(slot) => group.classic.sync(slot, request, ticket, turn),
        })
    }
}

impl ClassicGroup {
    fn check_sync<A>(&self, request: &SyncRequest<'_, A>) -> Result<MemberSlot, ErrorCode> {
        let slot = self.members.validate(request.member_id, request.group_instance_id)?;
        if request.generation_id != self.generation_id {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let protocol_name = self.round.as_ref().map(|round| &*round.protocol_name);
        let differs = |given: Option<&str>, known: Option<&str>| given.is_some() && known.is_some() && given != known;
        if differs(request.protocol_type, self.protocol_type.as_deref())
            || differs(request.protocol_name, protocol_name)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.state {
            State::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            State::PreparingRebalance(_) => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            State::CompletingRebalance | State::Stable => Ok(slot),
        }
    }

    fn sync<'a, A, N>(
        &mut self,
        slot: MemberSlot,
        request: &SyncRequest<'a, A>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) -> Option<SyncAnswer>
    where
        A: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let mut handed_in = None;
        if self.state != State::Stable && self.leader == Some(slot) && !self.is_assigning {
            match self.hand_in(request, turn) {
                Ok(in_hand) => handed_in = Some(in_hand),
                Err(error) => return Some(SyncAnswer::refused(error)),
            }
        }
        self.members.set_owes_sync(slot, false);
        if self.state == State::Stable {
            self.end_sync_phase_if_nobody_owes(turn);
            let round = self.round.as_ref().expect("a Stable group has completed a join phase");
            return Some(synced(round, self.assignment(slot)));
        }
        self.members.park_sync(slot, ticket);
        // A leader that asks again while its assignments are being written waits for those.
        if let Some(handed_in) = handed_in {
            self.assign(handed_in, turn);
        }
        None
    }

    pub(super) fn end_sync_phase_if_nobody_owes(&mut self, turn: &mut Turn<'_>) {
        if self.members.owing() == 0 {
            self.cancel_phase_timer(turn);
        }
    }

    pub(super) fn refuse_parked_sync(&mut self, slot: MemberSlot, error: ErrorCode, turn: &mut Turn<'_>) {
        if !self.members.get(slot).is_some_and(|member| member.is_syncing()) {
            return;
        }
        if let Some(Parked::Sync(ticket)) = self.members.unpark(slot) {
            turn.refuse_sync(ticket, error);
            self.renew_session(slot, turn);
        }
    }

    /// Whoever waits for an assignment is told to start over, and nobody has one any more.
    pub(super) fn refuse_parked_syncs(&mut self, error: ErrorCode, turn: &mut Turn<'_>) {
        self.assigned_bytes = 0;
        for slot in 0..self.members.bound() {
            self.refuse_parked_sync(slot, error, turn);
            if let Some(member) = self.members.get_mut(slot) {
                member.assignment = SharedBytes::default();
            }
        }
    }
}

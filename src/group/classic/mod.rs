//! The classic group protocol: who is in a group, which generation it is in, and whose turn it is to ask what.
//!
//! A transition per file: [`join`], [`sync`] with [`assigning`], [`heartbeat`], [`leave`], [`static_member`] are what clients ask for, [`timers`]
//! what time brings, [`rebalance`] what they all lead to, [`written`] what follows once a record is on disk,
//! [`last_written`] what a restart would find. Counts over the
//! members live in [`members`], votes in [`tally`].

mod assigning;
mod commit;
pub(in crate::group) mod describe;
mod heartbeat;
pub(in crate::group) mod join;
mod last_written;
pub(in crate::group) mod leave;
mod load;
pub(in crate::group) mod member;
mod members;
pub(in crate::group) mod pending;
mod rebalance;
mod static_member;
pub(in crate::group) mod subscribed;
pub(in crate::group) mod sync;
mod tally;
mod timers;
mod written;

use std::rc::Rc;

use crate::errors::ErrorCode;

use super::core::{Core, Purpose, Turn};
use super::outcome::{JoinAnswer, MemberId, Round};
use super::piecework::Assigned;
use super::records::GroupMetadata;
use super::timers::TimerId;

use member::{Parked, Said};
use members::{MemberSlot, Members};
use pending::PendingMembers;

/// A classic group.
#[derive(Debug)]
pub(in crate::group) struct ClassicGroup {
    state: State,
    /// When it came into its state, milliseconds since 1970; -1: not known.
    state_since_ms: i64,
    generation_id: i32,
    /// None until a member sets it.
    protocol_type: Option<Rc<str>>,
    /// The last generation was one of consumers, with members or without.
    was_of_consumers: bool,
    /// What the last completed join phase came to; none in an Empty group.
    round: Option<Rc<Round>>,
    /// None in an Empty group, and while a rebalance is prepared that the former leader does not live to see.
    leader: Option<MemberSlot>,
    /// The leader's assignments of this generation are on their way to the journal.
    is_assigning: bool,
    /// It has a record of its own; without one it is there for offsets only.
    pub(in crate::group) is_written: bool,
    /// Neither in Stable nor in Empty: see [`last_written`].
    last_written: Option<Rc<GroupMetadata>>,
    /// Of the join phase or of the sync phase.
    phase_timer: Option<TimerId>,
    members: Members,
    pending: Option<Box<PendingMembers>>,
    /// Of the assignments that the members have.
    assigned_bytes: u32,
    /// Of the request that those are taken from.
    kept_bytes: u32,
    /// Assignments that not everybody in a Stable group has yet.
    handing_out: Option<Box<Assigned>>,
}

/// Kafka's states but for Dead: a group that goes is gone at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    PreparingRebalance(JoinPhase),
    CompletingRebalance,
    Stable,
}

/// How a join phase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JoinPhase {
    /// The group was Empty: it is waited for more members, however complete the group is.
    Initial { remaining_ms: i32, has_newcomer: bool },
    /// As soon as everybody is there.
    Rebalance,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance(_) => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }
}

impl ClassicGroup {
    /// An Empty group of generation 0.
    pub(in crate::group) fn new(core: &Core, unix_ms: i64) -> ClassicGroup {
        ClassicGroup {
            state: State::Empty,
            state_since_ms: unix_ms,
            generation_id: 0,
            protocol_type: None,
            was_of_consumers: false,
            round: None,
            leader: None,
            is_assigning: false,
            is_written: false,
            last_written: None,
            phase_timer: None,
            members: Members::new(core.seed()),
            pending: None,
            assigned_bytes: 0,
            kept_bytes: 0,
            handing_out: None,
        }
    }

    /// The memory that it takes, roughly.
    pub(in crate::group) fn bytes(&self) -> usize {
        let pending_bytes = self.pending.as_ref().map_or(0, |pending| pending.bytes());
        self.members.bytes() + pending_bytes + self.assigned_bytes as usize + self.kept_bytes as usize
    }

    pub(in crate::group) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// How many members there are.
    pub(in crate::group) fn member_count(&self) -> usize {
        self.members.len()
    }

    /// Whether the members are consumers, whose metadata says what they subscribe to.
    pub(in crate::group) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    fn enter(&mut self, state: State, turn: &Turn<'_>) {
        self.state = state;
        self.state_since_ms = turn.now.unix_ms;
    }

    /// Removes a member and whatever it waits for. Its parked requests are told that it is unknown; Kafka leaves a parked
    /// SyncGroup without an answer here.
    fn remove_member(&mut self, slot: MemberSlot, turn: &mut Turn<'_>) {
        self.before_change(turn);
        match self.members.unpark(slot) {
            Some(Parked::Join(ticket)) => {
                turn.answer_join(ticket, JoinAnswer::refused(ErrorCode::UNKNOWN_MEMBER_ID, MemberId::default()));
            }
            Some(Parked::Sync(ticket)) => turn.refuse_sync(ticket, ErrorCode::UNKNOWN_MEMBER_ID),
            None => {}
        }
        let member = self.members.remove(slot);
        turn.core.members -= 1;
        if let Some(timer) = member.timer {
            turn.core.timers.cancel(timer);
        }
        if self.leader == Some(slot) {
            // The next join phase finds another.
            self.leader = None;
        }
    }

    /// Lets a member's session last this much longer, from now on.
    fn extend_session(&mut self, slot: MemberSlot, timeout_ms: i32, turn: &mut Turn<'_>) {
        let deadline_ms = turn.after(timeout_ms);
        let member = self.members.get_mut(slot).expect("it is a member");
        let is_earlier = deadline_ms < member.deadline_ms;
        member.deadline_ms = deadline_ms;
        match member.timer {
            None => member.timer = Some(turn.arm(deadline_ms, Purpose::Session(slot))),
            // The timer fires before a later deadline and is armed again then.
            Some(timer) if is_earlier => turn.core.timers.move_to(timer, deadline_ms),
            Some(_) => {}
        }
    }

    /// The same, by the member's own session time-out.
    fn renew_session(&mut self, slot: MemberSlot, turn: &mut Turn<'_>) {
        let timeout_ms = self.members.get(slot).expect("it is a member").said.session_timeout_ms;
        self.extend_session(slot, timeout_ms, turn);
    }

    /// How many member ids were handed out and have not joined yet.
    pub(in crate::group) fn pending_members(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.len())
    }

    fn find_pending(&self, member_id: &str, core: &Core) -> Option<u32> {
        self.pending.as_ref().and_then(|pending| pending.find(core.seed(), member_id))
    }

    fn forget_pending(&mut self, slot: u32, turn: &mut Turn<'_>) {
        let pending = self.pending.as_mut().expect("there is a pending member");
        let forgotten = pending.remove(turn.core.seed(), slot);
        if pending.len() == 0 {
            self.pending = None;
        }
        turn.core.pending_members -= 1;
        turn.core.handed_out.bytes -= forgotten.member_id.len();
        if let Some(timer) = forgotten.timer {
            turn.core.timers.cancel(timer);
        }
    }

    /// Takes down everything that the group has in the core, before it goes.
    pub(in crate::group) fn dismantle(&mut self, turn: &mut Turn<'_>, answer: ErrorCode) {
        for slot in 0..self.members.bound() {
            let Some(member) = self.members.get_mut(slot) else { continue };
            if let Some(timer) = member.timer.take() {
                turn.core.timers.cancel(timer);
            }
            let member_id = MemberId::from(&member.said.profile);
            match self.members.unpark(slot) {
                Some(Parked::Join(ticket)) => turn.answer_join(ticket, JoinAnswer::refused(answer, member_id)),
                Some(Parked::Sync(ticket)) => turn.refuse_sync(ticket, answer),
                None => {}
            }
        }
        for slot in self.pending.as_ref().map_or(Vec::new(), |pending| pending.slots()) {
            self.forget_pending(slot, turn);
        }
        self.cancel_phase_timer(turn);
    }

    fn arm_phase_timer(&mut self, after_ms: i32, turn: &mut Turn<'_>) {
        self.cancel_phase_timer(turn);
        self.phase_timer = Some(turn.arm(turn.after(after_ms), Purpose::Phase));
    }

    fn cancel_phase_timer(&mut self, turn: &mut Turn<'_>) {
        if let Some(timer) = self.phase_timer.take() {
            turn.core.timers.cancel(timer);
        }
    }

    /// What must hold between any two inputs.
    #[cfg(any(debug_assertions, test))]
    pub(in crate::group) fn check(&self) -> Result<(), &'static str> {
        let is_preparing = matches!(self.state, State::PreparingRebalance(_));
        let claims = [
            (is_preparing || self.leader.is_some() != self.members.is_empty(), "whoever has members has a leader"),
            (self.leader.is_none_or(|slot| self.members.get(slot).is_some()), "the leader is a member"),
            (!self.is_empty() || self.members.is_empty(), "an Empty group has no members"),
            (!self.is_empty() || self.phase_timer.is_none(), "an Empty group has no phase"),
            (!is_preparing || self.phase_timer.is_some(), "a join phase ends some time"),
            (self.members.joining() == 0 || is_preparing, "JoinGroups are parked in PreparingRebalance only"),
            (
                self.members.syncing() == 0 || self.state == State::CompletingRebalance || self.handing_out.is_some(),
                "SyncGroups are parked in CompletingRebalance only, or until they are handed what was written",
            ),
            (self.handing_out.is_none() || self.state == State::Stable, "assignments are handed out in Stable only"),
            (
                self.state != State::CompletingRebalance || self.is_assigning || self.phase_timer.is_some(),
                "a sync phase ends some time",
            ),
            (
                !self.is_assigning || self.state == State::CompletingRebalance,
                "assignments are written in CompletingRebalance only",
            ),
            (
                !matches!(self.state, State::CompletingRebalance | State::Stable)
                    || self.round.as_ref().is_some_and(|round| round.generation_id == self.generation_id),
                "a completed join phase of this generation",
            ),
            (
                self.last_written.is_none() || !matches!(self.state, State::Empty | State::Stable),
                "a group is what was written of it in Empty and in Stable",
            ),
            (
                is_preparing || self.members.iter().all(|(_, member)| !member.is_new),
                "newcomers are in PreparingRebalance only",
            ),
            (
                self.members.iter().all(|(_, member)| member.timer.is_some() || member.parked().is_some()),
                "every member has a session or a parked request",
            ),
        ];
        claims.iter().find(|(holds, _)| !holds).map_or(self.members.check(), |(_, what)| Err(what))
    }

    /// For the checks of debug builds: all of it is looked at in small groups, now and then in large ones.
    #[cfg(any(debug_assertions, test))]
    pub(in crate::group) fn is_checked_now(&self, random: u64) -> bool {
        self.members.len() <= 32 || random.is_multiple_of(256)
    }
}

/// A [`Said`] of a client's request.
struct Newcomer<'a> {
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
    client_id: &'a str,
    client_host: &'a str,
}

impl Newcomer<'_> {
    fn says<'a, P, N>(&self, request: &join::JoinRequest<'a, P>, core: &mut Core) -> Said
    where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        Said {
            profile: super::profile::Profile::new(
                self.member_id,
                self.group_instance_id,
                self.client_id,
                self.client_host,
                request.protocols.clone().map(|(_, metadata)| metadata),
                &mut core.scratch,
            ),
            protocols: core.names.protocol_list(request.protocols.clone().map(|(name, _)| name)),
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
        }
    }
}

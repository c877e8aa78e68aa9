//! JoinGroup: who may join, under which id, and whether the group has to rebalance for it.

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::core::{MEMBER_ID_SUFFIX_BYTES, Purpose, Turn};
use crate::group::memory::MEMBER_BYTES;
use crate::group::names::Names;
use crate::group::outcome::{JoinAnswer, MemberId, joined};
use crate::group::profile::Profile;
use crate::group::{Groups, Ticket};
use crate::limits;

use super::members::MemberSlot;
use super::{ClassicGroup, JoinPhase, Newcomer, State};

/// How long the first JoinGroup of a new member may wait (fixed in Kafka, too): until it is answered the client cannot
/// heartbeat.
const NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 300_000;

/// A JoinGroup.
#[derive(Clone, Debug)]
pub struct JoinRequest<'a, P> {
    /// The group.
    pub group_id: &'a str,
    /// Empty: a new member.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member (version 5 and above).
    pub group_instance_id: Option<&'a str>,
    /// Of the request's header; empty if there is none.
    pub client_id: &'a str,
    /// `/127.0.0.1`.
    pub client_host: &'a str,
    /// In milliseconds.
    pub session_timeout_ms: i32,
    /// In milliseconds; version 0 has none, and its session time-out stands in.
    pub rebalance_timeout_ms: i32,
    /// For example `consumer`.
    pub protocol_type: &'a str,
    /// Names and metadata, the client's favourite first.
    pub protocols: P,
    /// Version 4 and above: a new dynamic member first gets an id and comes again with it (KIP-394).
    pub requires_known_member_id: bool,
    /// Version 9 and above: a leader can be told to skip the assignment (KIP-814).
    pub knows_skip_assignment: bool,
}

impl<'a, P, N> JoinRequest<'a, P>
where
    P: Iterator<Item = (N, &'a [u8])> + Clone,
    N: AsRef<str>,
{
    /// What a member takes that says this, at least.
    fn bytes(&self) -> usize {
        let protocols = self.protocols.clone().map(|(name, metadata)| name.as_ref().len() + metadata.len());
        let ids = self.group_instance_id.map_or(self.client_id, |id| id).len() + self.client_id.len();
        MEMBER_BYTES + ids + protocols.sum::<usize>()
    }
}

impl Groups {
    /// The checks that come before the owner of the group is looked for: INVALID_GROUP_ID or INVALID_SESSION_TIMEOUT. The
    /// answer echoes the member id.
    pub fn check_join(&self, group_id: &str, session_timeout_ms: i32) -> ErrorCode {
        let settings = &self.core.settings;
        if group_id.is_empty() || group_id.len() > limits::NAME_MAX_BYTES {
            return ErrorCode::INVALID_GROUP_ID;
        }
        if !(settings.min_session_timeout_ms..=settings.max_session_timeout_ms).contains(&session_timeout_ms) {
            return ErrorCode::INVALID_SESSION_TIMEOUT;
        }
        ErrorCode::NONE
    }

    /// JoinGroup. `None`: the request is parked, its answer comes out of [`Groups::poll_output`].
    pub fn join<'a, P, N>(&mut self, request: &JoinRequest<'a, P>, ticket: Ticket, now: Now) -> Option<JoinAnswer>
    where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let error = self.check_join(request.group_id, request.session_timeout_ms);
        if !error.is_none() {
            return refuse(error, request.member_id);
        }
        if !is_within_limits(request) {
            return refuse(ErrorCode::INVALID_REQUEST, request.member_id);
        }
        if request.member_id.is_empty() && request.requires_known_member_id {
            self.make_room_for_pending(now);
        }
        let key = match self.find(request.group_id) {
            Some(key) => key,
            None if !request.member_id.is_empty() => return refuse(ErrorCode::UNKNOWN_MEMBER_ID, request.member_id),
            None => match self.create_written(request.group_id, request.bytes(), now) {
                Ok(key) => key,
                Err(error) => return refuse(error, ""),
            },
        };
        self.with(key, now, |group, turn| group.classic.join(request, ticket, turn))
    }
}

impl ClassicGroup {
    fn join<'a, P, N>(
        &mut self,
        request: &JoinRequest<'a, P>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) -> Option<JoinAnswer>
    where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        if !self.has_room_for(request.member_id, turn) {
            self.expel(request.member_id, turn);
            return refuse(ErrorCode::GROUP_MAX_SIZE_REACHED, "");
        }
        if !self.supports(request, &turn.core.names) {
            return refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL, request.member_id);
        }
        let by_instance = || request.group_instance_id.and_then(|instance| self.members.find_instance(instance));
        let known = self.members.find(request.member_id).or_else(by_instance).and_then(|slot| self.members.get(slot));
        let growth = request.bytes().saturating_sub(known.map_or(0, |member| member.said.bytes()));
        if !turn.core.memory.has_room(growth) {
            return refuse(turn.core.memory.refuse("memory", turn.now), request.member_id);
        }
        if request.member_id.is_empty() {
            self.join_as_new(request, ticket, turn)
        } else {
            self.join_as_known(request, ticket, turn)
        }
    }

    fn join_as_new<'a, P, N>(
        &mut self,
        request: &JoinRequest<'a, P>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) -> Option<JoinAnswer>
    where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let Some(group_instance_id) = request.group_instance_id else {
            if request.requires_known_member_id {
                return self.hand_out_member_id(request, turn);
            }
            let member_id = turn.core.new_member_id(request.client_id);
            self.add_member(&member_id, request, ticket, turn);
            return None;
        };
        let member_id = turn.core.new_member_id(group_instance_id);
        match self.members.find_instance(group_instance_id) {
            Some(slot) => self.replace_static_member(slot, &member_id, request, ticket, turn),
            None => self.add_member(&member_id, request, ticket, turn),
        }
        None
    }

    fn join_as_known<'a, P, N>(
        &mut self,
        request: &JoinRequest<'a, P>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) -> Option<JoinAnswer>
    where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        if let Some(pending) = self.find_pending(request.member_id, turn.core) {
            if request.group_instance_id.is_some() {
                // An invariant of Kafka's breaks here, and it says so.
                return refuse(ErrorCode::UNKNOWN_SERVER_ERROR, "");
            }
            self.forget_pending(pending, turn);
            self.add_member(request.member_id, request, ticket, turn);
            return None;
        }
        let slot = match self.members.validate(request.member_id, request.group_instance_id) {
            Ok(slot) => slot,
            Err(error) => return refuse(error, request.member_id),
        };
        let member = self.members.get(slot).expect("it is a member");
        let is_unchanged = member.proposes(request.protocols.clone());
        let is_answered_at_once = match self.state {
            State::CompletingRebalance => is_unchanged,
            State::Stable => is_unchanged && self.leader != Some(slot),
            State::Empty | State::PreparingRebalance(_) => false,
        };
        if is_answered_at_once {
            return Some(self.answer_again(slot));
        }
        self.rejoin(slot, is_unchanged, request, ticket, turn);
        None
    }

    /// The answer of the last join phase, for a member that lost it.
    pub(super) fn answer_again(&self, slot: MemberSlot) -> JoinAnswer {
        let round = self.round.as_ref().expect("a join phase was completed");
        let member = &self.members.get(slot).expect("it is a member").said.profile;
        let mut answer = joined(round, member);
        // A static leader may have come back under another id since. In a rebalance another may lead already.
        if !matches!(self.state, State::PreparingRebalance(_)) {
            answer.leader = MemberId::from(self.leader_profile());
        }
        answer
    }

    pub(super) fn leader_profile(&self) -> &Profile {
        let leader = self.leader.expect("a group with members has a leader");
        &self.members.get(leader).expect("the leader is a member").said.profile
    }

    fn rejoin<'a, P, N>(
        &mut self,
        slot: MemberSlot,
        is_unchanged: bool,
        request: &JoinRequest<'a, P>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let mut said = self.members.get(slot).expect("it is a member").said.clone();
        if !is_unchanged {
            let newcomer = Newcomer {
                member_id: said.profile.member_id(),
                group_instance_id: said.profile.group_instance_id(),
                client_id: said.profile.client_id(),
                client_host: said.profile.client_host(),
            };
            said = newcomer.says(request, turn.core);
        }
        said.session_timeout_ms = request.session_timeout_ms;
        said.rebalance_timeout_ms = request.rebalance_timeout_ms;
        self.before_change(turn);
        self.members.say(slot, said);
        self.wait_for_join(slot, ticket, turn);
    }

    /// Parks a JoinGroup and lets the group rebalance, or end its join phase if this was the last one.
    pub(super) fn wait_for_join(&mut self, slot: MemberSlot, ticket: Ticket, turn: &mut Turn<'_>) {
        self.refuse_parked_sync(slot, ErrorCode::REBALANCE_IN_PROGRESS, turn);
        self.members.park_join(slot, ticket);
        self.rebalance(turn);
    }

    fn add_member<'a, P, N>(
        &mut self,
        member_id: &str,
        request: &JoinRequest<'a, P>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let JoinRequest { group_instance_id, client_id, client_host, .. } = *request;
        let said = Newcomer { member_id, group_instance_id, client_id, client_host }.says(request, turn.core);
        self.before_change(turn);
        // Kafka's group has no leader only while it has no members: one of the older ones follows a leader that went.
        let leader = self.leader.or_else(|| self.members.iter().next().map(|(slot, _)| slot));
        if self.members.is_empty() {
            self.protocol_type = Some(turn.core.names.text(request.protocol_type));
        }
        let slot = self.members.insert(said);
        turn.core.members += 1;
        self.members.get_mut(slot).expect("it was added").is_new = true;
        self.leader = leader.or(Some(slot));
        if let State::PreparingRebalance(JoinPhase::Initial { has_newcomer, .. }) = &mut self.state {
            *has_newcomer = true;
        }
        self.extend_session(slot, NEW_MEMBER_JOIN_TIMEOUT_MS, turn);
        self.wait_for_join(slot, ticket, turn);
    }

    fn hand_out_member_id<P>(&mut self, request: &JoinRequest<'_, P>, turn: &mut Turn<'_>) -> Option<JoinAnswer> {
        let member_id = turn.core.new_member_id(request.client_id);
        let slot = self.add_pending(member_id.clone(), turn);
        let timer = turn.arm(turn.after(request.session_timeout_ms), Purpose::PendingMember(slot));
        self.set_pending_timer(slot, timer);
        Some(JoinAnswer::refused(ErrorCode::MEMBER_ID_REQUIRED, MemberId::from(member_id)))
    }

    /// `group.max.size`. While a rebalance is prepared only those who wait count, so in a group that is found too large the
    /// last ones to come are turned away. Ids that were handed out never count.
    fn has_room_for(&self, member_id: &str, turn: &Turn<'_>) -> bool {
        let max_size = usize::try_from(turn.core.settings.max_size).unwrap_or(0);
        match self.state {
            State::Empty => true,
            State::PreparingRebalance(_) => {
                self.members.joining() < max_size
                    || self
                        .members
                        .find(member_id)
                        .is_some_and(|slot| self.members.get(slot).expect("it was found").is_joining())
            }
            State::CompletingRebalance | State::Stable => {
                self.members.len() < max_size || self.members.find(member_id).is_some()
            }
        }
    }

    /// Removes one that is turned away. Unlike Kafka, which then waits for the rebalance time-out, the join phase ends at once
    /// if this was the last one missing.
    fn expel(&mut self, member_id: &str, turn: &mut Turn<'_>) {
        if member_id.is_empty() {
            return;
        }
        if let Some(pending) = self.find_pending(member_id, turn.core) {
            self.forget_pending(pending, turn);
        } else if let Some(slot) = self.members.find(member_id) {
            self.remove_member(slot, turn);
        }
        self.complete_join_if_all_are_there(turn);
    }

    /// Whether the group, as it is, can agree with a member on a protocol.
    fn supports<'a, P, N>(&self, request: &JoinRequest<'a, P>, names: &Names) -> bool
    where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let mut protocols = request.protocols.clone();
        if self.state == State::Empty {
            return !request.protocol_type.is_empty() && protocols.next().is_some();
        }
        self.protocol_type.as_deref() == Some(request.protocol_type)
            && protocols.any(|(name, _)| {
                let tally = self.members.tally();
                tally.is_empty() || names.known_text(name.as_ref()).is_some_and(|name| tally.is_candidate(&name))
            })
    }
}

fn is_within_limits<'a, P, N>(request: &JoinRequest<'a, P>) -> bool
where
    P: Iterator<Item = (N, &'a [u8])> + Clone,
    N: AsRef<str>,
{
    // Member ids begin with the client's or instance's id.
    let ids = [request.client_id, request.group_instance_id.unwrap_or_default()];
    if ids.iter().any(|id| id.len() > limits::NAME_MAX_BYTES - MEMBER_ID_SUFFIX_BYTES)
        || request.protocol_type.len() > limits::NAME_MAX_BYTES
    {
        return false;
    }
    let (mut protocols, mut bytes) = (0, 0);
    for (name, metadata) in request.protocols.clone() {
        if name.as_ref().len() > limits::NAME_MAX_BYTES {
            return false;
        }
        protocols += 1;
        bytes += name.as_ref().len() + metadata.len();
    }
    protocols <= limits::MEMBER_PROTOCOLS_MAX && bytes <= limits::MEMBER_METADATA_MAX_BYTES
}

fn refuse(error: ErrorCode, member_id: &str) -> Option<JoinAnswer> {
    Some(JoinAnswer::refused(error, MemberId::from(member_id)))
}

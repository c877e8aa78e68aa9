//! A static member whose client comes back without its member id: the new id takes the old one's place, in Stable without a
//! rebalance (KIP-345).

use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::Ticket;
use crate::group::core::Turn;
use crate::group::outcome::{JoinAnswer, JoinedMembers, MemberId};
use crate::group::writes::{Replaced, Wait};

use super::join::JoinRequest;
use super::member::Parked;
use super::members::MemberSlot;
use super::{ClassicGroup, Newcomer, State};

impl ClassicGroup {
    /// JoinGroup with a known instance id and no member id. Its answer always comes later: after a join phase, or once the new
    /// id is written.
    pub(super) fn replace_static_member<'a, P, N>(
        &mut self,
        slot: MemberSlot,
        member_id: &str,
        request: &JoinRequest<'a, P>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) where
        P: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        self.before_change(turn);
        self.fence(slot, turn);
        let before = self.members.get(slot).expect("it is a member").said.clone();
        let newcomer = Newcomer {
            member_id,
            group_instance_id: before.profile.group_instance_id(),
            client_id: before.profile.client_id(),
            client_host: before.profile.client_host(),
        };
        let said = newcomer.says(request, turn.core);
        let profile = said.profile.clone();
        let leader_before = self.leader.map(|_| self.leader_profile().clone());
        let before = self.members.say(slot, said);
        self.members.get_mut(slot).expect("it is a member").is_new = false;
        self.renew_session(slot, turn);
        if self.state != State::Stable || self.would_choose_another_protocol() {
            self.wait_for_join(slot, ticket, turn);
            return;
        }
        let leader_before = leader_before.expect("a Stable group has a leader");
        let record = self.record(turn, |slot| self.assignment(slot));
        turn.core.writes.push(record);
        self.last_written = None;
        turn.core.writes.wait(Wait::Replaced(Box::new(Replaced {
            group: turn.key,
            generation_id: self.generation_id,
            member: slot,
            ticket,
            knows_skip_assignment: request.knows_skip_assignment,
            profile,
            leader_before,
            before,
        })));
    }

    /// Tells whoever used the instance id until now that another has taken it.
    fn fence(&mut self, slot: MemberSlot, turn: &mut Turn<'_>) {
        let member_id = MemberId::from(&self.members.get(slot).expect("it is a member").said.profile);
        match self.members.unpark(slot) {
            Some(Parked::Join(ticket)) => {
                turn.answer_join(ticket, JoinAnswer::refused(ErrorCode::FENCED_INSTANCE_ID, member_id));
            }
            Some(Parked::Sync(ticket)) => turn.refuse_sync(ticket, ErrorCode::FENCED_INSTANCE_ID),
            None => {}
        }
    }

    fn would_choose_another_protocol(&self) -> bool {
        let chosen = self.round.as_ref().map(|round| &round.protocol_name);
        self.members.tally().choose().as_ref() != chosen
    }

    /// The new id is written: the client goes on with the assignment it had, unless another has taken its place meanwhile.
    pub(super) fn confirm_replacement(&mut self, replaced: &Replaced, turn: &mut Turn<'_>) {
        let member_id = replaced.profile.member_id();
        let slot = match self.members.validate(member_id, replaced.profile.group_instance_id()) {
            Ok(slot) => slot,
            Err(error) => {
                let member_id = match error {
                    ErrorCode::UNKNOWN_MEMBER_ID => MemberId::default(),
                    _ => MemberId::from(&replaced.profile),
                };
                turn.answer_join(replaced.ticket, JoinAnswer::refused(error, member_id));
                return;
            }
        };
        if self.generation_id != replaced.generation_id {
            // A generation has begun meanwhile, with the member in it: this is what it was to hear. (Kafka names the leader of
            // before to versions below 9.)
            turn.answer_join(replaced.ticket, self.answer_again(slot));
            return;
        }
        let mut answer = self.answer_of_replacement(replaced, ErrorCode::NONE, MemberId::from(&replaced.profile));
        // If a rebalance has begun meanwhile, the client is a follower that learns so from its SyncGroup.
        if replaced.knows_skip_assignment && self.state == State::Stable {
            let leads = self.leader == Some(replaced.member);
            if let Some(leader) = self.leader.and_then(|slot| self.members.get(slot)) {
                answer.leader = MemberId::from(&leader.said.profile);
            }
            answer.skip_assignment = leads;
            if let (true, Some(round)) = (leads, &self.round) {
                answer.members = JoinedMembers::of(&Rc::new(self.round_of(round.protocol_name.clone())));
            }
        }
        turn.answer_join(replaced.ticket, answer);
    }

    /// The new id could not be written: the old one is valid again, with what it had said. If the group has moved on meanwhile,
    /// with what the new one said, it is left alone; the client comes back once more.
    pub(super) fn revert_replacement(&mut self, replaced: Replaced, error: ErrorCode, turn: &mut Turn<'_>) {
        let answer = self.answer_of_replacement(&replaced, error, MemberId::default());
        turn.answer_join(replaced.ticket, answer);
        let is_still_it = self.state == State::Stable
            && self.generation_id == replaced.generation_id
            && self
                .members
                .get(replaced.member)
                .is_some_and(|member| member.said.profile.member_id_bytes() == replaced.profile.member_id_bytes());
        if is_still_it {
            self.members.say(replaced.member, replaced.before);
            self.renew_session(replaced.member, turn);
        }
    }

    /// As older versions get it: the former leader, so that a leader that came back does not compute an assignment.
    fn answer_of_replacement(&self, replaced: &Replaced, error: ErrorCode, member_id: MemberId) -> JoinAnswer {
        JoinAnswer {
            error,
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.round.as_ref().map(|round| round.protocol_name.clone()),
            leader: MemberId::from(&replaced.leader_before),
            member_id,
            skip_assignment: false,
            members: JoinedMembers::default(),
        }
    }
}

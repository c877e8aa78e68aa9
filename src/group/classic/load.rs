//! A group as it comes out of the journal, and one that goes because its first record never got there.

use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::core::{Core, Turn};
use crate::group::outcome::{JoinAnswer, MemberId};
use crate::group::profile::Profile;
use crate::group::records::{GroupMetadata, MemberMetadata};

use super::member::{Parked, Said};
use super::members::Members;
use super::{ClassicGroup, State};

impl ClassicGroup {
    /// Takes over what a record says: with members the group is Stable, else Empty. Each member is known to propose the chosen
    /// protocol alone. No session runs before [`ClassicGroup::start`].
    pub(in crate::group) fn load(&mut self, record: &GroupMetadata, core: &mut Core) {
        core.members = core.members + record.members.len() - self.members.len();
        self.members = Members::new(core.seed());
        (self.is_written, self.last_written) = (true, None);
        self.assigned_bytes = record.members.iter().map(|member| member.assignment.len() as u32).sum();
        self.generation_id = record.generation;
        self.state_since_ms = record.current_state_timestamp_ms;
        let has_type = !record.protocol_type.is_empty() || !record.members.is_empty();
        self.protocol_type = has_type.then(|| core.names.text(&record.protocol_type));
        self.was_of_consumers = self.is_of_consumers();
        (self.state, self.leader, self.round) = (State::Empty, None, None);
        if record.members.is_empty() {
            return;
        }
        let protocol_name = core.names.text(record.protocol.as_deref().unwrap_or(""));
        for member in &record.members {
            let slot = self.members.insert(said(member, &protocol_name, core));
            self.members.get_mut(slot).expect("it was added").assignment = member.assignment.clone();
        }
        self.leader = record.leader.as_ref().and_then(|leader| self.members.find(leader)).or(Some(0));
        self.state = State::Stable;
        self.round = Some(Rc::new(self.round_of(protocol_name)));
    }

    /// All members' sessions begin, in full: nobody is punished for the time the server was away. A group that is larger than
    /// it may be sheds the last ones to rejoin.
    pub(in crate::group) fn start(&mut self, turn: &mut Turn<'_>) {
        for slot in 0..self.members.bound() {
            if self.members.get(slot).is_some() {
                self.renew_session(slot, turn);
            }
        }
        let max_size = usize::try_from(turn.core.settings.max_size).unwrap_or(0);
        if self.state == State::Stable && self.members.len() > max_size {
            self.prepare_rebalance(turn);
        }
    }

    /// The first record of the group could not be written. Whoever joined is told why; the group goes.
    pub(in crate::group) fn creation_failed(&mut self, answer: ErrorCode, turn: &mut Turn<'_>) {
        for slot in 0..self.members.bound() {
            if self.members.get(slot).is_none_or(|member| !member.is_joining()) {
                continue;
            }
            if let Some(Parked::Join(ticket)) = self.members.unpark(slot) {
                turn.answer_join(ticket, JoinAnswer::refused(answer, MemberId::default()));
            }
        }
        self.dismantle(turn, answer);
    }
}

fn said(member: &MemberMetadata, protocol_name: &Rc<str>, core: &mut Core) -> Said {
    Said {
        profile: Profile::new(
            member.member_id(),
            member.group_instance_id(),
            member.client_id(),
            member.client_host(),
            std::iter::once(member.subscription()),
            &mut core.scratch,
        ),
        protocols: core.names.protocol_list(std::iter::once(protocol_name)),
        session_timeout_ms: member.session_timeout_ms,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
    }
}

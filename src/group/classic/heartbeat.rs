//! Heartbeat: the member is alive, and learns whether it must rejoin.

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::Groups;
use crate::group::core::Turn;

use super::{ClassicGroup, State};

impl Groups {
    /// Heartbeat. Moves the member's deadline; nothing is allocated or written.
    pub fn heartbeat(
        &mut self,
        group_id: &str,
        generation_id: i32,
        member_id: &str,
        group_instance_id: Option<&str>,
        now: Now,
    ) -> ErrorCode {
        if group_id.is_empty() {
            return ErrorCode::INVALID_GROUP_ID;
        }
        let Some(key) = self.find(group_id) else { return ErrorCode::UNKNOWN_MEMBER_ID };
        self.with(key, now, |group, turn| group.classic.heartbeat(generation_id, member_id, group_instance_id, turn))
    }
}

impl ClassicGroup {
    fn heartbeat(
        &mut self,
        generation_id: i32,
        member_id: &str,
        group_instance_id: Option<&str>,
        turn: &mut Turn<'_>,
    ) -> ErrorCode {
        let slot = match self.members.validate(member_id, group_instance_id) {
            Ok(slot) => slot,
            Err(error) => return error,
        };
        if generation_id != self.generation_id {
            return ErrorCode::ILLEGAL_GENERATION;
        }
        match self.state {
            State::Empty => ErrorCode::UNKNOWN_MEMBER_ID,
            State::PreparingRebalance(_) => {
                self.renew_session(slot, turn);
                ErrorCode::REBALANCE_IN_PROGRESS
            }
            State::CompletingRebalance | State::Stable => {
                self.renew_session(slot, turn);
                ErrorCode::NONE
            }
        }
    }
}

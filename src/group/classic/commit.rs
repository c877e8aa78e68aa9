//! Whether a group takes an OffsetCommit.

use crate::errors::ErrorCode;
use crate::group::core::Turn;
use crate::group::offsets::commit::CommitRequest;

use super::{ClassicGroup, State};

impl ClassicGroup {
    pub(in crate::group) fn check_commit(
        &mut self,
        request: &CommitRequest<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), ErrorCode> {
        let is_from_outside = request.generation_id < 0;
        if is_from_outside && self.is_empty() {
            return Ok(());
        }
        if is_from_outside && request.member_id.is_empty() && request.group_instance_id.is_none() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        let slot = self.members.validate(request.member_id, request.group_instance_id)?;
        if request.generation_id != self.generation_id {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        match self.state {
            State::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            State::CompletingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            // While a rebalance is prepared the generation is still the last one: members commit what they revoke.
            State::PreparingRebalance(_) | State::Stable => {
                self.renew_session(slot, turn);
                Ok(())
            }
        }
    }
}

//! What follows once a group's record is on disk, or is not.

use crate::errors::ErrorCode;
use crate::group::core::Turn;
use crate::group::piecework::Assigned;
use crate::group::records::GroupMetadata;
use crate::group::writes::{Replaced, answer_of_failed_write};

use super::{ClassicGroup, State};

impl ClassicGroup {
    /// A leader's assignments were written or refused. If the group has moved on meanwhile, whoever waited has been told.
    pub(in crate::group) fn assignments_ended(
        &mut self,
        mut assigned: Box<Assigned>,
        result: Result<(), ErrorCode>,
        turn: &mut Turn<'_>,
    ) {
        let is_last_written = |written: &GroupMetadata| written.generation == assigned.generation_id;
        if result.is_err() && self.last_written.as_deref().is_some_and(is_last_written) {
            self.last_written = assigned.written_before.take();
        }
        if self.state != State::CompletingRebalance || self.generation_id != assigned.generation_id {
            return;
        }
        self.is_assigning = false;
        match result {
            Ok(()) => self.hand_out_assignments(assigned, turn),
            Err(error) => self.refuse_assignments(answer_of_failed_write(error), turn),
        }
    }

    /// The members join again, since the assignments of this generation cannot be kept.
    pub(super) fn refuse_assignments(&mut self, answer: ErrorCode, turn: &mut Turn<'_>) {
        self.refuse_parked_syncs(answer, turn);
        self.prepare_rebalance(turn);
    }

    /// A static member's new id was written or refused.
    pub(in crate::group) fn replacement_ended(
        &mut self,
        replaced: Replaced,
        result: Result<(), ErrorCode>,
        turn: &mut Turn<'_>,
    ) {
        match result {
            Ok(()) => self.confirm_replacement(&replaced, turn),
            Err(error) => self.revert_replacement(replaced, answer_of_failed_write(error), turn),
        }
    }
}

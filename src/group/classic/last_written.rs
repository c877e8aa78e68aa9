//! What was last written of a group, for whoever writes it again: a snapshot. In Stable and in Empty it is what the group is;
//! in between it is kept aside, because a restart finds the group as of its last completed generation.

use std::rc::Rc;

use crate::group::core::Turn;
use crate::group::records::GroupMetadata;

use super::{ClassicGroup, State};

impl ClassicGroup {
    /// The group as the journal has it; `None` if it never had a record.
    ///
    /// What was refused may be among it for a while: where an Empty group could not be written, it is Empty all the same. As
    /// with Kafka, a client that was told of a failed write has to assume either.
    pub(in crate::group) fn last_written(&self) -> Option<Rc<GroupMetadata>> {
        match self.state {
            State::Stable | State::Empty => self.is_written.then(|| Rc::new(self.as_it_is())),
            State::PreparingRebalance(_) | State::CompletingRebalance => self.last_written.clone(),
        }
    }

    /// Comes before every change of who is in a group, or of what a member has said.
    pub(super) fn before_change(&mut self, turn: &mut Turn<'_>) {
        self.hand_out_the_rest(turn);
        if self.last_written.is_none() && matches!(self.state, State::Stable | State::Empty) {
            self.last_written = self.last_written();
        }
    }

    fn as_it_is(&self) -> GroupMetadata {
        self.metadata(self.state_since_ms, |slot| self.assignment(slot))
    }
}

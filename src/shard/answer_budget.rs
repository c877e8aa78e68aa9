//! How many answers of parked requests one turn of the core gives. The rest come in the next turns, so that a group of ten
//! thousand, or as many Fetches that fall due together, do not hold up the others' heartbeats.

use super::service::Network;

/// The most of one kind that a turn gives.
const ANSWERS_PER_TURN: usize = 32;

/// A turn gives so many even if it has no time, if the one before it had none either.
const ANSWERS_OF_A_LATE_TURN: usize = 16;

/// Answers of one kind.
#[derive(Debug, Default)]
pub(super) struct AnswerBudget {
    left: usize,
    /// Of these: what is given whether there is time or not.
    owed: usize,
    /// This turn had no time for one.
    was_short: bool,
}

impl AnswerBudget {
    /// A turn of the core begins.
    pub(super) fn begin(&mut self) {
        self.left = ANSWERS_PER_TURN;
        self.owed = if std::mem::take(&mut self.was_short) { ANSWERS_OF_A_LATE_TURN } else { 0 };
    }

    /// Whether one more may be given; it counts as given.
    pub(super) fn take_one(&mut self, network: &dyn Network) -> bool {
        if self.left > 0 && self.owed == 0 && !network.has_time() {
            self.was_short = true;
            return false;
        }
        self.owed = self.owed.saturating_sub(1);
        let may_give = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may_give
    }
}

//! Who waits for which position of the journal.

use std::collections::VecDeque;

use crate::shard::service::{ConnectionId, JournalPosition};

/// Those who wait, by rising position.
#[derive(Debug, Default)]
pub(super) struct Waits {
    queue: VecDeque<(JournalPosition, ConnectionId)>,
    /// How many may wait before those are looked for that are gone.
    tidy_above: usize,
}

/// So many may wait that are gone, or as many as there are others.
const GONE_MAX: usize = 1_024;

impl Waits {
    /// A reply of a connection waits; all of them that wait for one position are one entry.
    pub(super) fn push(&mut self, position: JournalPosition, connection: ConnectionId) {
        if self.queue.back() != Some(&(position, connection)) {
            self.queue.push_back((position, connection));
        }
    }

    /// The next that waits for nothing above `position`.
    pub(super) fn pop(&mut self, position: JournalPosition) -> Option<(JournalPosition, ConnectionId)> {
        self.queue.pop_front_if(|(wanted, _)| *wanted <= position)
    }

    /// Connections may come and go while the disk takes its time: those that are gone do not pile up.
    pub(super) fn tidy(&mut self, mut is_there: impl FnMut(ConnectionId) -> bool) {
        if self.queue.len() > self.tidy_above.max(GONE_MAX) {
            self.queue.retain(|(_, connection)| is_there(*connection));
            self.tidy_above = 2 * self.queue.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_once_for_a_position() {
        let mut waits = Waits::default();
        for (position, connection) in [(1, 7), (1, 7), (1, 8), (2, 7)] {
            waits.push(JournalPosition(position), ConnectionId(connection));
        }
        let mut pop = |position| waits.pop(JournalPosition(position)).map(|(wanted, id)| (wanted.0, id.0));
        assert_eq!([0, 1, 1, 1, 3, 3].map(&mut pop), [None, Some((1, 7)), Some((1, 8)), None, Some((2, 7)), None]);
    }

    #[test]
    fn who_is_gone_does_not_pile_up() {
        let mut waits = Waits::default();
        let stay = 2_000;
        for connection in 0..100_000 {
            waits.push(JournalPosition(1), ConnectionId(connection));
            let mut looks = 0;
            waits.tidy(|id| {
                looks += 1;
                id.0 < stay || id.0 == connection
            });
            assert!(waits.queue.len() as u64 <= 2 * (stay + 1), "{}", waits.queue.len());
            assert!(looks == 0 || looks > GONE_MAX, "not each time");
        }
        let kept = std::iter::from_fn(|| waits.pop(JournalPosition(1))).filter(|(_, id)| id.0 < stay).count();
        assert_eq!(kept as u64, stay);
    }
}

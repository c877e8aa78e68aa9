//! Whether a core is alive. A core that sleeps does not turn, and one without anything to do may sleep for minutes: so it
//! tells until when it will be heard of again.

use std::sync::atomic::{AtomicU64, Ordering};

/// How late a core may be before it counts as stuck, in milliseconds.
pub const LATE_MAX_MS: u64 = 5_000;

/// When a core is to be heard of again, on the monotonic clock in milliseconds.
#[derive(Debug, Default)]
pub struct Pulse(AtomicU64);

impl Pulse {
    /// A turn begins.
    #[inline]
    pub fn turning(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }

    /// The turn is over; the next one is due at `deadline_ms`, if ever. One that is due already counts from the turn's begin.
    #[inline]
    pub fn sleeping(&self, deadline_ms: Option<u64>) {
        let turning_ms = self.0.load(Ordering::Relaxed);
        self.0.store(deadline_ms.unwrap_or(u64::MAX).max(turning_ms), Ordering::Relaxed);
    }

    /// Whether no turn has lasted longer, and none is overdue by more, than [`LATE_MAX_MS`].
    pub fn is_alive(&self, now_ms: u64) -> bool {
        now_ms <= self.0.load(Ordering::Relaxed).saturating_add(LATE_MAX_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_turns_and_missed_deadlines_are_noticed_but_long_sleep_is_fine() {
        let pulse = Pulse::default();
        assert!(!pulse.is_alive(1_000_000), "it has not begun");
        pulse.turning(1_000_000);
        assert!(pulse.is_alive(1_000_000 + LATE_MAX_MS));
        assert!(!pulse.is_alive(1_000_001 + LATE_MAX_MS));
        pulse.sleeping(Some(2_000_000));
        assert!(pulse.is_alive(2_000_000 + LATE_MAX_MS) && !pulse.is_alive(2_000_001 + LATE_MAX_MS));
        pulse.sleeping(None);
        assert!(pulse.is_alive(u64::MAX));
    }

    #[test]
    fn who_is_to_turn_again_at_once_is_alive_meanwhile() {
        let pulse = Pulse::default();
        pulse.turning(1_000_000);
        pulse.sleeping(Some(0));
        assert!(pulse.is_alive(1_000_000 + LATE_MAX_MS) && !pulse.is_alive(1_000_001 + LATE_MAX_MS));
    }
}

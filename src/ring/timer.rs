//! The one timer of a ring: the next deadline, moved lazily. A deadline that moves later costs nothing until the old one
//! fires for naught; one that moves earlier is one more submission.

use io_uring::types::{TimeoutFlags, Timespec};
use io_uring::{opcode, squeue};

use super::token::{Key, Kind, pack};

const TIMER: Key = Key { slot: 0, generation: 0 };

/// Which deadline the kernel has, and the memory that it reads it from.
#[derive(Default)]
pub(super) struct Timer {
    armed_ms: Option<u64>,
    /// Boxed: the kernel reads it when the submission is consumed, wherever the ring has moved meanwhile.
    at: Box<Timespec>,
}

impl Timer {
    /// The submission, if one is needed, so that the ring completes something at `deadline_ms` (CLOCK_MONOTONIC) at the
    /// latest.
    pub(super) fn set(&mut self, deadline_ms: Option<u64>) -> Option<squeue::Entry> {
        let wanted_ms = deadline_ms?;
        if self.armed_ms.is_some_and(|armed_ms| armed_ms <= wanted_ms) {
            return None;
        }
        *self.at = Timespec::new().sec(wanted_ms / 1000).nsec((wanted_ms % 1000) as u32 * 1_000_000);
        let at: *const Timespec = &*self.at;
        let entry = if self.armed_ms.is_some() {
            opcode::TimeoutUpdate::new(pack(Kind::Timer, TIMER), at)
                .flags(TimeoutFlags::ABS)
                .build()
                .user_data(pack(Kind::TimerUpdate, TIMER))
        } else {
            opcode::Timeout::new(at).flags(TimeoutFlags::ABS).build().user_data(pack(Kind::Timer, TIMER))
        };
        self.armed_ms = Some(wanted_ms);
        Some(entry)
    }

    /// The kernel has no deadline any more.
    pub(super) fn fired(&mut self) {
        self.armed_ms = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_earlier_deadline_costs_a_submission() {
        let mut timer = Timer::default();
        assert!(timer.set(None).is_none());
        assert!(timer.set(Some(500)).is_some());
        assert!(timer.set(Some(500)).is_none());
        assert!(timer.set(Some(900)).is_none());
        assert!(timer.set(Some(400)).is_some());
        timer.fired();
        assert!(timer.set(Some(900)).is_some());
    }
}

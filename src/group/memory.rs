//! How much memory the groups of a core take, so that it can be bounded: what clients said is counted to the byte, and what is
//! kept around it by a rough sum. Also says in the log, now and then, that a limit was met.

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::limits::GROUP_MEMORY_MAX_BYTES;

/// A group by itself, and what finds it.
pub(super) const GROUP_BYTES: usize = 512;
/// A member by itself, what finds it, its timer, and its place in the generation.
pub(super) const MEMBER_BYTES: usize = 320;
/// A member id that was handed out.
pub(super) const PENDING_MEMBER_BYTES: usize = 160;
/// An offset.
pub(super) const OFFSET_BYTES: usize = 40;

/// The limit is logged no more often than this.
const LOG_INTERVAL_MS: u64 = 10_000;

/// What is taken, and how much may be.
#[derive(Debug)]
pub(super) struct Memory {
    used_bytes: usize,
    /// [`GROUP_MEMORY_MAX_BYTES`], less in tests.
    pub(super) max_bytes: usize,
    /// Times that a limit was met since it was logged last.
    met: u64,
    log_again_ms: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { used_bytes: 0, max_bytes: GROUP_MEMORY_MAX_BYTES, met: 0, log_again_ms: 0 }
    }
}

impl Memory {
    /// Something that took `before` takes `after` now.
    pub(super) fn change(&mut self, before: usize, after: usize) {
        self.used_bytes = self.used_bytes + after - before;
    }

    /// Whether so much more may be taken.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes == 0 || self.used_bytes.saturating_add(bytes) <= self.max_bytes
    }

    /// What is taken.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// A request is refused for a limit. The answer lets its client try again later.
    pub(super) fn refuse(&mut self, limit: &'static str, now: Now) -> ErrorCode {
        self.tell(limit, now);
        ErrorCode::COORDINATOR_NOT_AVAILABLE
    }

    /// A limit was met.
    pub(super) fn tell(&mut self, limit: &'static str, now: Now) {
        self.met += 1;
        if now.monotonic_ms >= self.log_again_ms {
            self.log_again_ms = now.monotonic_ms + LOG_INTERVAL_MS;
            let times = std::mem::take(&mut self.met);
            tracing::warn!(limit, times, used_bytes = self.used_bytes, "the groups of this core are at a limit");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_limit_and_one_past_it() {
        let mut memory = Memory::default();
        assert!(memory.has_room(GROUP_MEMORY_MAX_BYTES) && !memory.has_room(GROUP_MEMORY_MAX_BYTES + 1));
        memory.change(0, 1_000);
        memory.change(1_000, 10);
        assert!(memory.has_room(GROUP_MEMORY_MAX_BYTES - 10) && !memory.has_room(GROUP_MEMORY_MAX_BYTES - 9));
        memory.change(0, GROUP_MEMORY_MAX_BYTES);
        assert!(memory.has_room(0), "what grows by nothing is not refused");
    }
}

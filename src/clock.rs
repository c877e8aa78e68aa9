//! Time as the state machines see it: a value that is passed in, never asked for.

use std::time::Duration;

/// The moment at which a batch of requests is handled.
///
/// Deadlines count on `monotonic_ms`; what is stored or shown to a client is `unix_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// Milliseconds since an arbitrary start; never goes back.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub unix_ms: i64,
}

impl Now {
    /// The same clock, `by` later (for tests and simulations).
    pub fn after(self, by: Duration) -> Now {
        let ms = by.as_millis() as u64;
        Now { monotonic_ms: self.monotonic_ms + ms, unix_ms: self.unix_ms + ms as i64 }
    }
}

//! What one core's network has done so far. One core writes, anybody reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Different first words of close reasons that are counted; the rest is counted as "other".
const REASONS_MAX: usize = 64;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// The counters of one core. Only its own thread adds.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub(super) $name: Counter,)*
            reasons: Mutex<Vec<(String, u64)>>,
        }

        /// The counters at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Connections closed for what the peer did, by the first word of the reason.
            pub close_reasons: Vec<(String, u64)>,
        }

        impl Counters {
            /// What was counted so far.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot {
                    $($name: self.$name.get(),)*
                    close_reasons: self.reasons.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                }
            }
        }

        impl Snapshot {
            /// Names and values, for a page of metrics.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections accepted and admitted.
    connections_accepted;
    /// Connections closed again, whoever began.
    connections_closed;
    /// Connections refused for `max.connections`.
    connections_refused_total;
    /// Connections refused for `max.connections.per.ip`.
    connections_refused_address;
    /// Connections refused to keep a reserve of descriptors.
    connections_refused_descriptors;
    /// Connections closed for `connections.max.idle.ms`.
    connections_closed_idle;
    /// Connections closed because a reply made no progress.
    connections_closed_stalled;
    /// Accepting ended for want of descriptors or memory and was taken up again later.
    accepts_suspended;
    /// Request frames handed to the service.
    requests;
    /// Bytes received.
    received_bytes;
    /// Bytes sent.
    sent_bytes;
    /// Sends submitted.
    sends;
    /// Receives that ended for want of a buffer.
    receives_starved;
    /// Receives that were ended because the peer does not read or runs ahead of a parked request.
    receives_suspended;
    /// Turns of the core.
    turns;
    /// Completions of sockets.
    completions;
}

/// A count with one writer.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`; for the owning thread.
    pub(super) fn add(&self, count: u64) {
        // A load and a store cost less than an atomic addition, and there is one writer.
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Counts a close for `reason` by its first word.
    pub(super) fn closed_for(&self, reason: &str) {
        let word = reason.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').next().unwrap_or_default();
        let mut reasons = self.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let word =
            if reasons.len() < REASONS_MAX || reasons.iter().any(|(known, _)| known == word) { word } else { "other" };
        match reasons.iter_mut().find(|(known, _)| known == word) {
            Some((_, count)) => *count += 1,
            None => reasons.push((word.to_owned(), 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_by_their_first_word_up_to_a_bound() {
        let counters = Counters::default();
        counters.closed_for("oversized frame: 5");
        counters.closed_for("oversized frame: 6");
        for number in 0..REASONS_MAX + 1 {
            counters.closed_for(&format!("reason{number} of many"));
        }
        let reasons = counters.snapshot().close_reasons;
        assert_eq!(reasons[0], ("oversized".to_owned(), 2));
        assert_eq!(reasons.len(), REASONS_MAX + 1);
        assert_eq!(reasons[REASONS_MAX], ("other".to_owned(), 2));
    }
}

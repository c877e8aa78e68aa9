//! How far a replay is, for others to look at from their threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::replay::Progress;

/// How far one stream's replay is. What is read of it may be a moment old.
#[derive(Debug, Default)]
pub struct Reading {
    bytes_done: AtomicU64,
    bytes_total: AtomicU64,
    is_over: AtomicBool,
}

impl Reading {
    /// Bytes that were read, and bytes to read in all.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_done.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed))
    }

    /// Whether the replay has ended, well or not.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The replay's end of a [`Reading`]; the replay is over when it goes.
#[derive(Debug, Default)]
pub(super) struct Teller(Arc<Reading>);

impl Teller {
    pub(super) fn tell(&self, progress: Progress) {
        self.0.bytes_done.store(progress.bytes_done, Ordering::Relaxed);
        self.0.bytes_total.store(progress.bytes_total, Ordering::Relaxed);
    }

    pub(super) fn reading(&self) -> Arc<Reading> {
        self.0.clone()
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

//! The signal to stop, for all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ring::Waker;

/// Stops a server; usable from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    is_set: AtomicBool,
    wakers: Vec<Waker>,
}

impl Stop {
    pub(super) fn new(wakers: Vec<Waker>) -> Stop {
        Stop(Arc::new(Shared { is_set: AtomicBool::new(false), wakers }))
    }

    /// Lets all cores stop: no new connections, no new requests, replies in hand leave, then they end.
    pub fn stop(&self) {
        self.0.is_set.store(true, Ordering::Release);
        for waker in &self.0.wakers {
            waker.wake();
        }
    }

    /// Whether [`Stop::stop`] was called.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }
}

//! Gives memory back to the system after a crowd or an attack has gone. The allocator keeps what is freed in the middle of its
//! heaps; it is told to let go when a core holds much less than it once did.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use std::{io, thread};

/// So much less must be held for the allocator to be bothered.
const WORTHWHILE_BYTES: usize = 32 << 20;

const DELAY: Duration = Duration::from_millis(200);

/// How long a core lets pass from one time to the next.
const INTERVAL_MS: u64 = 2_000;

/// Wakes the thread that trims; it ends with the last of these.
#[derive(Clone)]
pub(super) struct Trimmer(SyncSender<()>);

impl Trimmer {
    /// Starts the thread. Not a core does it: it may take some tens of milliseconds where gigabytes were freed.
    pub(super) fn start() -> io::Result<Trimmer> {
        let (wake, woken) = sync_channel(1);
        thread::Builder::new().name("trim".into()).spawn(move || run(&woken))?;
        Ok(Trimmer(wake))
    }
}

fn run(woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        // What was let go a moment ago is free by then.
        thread::sleep(DELAY);
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes no pointers and locks each heap that it looks at.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// What one core has held.
pub(super) struct Tide {
    trimmer: Trimmer,
    highest_bytes: usize,
    next_ms: u64,
}

impl Tide {
    pub(super) fn new(trimmer: Trimmer) -> Tide {
        Tide { trimmer, highest_bytes: 0, next_ms: 0 }
    }

    /// The core holds so much now. When it must be told again at the latest, if it is worth a trim but too early for it.
    pub(super) fn stands_at(&mut self, bytes: usize, now_ms: u64) -> Option<u64> {
        self.highest_bytes = self.highest_bytes.max(bytes);
        if self.highest_bytes - bytes < WORTHWHILE_BYTES {
            return None;
        }
        if now_ms < self.next_ms {
            return Some(self.next_ms);
        }
        self.next_ms = now_ms + INTERVAL_MS;
        self.highest_bytes = bytes;
        match self.trimmer.0.try_send(()) {
            // Full: it is awake, or about to be.
            Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ebb_is_worth_a_trim_and_not_more_often_than_now_and_then() {
        let (wake, woken) = sync_channel(1);
        let mut tide = Tide::new(Trimmer(wake));
        assert_eq!(tide.stands_at(WORTHWHILE_BYTES, 10), None);
        assert_eq!(tide.stands_at(1, 10), None);
        assert!(woken.try_recv().is_err(), "a byte too little");
        assert_eq!(tide.stands_at(0, 10), None);
        assert!(woken.try_recv().is_ok());
        assert_eq!(tide.stands_at(0, 10), None, "only once");
        assert_eq!(tide.stands_at(3 * WORTHWHILE_BYTES, 11), None);
        assert_eq!(tide.stands_at(WORTHWHILE_BYTES, 12), Some(10 + INTERVAL_MS));
        assert!(woken.try_recv().is_err(), "too early");
        assert_eq!(tide.stands_at(WORTHWHILE_BYTES, 10 + INTERVAL_MS), None);
        assert!(woken.try_recv().is_ok());
    }
}

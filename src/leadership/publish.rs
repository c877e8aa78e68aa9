//! One value that is replaced as a whole now and then, and read by every core all the time: without a lock, without a
//! write to shared memory per read, and never half of one value and half of another.
//!
//! How it works. [`Published`] holds an atomic pointer to an immutable value on the heap. A reader *pins* its thread
//! ([`pin`]) once per batch of requests, and loads the pointer as often as it likes; what it gets lives at least until the
//! guard is dropped. A publisher makes a new value, swaps the pointer, and *retires* the old value: crossbeam's epoch
//! scheme drops it once every thread that was pinned at that moment has been unpinned.
//!
//! What holds:
//!
//! 1. A load gives a whole value: the pointer is swapped with release and loaded with acquire ordering, so everything
//!    written into the value before it was published is seen by who loads it.
//! 2. Values have an [`Epoch`], and it only grows: [`Published::publish`] refuses a value that is not newer than the one
//!    that stands, also when two publishers race. As loads of one atomic never go back in time, a thread that has seen
//!    an epoch never sees an older one afterwards.
//! 3. A reference lives no longer than its guard: the borrow checker sees to it. A guard that is kept keeps old
//!    values from being dropped, so it must not live across an await or a sleep; clippy.toml forbids the former.
//!
//! Checked by scripts/loom (every interleaving up to a bound) and scripts/miri, beside the tests below.
//!
//! What it is not: a channel. A reader sees the newest value, not each one.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crossbeam::epoch::{self, Atomic, Owned};

/// What is published tells its age.
pub trait Epoch {
    /// Larger is newer.
    fn epoch(&self) -> u64;
}

/// A pinned thread: whatever is loaded under it stays alive as long as it does.
///
/// A type of our own, because the soundness of [`Published::load`] needs a guard of the one collector to which
/// [`Published::publish`] hands its retired values, and crossbeam's `Guard` may be of any.
pub struct Guard(epoch::Guard);

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// Pins the thread. Within another guard of the same thread this costs an increment; without one, a fence.
pub fn pin() -> Guard {
    Guard(epoch::pin())
}

/// The place where the newest `T` stands.
pub struct Published<T: Epoch + Send + Sync + 'static> {
    /// Never null. What it points to is never changed, only replaced.
    current: Atomic<T>,
}

impl<T: Epoch + Send + Sync + 'static> Published<T> {
    /// A place that holds its first value.
    pub fn new(first: T) -> Self {
        Published { current: Atomic::new(first) }
    }

    /// The newest value.
    pub fn load<'g>(&self, guard: &'g Guard) -> &'g T {
        let current = self.current.load(Acquire, &guard.0);
        // SAFETY: `current` is never null, and the acquire load saw the value that its release swap had made whole. The
        // value is freed only by `publish` after it was swapped out, through the default collector, or by `drop`. The
        // collector waits for `guard`, which is of that collector (`pin` is its only maker). `drop` has `&mut self`,
        // so this load is over by then, and it retires instead of freeing, so a reference that outlives `self` under
        // its guard is good as well.
        unsafe { current.deref() }
    }

    /// Puts a newer value in the place of the one that stands; gives it back if it is not newer.
    pub fn publish(&self, value: T) -> Result<(), T> {
        let guard = epoch::pin();
        let mut newest = Owned::new(value);
        let mut current = self.current.load(Acquire, &guard);
        loop {
            // SAFETY: as in `load`; `guard` is of the default collector.
            if newest.epoch() <= unsafe { current.deref() }.epoch() {
                return Err(*newest.into_box());
            }
            match self.current.compare_exchange(current, newest, AcqRel, Acquire, &guard) {
                Ok(_) => break,
                Err(lost) => {
                    newest = lost.new;
                    current = lost.current;
                }
            }
        }
        // SAFETY: the exchange took `current` out of the only place from which it could be loaded, and only the winner of
        // an exchange retires what it took out. `T: Send + 'static`, so that any thread may drop it at any later time.
        unsafe { guard.defer_destroy(current) };
        Ok(())
    }
}

impl<T: Epoch + Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        let guard = epoch::pin();
        let current = self.current.load(Acquire, &guard);
        // SAFETY: `&mut self` is the last access to the pointer, so no one can load it any more; who loaded it before may
        // still hold it under a guard, for which the collector waits.
        unsafe { guard.defer_destroy(current) };
    }
}

impl<T: Epoch + Send + Sync + fmt::Debug + 'static> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Published").field(self.load(&pin())).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    /// A value that would show a torn view: all its words must be equal. Counts how many are alive.
    struct Snapshot {
        words: Vec<u64>,
        alive: Arc<AtomicUsize>,
    }

    impl Snapshot {
        fn new(epoch: u64, alive: &Arc<AtomicUsize>) -> Self {
            alive.fetch_add(1, SeqCst);
            Snapshot { words: vec![epoch; 64], alive: alive.clone() }
        }
    }

    impl Drop for Snapshot {
        fn drop(&mut self) {
            self.words.fill(u64::MAX);
            self.alive.fetch_sub(1, SeqCst);
        }
    }

    impl Epoch for Snapshot {
        fn epoch(&self) -> u64 {
            self.words[0]
        }
    }

    const ROUNDS: u64 = if cfg!(miri) { 60 } else { 20_000 };

    #[test]
    fn readers_see_whole_values_that_never_grow_older() {
        let alive = Arc::default();
        let place = Published::new(Snapshot::new(0, &alive));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < ROUNDS {
                        let guard = pin();
                        for _ in 0..4 {
                            let seen = place.load(&guard);
                            assert!(seen.words.iter().all(|&word| word == seen.words[0]), "torn");
                            assert!(seen.words[0] >= last, "an older epoch after a newer one");
                            last = seen.words[0];
                        }
                        std::thread::yield_now();
                    }
                });
            }
            scope.spawn(|| {
                for epoch in 1..=ROUNDS {
                    assert!(place.publish(Snapshot::new(epoch, &alive)).is_ok());
                }
            });
        });
        assert_eq!(place.load(&pin()).epoch(), ROUNDS);
    }

    #[test]
    fn racing_publishers_leave_the_newest_and_refuse_the_stale() {
        let alive = Arc::default();
        let place = Published::new(Snapshot::new(0, &alive));
        let accepted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (place, alive, accepted) = (&place, &alive, &accepted);
                scope.spawn(move || {
                    for epoch in 1..=ROUNDS / 10 {
                        if place.publish(Snapshot::new(3 * epoch + thread, alive)).is_ok() {
                            accepted.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(place.load(&pin()).epoch(), 3 * (ROUNDS / 10) + 2);
        assert!(accepted.load(SeqCst) as u64 >= ROUNDS / 10);
    }

    #[test]
    fn a_value_that_is_not_newer_comes_back() {
        let alive = Arc::default();
        let place = Published::new(Snapshot::new(7, &alive));
        for stale in [0, 6, 7] {
            assert_eq!(place.publish(Snapshot::new(stale, &alive)).map_err(|value| value.epoch()), Err(stale));
        }
        assert_eq!(place.load(&pin()).epoch(), 7);
        assert_eq!(alive.load(SeqCst), 1);
    }

    #[test]
    fn a_guard_keeps_the_old_value_and_its_end_frees_it() {
        let alive = Arc::default();
        let place = Published::new(Snapshot::new(1, &alive));
        let guard = pin();
        let old = place.load(&guard);
        assert!(place.publish(Snapshot::new(2, &alive)).is_ok());
        drop(place);
        assert_eq!(old.words, [1; 64]);
        assert_eq!(alive.load(SeqCst), 2);
        drop(guard);
        // Other tests pin the same collector, so the values go only after some of its rounds.
        for _ in 0..1_000_000 {
            if alive.load(SeqCst) == 0 {
                return;
            }
            let guard = epoch::pin();
            guard.flush();
            drop(guard);
            std::thread::yield_now();
        }
        panic!("retired values are still alive");
    }
}

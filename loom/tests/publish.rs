//! Every interleaving (up to a bound on preemptions) of a few readers and publishers.
#![cfg(crossbeam_loom)]

use std::cell::Cell;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use rallypoint_loom::publish::{Epoch, Published, pin};

/// loom finds an access of `word` that does not happen after its writing, and one that does not happen before its drop.
///
/// It is written when the publisher asks for the epoch, which it does once the value is where it stays: this stands for the
/// move to the heap, which loom cannot see and which comes after the fence of the publisher's pin.
struct Snapshot {
    epoch: u64,
    word: UnsafeCell<u64>,
    is_written: Cell<bool>,
}

// SAFETY: written only before it is published and while it is dropped; that this is so is what loom checks.
unsafe impl Sync for Snapshot {}

impl Snapshot {
    fn new(epoch: u64) -> Self {
        Snapshot { epoch, word: UnsafeCell::new(u64::MAX), is_written: Cell::new(false) }
    }

    /// A value that is not published by an exchange, but by handing its place to another thread.
    fn first() -> Self {
        let first = Snapshot::new(0);
        first.epoch();
        first
    }

    fn read(&self) -> u64 {
        // SAFETY: written once, before it was published.
        let word = self.word.with(|word| unsafe { *word });
        assert_eq!(word, self.epoch, "torn or dropped");
        word
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: the last access.
        self.word.with_mut(|word| unsafe { *word = u64::MAX });
    }
}

impl Epoch for Snapshot {
    fn epoch(&self) -> u64 {
        if !self.is_written.replace(true) {
            // SAFETY: the publisher asks first, before the exchange.
            self.word.with_mut(|word| unsafe { *word = self.epoch });
        }
        self.epoch
    }
}

#[test]
fn a_reader_sees_whole_values_that_never_grow_older() {
    loom::model(|| {
        let place = Arc::new(Published::new(Snapshot::first()));
        let reader = {
            let place = place.clone();
            thread::spawn(move || {
                let guard = pin();
                let first = place.load(&guard);
                let before = first.read();
                let after = place.load(&guard).read();
                assert!(after >= before, "an older epoch after a newer one");
                assert_eq!(first.read(), before, "kept by the guard");
            })
        };
        assert!(place.publish(Snapshot::new(1)).is_ok());
        assert_eq!(place.load(&pin()).read(), 1);
        reader.join().unwrap();
    });
}

#[test]
fn of_racing_publishers_the_newest_stays() {
    loom::model(|| {
        let place = Arc::new(Published::new(Snapshot::first()));
        let other = {
            let place = place.clone();
            thread::spawn(move || place.publish(Snapshot::new(2)).is_ok())
        };
        let older = place.publish(Snapshot::new(1)).is_ok();
        let newer = other.join().unwrap();
        assert!(newer, "nothing newer stood in its way");
        assert_eq!(place.load(&pin()).read(), 2, "accepted: {older}");
    });
}

#[test]
fn the_place_may_go_while_a_guard_holds_its_value() {
    loom::model(|| {
        let place = Arc::new(Published::new(Snapshot::first()));
        let reader = {
            let place = place.clone();
            thread::spawn(move || {
                let guard = pin();
                let seen = place.load(&guard);
                drop(place);
                seen.read();
            })
        };
        drop(place);
        reader.join().unwrap();
    });
}

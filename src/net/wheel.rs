//! Coarse deadlines that are looked at again when they come: one entry per connection and question ("idle?", "stalled?"),
//! so that a request costs nothing here. Whoever is still active when its deadline comes is put in again.

use crate::ring::Key;

const BUCKETS: u64 = 256;

/// So many entries may be there whoever is gone.
const SWEEP_SLACK: usize = 64;

/// Deadlines in buckets of equal width.
pub(super) struct Wheel {
    width_ms: u64,
    buckets: Vec<Vec<Key>>,
    /// No bucket before this tick has an entry.
    next_tick: u64,
    entries: usize,
}

impl Wheel {
    /// A wheel for deadlines about `span_ms` ahead; it is late by at most a 128th of that.
    pub(super) fn new(span_ms: u64) -> Wheel {
        let buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        Wheel { width_ms: (span_ms / (BUCKETS / 2)).max(1), buckets, next_tick: 0, entries: 0 }
    }

    /// Puts `key` in; it comes out at `due_ms` or a little later, earlier if that is beyond the wheel.
    pub(super) fn insert(&mut self, now_ms: u64, due_ms: u64, key: Key) {
        let now_tick = now_ms / self.width_ms;
        let tick = due_ms.div_ceil(self.width_ms).clamp(now_tick, now_tick + BUCKETS - 1);
        if self.entries == 0 || tick < self.next_tick {
            self.next_tick = tick;
        }
        self.buckets[(tick % BUCKETS) as usize].push(key);
        self.entries += 1;
    }

    /// Drops the entries of those who are gone, if they are more than those of the `live` ones could be.
    pub(super) fn sweep(&mut self, live: usize, mut is_live: impl FnMut(Key) -> bool) {
        if self.entries > 2 * live + SWEEP_SLACK {
            self.buckets.iter_mut().for_each(|bucket| bucket.retain(|key| is_live(*key)));
            self.entries = self.buckets.iter().map(Vec::len).sum();
        }
    }

    /// When the next bucket is due.
    pub(super) fn next_ms(&mut self) -> Option<u64> {
        if self.entries == 0 {
            return None;
        }
        while self.buckets[(self.next_tick % BUCKETS) as usize].is_empty() {
            self.next_tick += 1;
        }
        Some(self.next_tick * self.width_ms)
    }

    /// The keys of the next bucket that is due.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<Vec<Key>> {
        if self.next_ms()? > now_ms {
            return None;
        }
        let keys = std::mem::take(&mut self.buckets[(self.next_tick % BUCKETS) as usize]);
        self.entries -= keys.len();
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32) -> Key {
        Key { slot, generation: 0 }
    }

    #[test]
    fn nobody_comes_out_early_and_nobody_late_by_more_than_a_bucket() {
        let mut wheel = Wheel::new(12_800);
        for slot in 0..128 {
            wheel.insert(5, 5 + u64::from(slot) * 100, key(slot));
        }
        let mut out = 0;
        for now_ms in 5..14_000 {
            while let Some(keys) = wheel.pop_due(now_ms) {
                for key in keys {
                    let due_ms = 5 + u64::from(key.slot) * 100;
                    assert!((due_ms..=due_ms + 100).contains(&now_ms), "{key:?} due {due_ms} came at {now_ms}");
                    out += 1;
                }
            }
        }
        assert_eq!(out, 128);
        assert_eq!(wheel.next_ms(), None);
    }

    #[test]
    fn an_earlier_deadline_overtakes_one_that_was_looked_at() {
        let mut wheel = Wheel::new(12_800);
        wheel.insert(0, 9_000, key(1));
        assert_eq!(wheel.next_ms(), Some(9_000));
        wheel.insert(10, 500, key(2));
        assert_eq!(wheel.next_ms(), Some(500));
        assert_eq!(wheel.pop_due(500), Some(vec![key(2)]));
        assert_eq!(wheel.pop_due(8_999), None);
    }

    #[test]
    fn who_is_gone_leaves_no_entry_for_long() {
        let mut wheel = Wheel::new(u64::from(u32::MAX));
        wheel.insert(0, 1_000_000, key(0));
        for slot in 1..10_000 {
            wheel.insert(u64::from(slot), 1_000_000 + u64::from(slot), key(slot));
            // All but the first are gone at once.
            wheel.sweep(1, |key| key.slot == 0);
            assert!(wheel.entries <= 2 + SWEEP_SLACK, "{} entries", wheel.entries);
        }
        assert_eq!(wheel.buckets.iter().map(Vec::len).sum::<usize>(), wheel.entries);
        let due_ms = wheel.next_ms().expect("one entry at least");
        assert!(wheel.pop_due(due_ms).is_some_and(|keys| keys.contains(&key(0))), "who is there stays");
    }

    #[test]
    fn a_deadline_beyond_the_wheel_comes_out_to_be_put_in_again() {
        let mut wheel = Wheel::new(128);
        wheel.insert(0, 1_000_000, key(1));
        let due_ms = wheel.next_ms().expect("one entry");
        assert!(due_ms < 1_000);
        assert_eq!(wheel.pop_due(due_ms), Some(vec![key(1)]));
    }
}

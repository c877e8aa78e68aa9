//! A hierarchical timer wheel: arming, moving and cancelling are O(1), and nothing is allocated for a timer that is moved.
//!
//! A wheel knows nothing of what its timers are for. Whoever owns a timer may let it fire early and arm it again: a
//! heartbeat moves only the member's own deadline, and the wheel is told when the old deadline comes.

use std::num::NonZeroU32;

/// A timer of a [`Wheel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(NonZeroU32);

/// What a [`Wheel`] did in one step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// This timer is due. It is no longer in the wheel.
    Fired(T),
    /// Nothing fired, but there is more to do now.
    Moved,
    /// Nothing more is due.
    Idle,
}

/// Timers with a payload each, in milliseconds.
#[derive(Debug)]
pub struct Wheel<T> {
    /// Every millisecond before this one is done with.
    current_ms: u64,
    entries: Vec<Entry<T>>,
    first_free: u32,
    len: usize,
    heads: [u32; LEVELS * SLOTS],
    occupied: [u64; LEVELS],
    /// The list of a higher level whose time has come and which is being dealt out, one entry a step.
    dealing: Option<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    deadline_ms: u64,
    payload: T,
    next: u32,
    /// The entry before, or `HEAD` and the list's number.
    before: u32,
}

/// 64^7 ms are 139 years.
const LEVELS: usize = 7;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const NONE: u32 = u32::MAX;
const HEAD: u32 = 1 << 31;
const FARTHEST_MS: u64 = (1 << (BITS * LEVELS as u32)) - 1;

impl<T: Copy> Wheel<T> {
    /// A wheel that starts at `now_ms`.
    pub fn new(now_ms: u64) -> Wheel<T> {
        Wheel {
            current_ms: now_ms,
            entries: Vec::new(),
            first_free: NONE,
            len: 0,
            heads: [NONE; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            dealing: None,
        }
    }

    /// How many timers are armed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer that fires once `deadline_ms` has come.
    pub fn arm(&mut self, deadline_ms: u64, payload: T) -> TimerId {
        let entry = Entry { deadline_ms, payload, next: NONE, before: NONE };
        let number = match self.first_free {
            NONE => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
            free => {
                self.first_free = self.entries[free as usize].next;
                self.entries[free as usize] = entry;
                free
            }
        };
        self.len += 1;
        self.link(number);
        TimerId::of(number)
    }

    /// When an armed timer fires.
    pub fn deadline_ms(&self, timer: TimerId) -> u64 {
        self.entries[timer.number() as usize].deadline_ms
    }

    /// Gives an armed timer another deadline.
    pub fn move_to(&mut self, timer: TimerId, deadline_ms: u64) {
        self.unlink(timer.number());
        self.entries[timer.number() as usize].deadline_ms = deadline_ms;
        self.link(timer.number());
    }

    /// Takes an armed timer out.
    pub fn cancel(&mut self, timer: TimerId) {
        self.unlink(timer.number());
        self.release(timer.number());
    }

    /// A moment at which [`Wheel::step`] must be asked at the latest: the first deadline, or somewhat before it.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.dealing.is_some() {
            return Some(self.current_ms);
        }
        self.next_list().map(|(_, start_ms)| start_ms)
    }

    /// Goes one step towards `now_ms`.
    pub fn step(&mut self, now_ms: u64) -> Step<T> {
        if let Some(list) = self.dealing {
            let number = self.heads[list as usize];
            if number == NONE {
                self.dealing = None;
            } else {
                self.unlink(number);
                self.link(number);
                return Step::Moved;
            }
        }
        match self.next_list() {
            Some((list, start_ms)) if start_ms <= now_ms => {
                self.current_ms = self.current_ms.max(start_ms);
                if list as usize >= SLOTS {
                    self.dealing = Some(list);
                    return Step::Moved;
                }
                let number = self.heads[list as usize];
                self.unlink(number);
                Step::Fired(self.release(number))
            }
            _ => {
                self.current_ms = self.current_ms.max(now_ms);
                Step::Idle
            }
        }
    }

    /// The first list that holds timers, and when it begins. A lower level always comes before a higher one.
    fn next_list(&self) -> Option<(u32, u64)> {
        (0..LEVELS).find(|level| self.occupied[*level] != 0).map(|level| {
            let shift = BITS * level as u32;
            let here = (self.current_ms >> shift) & (SLOTS as u64 - 1);
            let slot = u64::from((self.occupied[level] & (u64::MAX << here)).trailing_zeros());
            let base = (self.current_ms >> shift) & !(SLOTS as u64 - 1);
            ((level * SLOTS) as u32 + slot as u32, (base | slot) << shift)
        })
    }

    fn link(&mut self, number: u32) {
        let at_ms = self.entries[number as usize].deadline_ms.clamp(self.current_ms, self.current_ms | FARTHEST_MS);
        let differing = at_ms ^ self.current_ms;
        let level = (u64::BITS - (differing | 1).leading_zeros() - 1) / BITS;
        let slot = ((at_ms >> (BITS * level)) & (SLOTS as u64 - 1)) as u32;
        let list = level * SLOTS as u32 + slot;
        let next = std::mem::replace(&mut self.heads[list as usize], number);
        if next != NONE {
            self.entries[next as usize].before = number;
        }
        let entry = &mut self.entries[number as usize];
        entry.next = next;
        entry.before = HEAD | list;
        self.occupied[level as usize] |= 1 << slot;
    }

    fn unlink(&mut self, number: u32) {
        let Entry { next, before, .. } = self.entries[number as usize];
        if next != NONE {
            self.entries[next as usize].before = before;
        }
        if before & HEAD == 0 {
            self.entries[before as usize].next = next;
            return;
        }
        let list = (before & !HEAD) as usize;
        self.heads[list] = next;
        if next == NONE {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    fn release(&mut self, number: u32) -> T {
        let entry = &mut self.entries[number as usize];
        entry.next = std::mem::replace(&mut self.first_free, number);
        let payload = entry.payload;
        self.len -= 1;
        if self.len == 0 {
            self.entries = Vec::new();
            self.first_free = NONE;
        }
        payload
    }
}

impl TimerId {
    fn of(number: u32) -> TimerId {
        TimerId(NonZeroU32::MIN.saturating_add(number))
    }

    fn number(self) -> u32 {
        self.0.get() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(wheel: &mut Wheel<u32>, now_ms: u64) -> Vec<u32> {
        let mut fired = Vec::new();
        loop {
            match wheel.step(now_ms) {
                Step::Fired(payload) => fired.push(payload),
                Step::Moved => {}
                Step::Idle => return fired,
            }
        }
    }

    #[test]
    fn a_timer_fires_at_its_deadline_and_not_before() {
        for start in [0, 1, 63, 64, 4_095, 1_000_003] {
            for delay in [0, 1, 2, 63, 64, 65, 127, 3_000, 4_096, 45_000, 1_800_000, 30 * 86_400_000] {
                let mut wheel = Wheel::new(start);
                wheel.arm(start + delay, 1);
                if delay > 0 {
                    assert!(due(&mut wheel, start + delay - 1).is_empty(), "{start} {delay}");
                }
                assert!(wheel.next_deadline_ms().unwrap() <= start + delay);
                assert_eq!(due(&mut wheel, start + delay), [1], "{start} {delay}");
                assert_eq!(wheel.next_deadline_ms(), None);
            }
        }
    }

    #[test]
    fn a_deadline_in_the_past_or_beyond_all_bounds_does_no_harm() {
        let mut wheel = Wheel::new(10_000);
        wheel.arm(3, 1);
        wheel.arm(u64::MAX, 2);
        assert_eq!(due(&mut wheel, 10_000), [1]);
        assert!(due(&mut wheel, 10_000_000_000).is_empty());
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn many_timers_against_a_sorted_list() {
        let mut seed = 0x2545_F491_4F6C_DD1Du64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut wheel = Wheel::new(500);
        let mut model: Vec<(TimerId, u64, u32)> = Vec::new();
        let mut now = 500;
        for payload in 0..20_000u32 {
            match random() % 5 {
                0..=2 => {
                    let deadline = now + random() % [10, 1_000, 100_000, 10_000_000][(random() % 4) as usize];
                    model.push((wheel.arm(deadline, payload), deadline, payload));
                }
                3 if !model.is_empty() => {
                    let at = random() as usize % model.len();
                    if random() % 2 == 0 {
                        wheel.cancel(model.swap_remove(at).0);
                    } else {
                        model[at].1 = now + random() % 50_000;
                        wheel.move_to(model[at].0, model[at].1);
                    }
                }
                _ => {
                    now += random() % [1, 100, 5_000][(random() % 3) as usize];
                    let mut fired = due(&mut wheel, now);
                    fired.sort_unstable();
                    let mut expected: Vec<u32> =
                        model.iter().filter(|timer| timer.1 <= now).map(|timer| timer.2).collect();
                    expected.sort_unstable();
                    model.retain(|timer| timer.1 > now);
                    assert_eq!(fired, expected);
                    let first = model.iter().map(|timer| timer.1).min();
                    assert_eq!(first.is_some(), wheel.next_deadline_ms().is_some());
                    assert!(wheel.next_deadline_ms() <= first && wheel.next_deadline_ms().is_none_or(|ms| ms > now));
                }
            }
            assert_eq!(wheel.len(), model.len());
        }
    }

    #[test]
    fn a_long_list_is_dealt_out_one_step_at_a_time() {
        let mut wheel = Wheel::new(0);
        for payload in 0..1_000 {
            wheel.arm(5_000, payload);
        }
        let mut steps = 0;
        let mut fired = 0;
        loop {
            match wheel.step(5_000) {
                Step::Fired(_) => fired += 1,
                Step::Moved => {}
                Step::Idle => break,
            }
            steps += 1;
        }
        assert_eq!(fired, 1_000);
        assert!((1_000..3_100).contains(&steps), "{steps}");
    }
}

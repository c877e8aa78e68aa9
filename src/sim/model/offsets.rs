//! What one group has committed for one partition, as far as it can be known from outside: what is in memory now, what has
//! been promised, and what a crash may have left.

/// A committed offset; `None` where there is none.
pub(super) type Committed = Option<Value>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) metadata: String,
    /// Of the topic when it was committed.
    pub(super) topic_id: [u8; 16],
    /// From when on it may be gone, by the wall clock, if the commit says so.
    pub(super) expires_at_ms: Option<i64>,
}

/// What the wall clock has shown so far, in ms.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WallClock {
    pub(super) highest_ms: i64,
    /// From when on an offset may be gone whose commit does not say it: Kafka counts from when the group became empty, which may
    /// be long before the commit, and after it by a clock that was set back.
    pub(super) expiry_ms: i64,
}

impl Value {
    fn shows_as(&self, shown: &Shown) -> bool {
        (self.offset, &*self.metadata) == (shown.offset, &*shown.metadata)
            && shown.leader_epoch.is_none_or(|epoch| epoch == self.leader_epoch)
    }
}

/// As an OffsetFetch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// -1: none.
    pub(super) offset: i64,
    /// `None`: the version does not tell.
    pub(super) leader_epoch: Option<i32>,
    pub(super) metadata: String,
    /// That was asked for, all zero if by name.
    pub(super) topic_id: [u8; 16],
}

/// The states that one partition's offset has gone through since the last one that was promised, which comes first.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    entries: Vec<(u64, Committed)>,
    /// Deletions of what may not have been there: they may not have been written.
    idle: Vec<u64>,
    /// The last one is what is there now. Otherwise a crash or a refused write lies behind, and it may be any of them.
    is_certain: bool,
    /// The topic may be gone, and the offset with it.
    may_vanish: bool,
    /// Changes whose write has failed: undone, but a start may still find them, unless later ones were promised.
    ghosts: Vec<(u64, Committed)>,
}

impl Trail {
    pub(super) fn new() -> Trail {
        Trail { entries: vec![(0, None)], idle: Vec::new(), is_certain: true, may_vanish: false, ghosts: Vec::new() }
    }

    /// A change was executed.
    pub(super) fn push(&mut self, id: u64, value: Committed) {
        let was_there = self.is_certain && self.entries.last().is_some_and(|(_, value)| value.is_some());
        if value.is_none() && !was_there {
            self.idle.push(id);
        }
        if self.may_vanish {
            self.entries.push((id, None));
        }
        self.entries.push((id, value));
        self.is_certain = true;
        self.may_vanish = false;
    }

    /// The topic may be gone some time.
    pub(super) fn vanish_some_time(&mut self) {
        self.may_vanish = true;
    }

    /// A change was acknowledged: what was before it can never come back.
    pub(super) fn promise(&mut self, id: u64) {
        if let Some(at) = self.entries.iter().rposition(|entry| entry.0 == id) {
            self.entries.drain(..at);
        }
        if !self.idle.contains(&id) {
            self.ghosts.retain(|ghost| ghost.0 > id);
        }
    }

    /// A write has failed: what was not promised may be undone.
    pub(super) fn write_failed(&mut self) {
        self.ghosts.extend_from_slice(&self.entries[1..]);
        self.is_certain = self.is_certain && self.entries.len() == 1;
    }

    /// The process has ended: what was not promised may be there or not.
    pub(super) fn crashed(&mut self) {
        self.entries.append(&mut self.ghosts);
        self.is_certain = self.is_certain && self.entries.len() == 1;
    }

    /// A journal that keeps nothing was lost.
    pub(super) fn forget(&mut self) {
        *self = Trail::new();
    }

    /// Whether this is what an OffsetFetch may show now. If so, the id of the last change so far.
    pub(super) fn shows(&self, shown: &Shown, clock: WallClock) -> Result<u64, String> {
        let now = if self.is_certain { &self.entries[self.entries.len() - 1..] } else { &self.entries[..] };
        let fits = |value: &Committed| match value {
            _ if shown.offset == -1 && self.may_vanish => true,
            None => shown.offset == -1,
            Some(value) if shown.offset == -1 => {
                let is_of_another = shown.topic_id != [0; 16] && shown.topic_id != value.topic_id;
                is_of_another || value.expires_at_ms.unwrap_or(clock.expiry_ms) <= clock.highest_ms
            }
            Some(value) => value.shows_as(shown),
        };
        match now.iter().any(|(_, value)| fits(value)) {
            true => Ok(now[now.len() - 1].0),
            false if self.is_certain => Err(format!("{shown:?} is shown, but {:?} is there", now[0].1)),
            false => Err(format!("{shown:?} is shown, but it should be one of {now:?}")),
        }
    }

    /// A reply that shows this has left: what is not this can never come back, but for what was executed after `newest`, the last
    /// change when it was made.
    pub(super) fn promise_shown(&mut self, shown: &Shown, newest: u64) {
        let is_it = |value: &Committed| match value {
            None => shown.offset == -1,
            Some(value) => value.shows_as(shown),
        };
        // None is also shown of what has expired, and under another topic id.
        let is_plain = shown.offset != -1 || !self.may_vanish && shown.topic_id == [0; 16];
        if is_plain && self.entries.iter().any(|(id, value)| *id <= newest && is_it(value)) {
            self.entries.retain(|(id, value)| *id > newest || is_it(value));
            self.is_certain |= self.entries.len() == 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(offset: i64) -> Committed {
        let (leader_epoch, metadata, topic_id) = (-1, String::new(), [0; 16]);
        Some(Value { offset, leader_epoch, metadata, topic_id, expires_at_ms: Some(i64::MAX) })
    }

    fn shown(offset: i64) -> Shown {
        Shown { offset, leader_epoch: Some(-1), metadata: String::new(), topic_id: [0; 16] }
    }

    fn may_show(trail: &Trail, offsets: &[i64]) -> Vec<i64> {
        offsets.iter().copied().filter(|offset| trail.shows(&shown(*offset), WallClock::default()).is_ok()).collect()
    }

    #[test]
    fn without_a_crash_only_the_last_commit_is_shown() {
        let mut trail = Trail::new();
        assert_eq!(may_show(&trail, &[-1, 5]), [-1]);
        trail.push(1, value(5));
        trail.push(2, value(7));
        assert_eq!(may_show(&trail, &[-1, 5, 7]), [7]);
    }

    #[test]
    fn after_a_crash_what_was_promised_or_came_later_is_shown() {
        let mut trail = Trail::new();
        (1..=4).for_each(|id| trail.push(id, value(id as i64)));
        trail.promise(2);
        trail.crashed();
        assert_eq!(may_show(&trail, &[-1, 1, 2, 3, 4]), [2, 3, 4]);
        trail.promise_shown(&shown(3), trail.shows(&shown(3), WallClock::default()).expect("it may"));
        assert_eq!(may_show(&trail, &[2, 3, 4]), [3]);
        trail.push(5, value(9));
        trail.crashed();
        assert_eq!(may_show(&trail, &[2, 3, 4, 9]), [3, 9]);
    }

    #[test]
    fn what_has_failed_is_undone_and_may_come_back_with_a_crash() {
        let mut trail = Trail::new();
        trail.push(1, value(1));
        trail.promise(1);
        trail.push(2, value(2));
        trail.write_failed();
        assert_eq!(may_show(&trail, &[-1, 1, 2]), [1, 2]);
        trail.promise_shown(&shown(1), trail.shows(&shown(1), WallClock::default()).expect("it may"));
        assert_eq!(may_show(&trail, &[-1, 1, 2]), [1]);
        let mut later = trail.clone();
        trail.crashed();
        assert_eq!(may_show(&trail, &[-1, 1, 2]), [1, 2]);
        later.push(3, value(3));
        later.promise(3);
        later.crashed();
        assert_eq!(may_show(&later, &[1, 2, 3]), [3]);
    }

    #[test]
    fn what_came_before_may_have_gone_with_its_topic() {
        let mut trail = Trail::new();
        trail.push(1, value(1));
        trail.promise(1);
        trail.vanish_some_time();
        trail.push(2, value(2));
        assert_eq!(may_show(&trail, &[-1, 1, 2]), [2]);
        let mut later = trail.clone();
        trail.crashed();
        assert_eq!(may_show(&trail, &[-1, 1, 2]), [-1, 1, 2]);
        later.promise(2);
        later.crashed();
        assert_eq!(may_show(&later, &[-1, 1, 2]), [2]);
    }

    #[test]
    fn what_is_promised_alone_is_certain_even_after_a_crash() {
        let mut trail = Trail::new();
        trail.push(1, value(1));
        trail.promise(1);
        trail.crashed();
        assert_eq!(may_show(&trail, &[-1, 1]), [1]);
    }
}

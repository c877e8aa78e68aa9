//! Which part of a stream's log is still needed: every entry that no snapshot of its partition covers.

use rustc_hash::FxHashMap;

/// For each partition with entries in the log, the oldest that no snapshot covers.
#[derive(Debug, Default)]
pub struct Coverage {
    oldest: FxHashMap<i32, u64>,
    /// The partition of which a snapshot is being taken, and its first entry since that began.
    taking: Option<(i32, Option<u64>)>,
}

impl Coverage {
    /// An entry of the partition was appended at a position.
    pub fn appended(&mut self, partition: i32, position: u64) {
        self.oldest.entry(partition).or_insert(position);
        if let Some((taking, first @ None)) = &mut self.taking
            && *taking == partition
        {
            *first = Some(position);
        }
    }

    /// A start has found an entry of the partition that is needed; others may have been appended meanwhile.
    pub fn found(&mut self, partition: i32, position: u64) {
        let oldest = self.oldest.entry(partition).or_insert(position);
        *oldest = position.min(*oldest);
    }

    /// A snapshot of a partition is begun: it covers everything appended so far. One at a time.
    pub fn begin(&mut self, partition: i32) {
        assert!(self.taking.is_none(), "one snapshot at a time");
        self.taking = Some((partition, None));
    }

    /// The snapshot has its name.
    pub fn publish(&mut self) {
        let (partition, first) = self.taking.take().expect("a snapshot was begun");
        match first {
            Some(position) => self.oldest.insert(partition, position),
            None => self.oldest.remove(&partition),
        };
    }

    /// The snapshot failed.
    pub fn abandon(&mut self) {
        self.taking = None;
    }

    /// The oldest entry that is needed, and its partition. Everything before may be deleted.
    pub fn oldest(&self) -> Option<(i32, u64)> {
        self.oldest.iter().map(|(partition, position)| (*partition, *position)).min_by_key(|(_, position)| *position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_uncovered_entry_holds_the_log() {
        let mut coverage = Coverage::default();
        assert_eq!(coverage.oldest(), None);
        coverage.appended(1, 10);
        coverage.appended(2, 20);
        coverage.appended(1, 30);
        assert_eq!(coverage.oldest(), Some((1, 10)));
        coverage.begin(1);
        coverage.appended(2, 35);
        assert_eq!(coverage.oldest(), Some((1, 10)), "not before it has its name");
        coverage.appended(1, 40);
        coverage.appended(1, 50);
        coverage.publish();
        assert_eq!(coverage.oldest(), Some((2, 20)));
        coverage.begin(2);
        coverage.abandon();
        assert_eq!(coverage.oldest(), Some((2, 20)));
        coverage.begin(2);
        coverage.publish();
        assert_eq!(coverage.oldest(), Some((1, 40)));
        coverage.begin(1);
        coverage.publish();
        assert_eq!(coverage.oldest(), None);
    }

    #[test]
    fn what_a_start_finds_is_older_than_what_was_appended_meanwhile() {
        let mut coverage = Coverage::default();
        coverage.appended(1, 40);
        coverage.appended(2, 50);
        coverage.found(1, 10);
        coverage.found(3, 20);
        assert_eq!(coverage.oldest(), Some((1, 10)));
        coverage.begin(1);
        coverage.publish();
        assert_eq!(coverage.oldest(), Some((3, 20)));
        coverage.begin(3);
        coverage.publish();
        assert_eq!(coverage.oldest(), Some((2, 50)));
    }
}

//! The records that a partition seems to hold. None is stored: key, value and timestamp follow from topic, partition and
//! offset, so every fetch of an offset gives the same bytes, on any server and after any restart.
//!
//! A partition holds offsets 0 to `records` - 1, in batches of [`RECORDS_PER_BATCH`]. As in Kafka, a fetch from within
//! a batch gets the whole batch, and the client skips what lies before its offset.

use crate::limits::RECORDS_PER_PARTITION_MAX;

use super::batch::{BATCH_HEADER_BYTES, Batch, record_bytes};
use super::message_set::{Magic, append_message};

/// Records of a batch; the last batch of a partition may have fewer.
pub const RECORDS_PER_BATCH: i64 = 50;

/// The timestamp of offset 0 in partition 0.
pub const FIRST_TIMESTAMP_MS: i64 = 1_700_000_000_000;

/// From one offset to the next.
pub const TIMESTAMP_STEP_MS: i64 = 1_000;

/// The epoch in which all records were "written": a partition's first.
const LEADER_EPOCH: i32 = 0;

/// What becomes of a first message that does not fit into what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfTooLarge {
    /// It goes all the same, so that the client gets on.
    Whole,
    /// As much of it as fits, which tells the client to allow more: what clients before Fetch v3 expect.
    Cut,
    /// Nothing: there is no more room in this answer. A client that knows such a limit takes a cut message for an error.
    Nothing,
}

/// One partition's records.
#[derive(Clone, Debug)]
pub struct Records {
    /// The value of every record up to its offset.
    value_head: Vec<u8>,
    partition: i32,
    count: i64,
}

impl Records {
    /// Partition `partition` of a topic, holding `count` records, at most [`RECORDS_PER_PARTITION_MAX`].
    pub fn new(topic: &str, partition: i32, count: i64) -> Self {
        let value_head = format!("{{\"topic\":\"{topic}\",\"partition\":{partition},\"offset\":").into_bytes();
        Records { value_head, partition, count: count.clamp(0, RECORDS_PER_PARTITION_MAX) }
    }

    /// The offset behind the last record; it stands still.
    pub fn high_watermark(&self) -> i64 {
        self.count
    }

    /// The timestamp of an offset; it rises with the offset.
    pub fn timestamp_ms(&self, offset: i64) -> i64 {
        FIRST_TIMESTAMP_MS + self.shift_ms() + offset * TIMESTAMP_STEP_MS
    }

    /// The first offset whose timestamp is not before `timestamp_ms`; `None` if there is none.
    pub fn first_not_before(&self, timestamp_ms: i64) -> Option<i64> {
        let ahead_ms = timestamp_ms.saturating_sub(FIRST_TIMESTAMP_MS + self.shift_ms()).max(0);
        let offset = ahead_ms / TIMESTAMP_STEP_MS + (ahead_ms % TIMESTAMP_STEP_MS != 0) as i64;
        (offset < self.count).then_some(offset)
    }

    /// Appends the batches from the one that holds `offset` on, as many as fit into `max_bytes`; with `at_least_one` the
    /// first one even if it does not fit. Returns the bytes appended. At the high watermark or above there are none.
    pub fn append_from(&self, offset: i64, max_bytes: usize, at_least_one: bool, out: &mut Vec<u8>) -> usize {
        debug_assert!(offset >= 0);
        let start = out.len();
        let mut base = offset - offset % RECORDS_PER_BATCH;
        // Only `offset` itself may be beyond the end while its batch is not.
        let mut first = offset < self.count;
        while base < self.count && (first || base > offset) {
            let fits = (out.len() - start).saturating_add(self.batch_bytes(base)) <= max_bytes;
            let is_free = first && at_least_one;
            if !fits && !is_free {
                break;
            }
            self.append_batch(base, out);
            first = false;
            base += RECORDS_PER_BATCH;
        }
        out.len() - start
    }

    /// Appends the same records as messages of an older format, from `offset` on, as many as fit into `max_bytes`.
    pub fn append_messages_from(
        &self,
        offset: i64,
        magic: Magic,
        max_bytes: usize,
        if_too_large: IfTooLarge,
        out: &mut Vec<u8>,
    ) -> usize {
        let start = out.len();
        let mut content = Content::new(self);
        for next in offset..self.count {
            let before = out.len();
            let (key, value) = content.of(next);
            append_message(out, magic, next, self.timestamp_ms(next), key, value);
            if out.len() - start > max_bytes {
                match if_too_large {
                    IfTooLarge::Whole if next == offset => {}
                    IfTooLarge::Cut if next == offset => out.truncate(start + max_bytes),
                    _ => out.truncate(before),
                }
                break;
            }
        }
        out.len() - start
    }

    fn shift_ms(&self) -> i64 {
        self.partition as i64 % TIMESTAMP_STEP_MS
    }

    fn offsets_from(&self, base: i64) -> std::ops::Range<i64> {
        base..self.count.min(base + RECORDS_PER_BATCH)
    }

    fn batch_bytes(&self, base: i64) -> usize {
        let partition_digits = digits(self.partition as i64);
        let record = |offset| {
            let offset_digits = digits(offset);
            let key = partition_digits + 1 + offset_digits;
            let value = self.value_head.len() + offset_digits + 1;
            record_bytes((offset - base) * TIMESTAMP_STEP_MS, offset - base, Some(key), Some(value))
        };
        BATCH_HEADER_BYTES + self.offsets_from(base).map(record).sum::<usize>()
    }

    fn append_batch(&self, base: i64, out: &mut Vec<u8>) {
        out.reserve(self.batch_bytes(base));
        let mut content = Content::new(self);
        let mut batch = Batch::begin(out, base, self.timestamp_ms(base), LEADER_EPOCH);
        for offset in self.offsets_from(base) {
            let (key, value) = content.of(offset);
            batch.record(offset, self.timestamp_ms(offset), Some(key), Some(value));
        }
        batch.finish();
    }
}

/// Makes keys and values, one after the other in the same place.
struct Content {
    key: Vec<u8>,
    key_head_bytes: usize,
    value: Vec<u8>,
    value_head_bytes: usize,
}

impl Content {
    fn new(records: &Records) -> Self {
        let mut key = Vec::with_capacity(32);
        put_digits(&mut key, records.partition as i64);
        key.push(b'-');
        let mut value = Vec::with_capacity(records.value_head.len() + 21);
        value.extend_from_slice(&records.value_head);
        Content { key_head_bytes: key.len(), key, value_head_bytes: value.len(), value }
    }

    fn of(&mut self, offset: i64) -> (&[u8], &[u8]) {
        self.key.truncate(self.key_head_bytes);
        put_digits(&mut self.key, offset);
        self.value.truncate(self.value_head_bytes);
        self.value.extend_from_slice(&self.key[self.key_head_bytes..]);
        self.value.push(b'}');
        (&self.key, &self.value)
    }
}

/// Decimal digits of a number that is not negative.
fn digits(number: i64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

fn put_digits(out: &mut Vec<u8>, number: i64) {
    let start = out.len();
    out.resize(start + digits(number), 0);
    let mut rest = number;
    for place in out[start..].iter_mut().rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::reading::{ReadBatch, Record, read_batch};
    use super::IfTooLarge::*;
    use super::*;

    fn read(mut bytes: &[u8]) -> Vec<ReadBatch> {
        let mut batches = Vec::new();
        while !bytes.is_empty() {
            batches.push(read_batch(&mut bytes));
        }
        batches
    }

    fn fetch(records: &Records, offset: i64, max_bytes: usize, at_least_one: bool) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(records.append_from(offset, max_bytes, at_least_one, &mut out), out.len());
        out
    }

    #[test]
    fn all_records_once_and_in_order() {
        let records = Records::new("demo", 3, 1_000);
        let batches = read(&fetch(&records, 0, usize::MAX, false));
        assert_eq!(batches.len(), 20);
        let all: Vec<&Record> = batches.iter().flat_map(|batch| &batch.records).collect();
        assert_eq!(all.iter().map(|record| record.offset).collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
        assert_eq!(all[17].key.as_deref(), Some(&b"3-17"[..]));
        assert_eq!(all[17].value.as_deref(), Some(&br#"{"topic":"demo","partition":3,"offset":17}"#[..]));
        assert_eq!(all[17].timestamp_ms, FIRST_TIMESTAMP_MS + 3 + 17_000);
        assert!(batches.iter().all(|batch| batch.leader_epoch == 0));
    }

    #[test]
    fn an_offset_has_the_same_bytes_whoever_asks() {
        let records = Records::new("demo", 0, 1_000);
        let all = fetch(&records, 0, usize::MAX, false);
        for offset in [0, 1, 49, 50, 51, 999] {
            let part = fetch(&records, offset, usize::MAX, false);
            assert!(all.ends_with(&part), "from {offset}");
            let first = &read(&part)[0];
            assert!((first.base_offset..=first.last_offset).contains(&offset), "from {offset}");
        }
    }

    #[test]
    fn nothing_at_the_end_and_in_an_empty_partition() {
        for (count, offset) in [(1_000, 1_000), (1_020, 1_020), (1_020, 1_049), (0, 0), (1, 1), (49, 49), (50, 50)] {
            let none = fetch(&Records::new("t", 0, count), offset, usize::MAX, true);
            assert!(none.is_empty(), "{offset} of {count}");
        }
    }

    #[test]
    fn the_last_batch_may_be_short() {
        for (count, last) in [(1, 1), (49, 49), (50, 50), (51, 1), (120, 20)] {
            let batches = read(&fetch(&Records::new("t", 0, count), 0, usize::MAX, false));
            assert_eq!(batches.last().map(|batch| batch.records.len()), Some(last), "of {count}");
        }
    }

    #[test]
    fn max_bytes_holds_but_for_the_first_batch_if_asked() {
        let records = Records::new("t", 0, 1_000);
        let sizes: Vec<usize> = read(&fetch(&records, 0, usize::MAX, false)).iter().map(|batch| batch.bytes).collect();
        let three = sizes[..3].iter().sum::<usize>();
        for (max_bytes, at_least_one, bytes) in [
            (three, false, three),
            (three - 1, false, sizes[0] + sizes[1]),
            (three + sizes[3] - 1, true, three),
            (sizes[0], false, sizes[0]),
            (sizes[0] - 1, false, 0),
            (sizes[0] - 1, true, sizes[0]),
            (0, false, 0),
            (0, true, sizes[0]),
        ] {
            assert_eq!(fetch(&records, 10, max_bytes, at_least_one).len(), bytes, "{max_bytes} {at_least_one}");
        }
    }

    #[test]
    fn sizes_are_exact_where_numbers_grow_longer() {
        for (partition, count) in [(0, 12_000), (9, 101), (12_345, 101), (999, 11)] {
            let records = Records::new(&"n".repeat(249), partition, count);
            for base in (0..count).step_by(RECORDS_PER_BATCH as usize) {
                let mut out = Vec::new();
                records.append_batch(base, &mut out);
                assert_eq!(out.len(), records.batch_bytes(base), "partition {partition}, offset {base}");
            }
        }
    }

    #[test]
    fn older_formats_have_the_same_records() {
        let records = Records::new("demo", 3, 120);
        let expected: Vec<Record> =
            read(&fetch(&records, 0, usize::MAX, false)).into_iter().flat_map(|batch| batch.records).collect();
        for (magic, fixed_bytes) in [(Magic::Zero, 14), (Magic::One, 22)] {
            let mut out = Vec::new();
            assert_eq!(records.append_messages_from(17, magic, usize::MAX, Cut, &mut out), out.len());
            let mut rest = &out[..];
            for record in &expected[17..] {
                let (key, value) = (record.key.as_deref().expect("a key"), record.value.as_deref().expect("a value"));
                let mut message = Vec::new();
                append_message(&mut message, magic, record.offset, record.timestamp_ms, key, value);
                assert_eq!(message.len(), 12 + fixed_bytes + key.len() + value.len());
                assert!(rest.starts_with(&message), "offset {}", record.offset);
                rest = &rest[message.len()..];
            }
            assert!(rest.is_empty());
            assert_eq!(records.append_messages_from(120, magic, usize::MAX, Whole, &mut out), 0);
        }
    }

    #[test]
    fn older_formats_end_between_messages_but_for_a_first_that_does_not_fit() {
        let records = Records::new("t", 0, 120);
        let bytes = |max_bytes, if_too_large| {
            let mut out = Vec::new();
            records.append_messages_from(100, Magic::One, max_bytes, if_too_large, &mut out)
        };
        let one = bytes(1, Whole);
        for if_too_large in [Whole, Cut, Nothing] {
            assert_eq!(bytes(3 * one, if_too_large), 3 * one);
            assert_eq!(bytes(3 * one - 1, if_too_large), 2 * one);
        }
        assert_eq!([Whole, Cut, Nothing].map(|if_too_large| bytes(one - 1, if_too_large)), [one, one - 1, 0]);
        assert_eq!([Whole, Cut, Nothing].map(|if_too_large| bytes(0, if_too_large)), [one, 0, 0]);
    }

    #[test]
    fn the_largest_partition_has_times_and_offsets_in_range() {
        let records = Records::new("t", i32::MAX, RECORDS_PER_PARTITION_MAX);
        let last = RECORDS_PER_PARTITION_MAX - 1;
        let batches = read(&fetch(&records, last, 0, true));
        assert_eq!(batches[0].last_offset, last);
        assert_eq!(records.first_not_before(records.timestamp_ms(last)), Some(last));
        assert_eq!(Records::new("t", 0, RECORDS_PER_PARTITION_MAX + 1).high_watermark(), RECORDS_PER_PARTITION_MAX);
        assert_eq!(Records::new("t", 0, -1).high_watermark(), 0);
    }

    #[test]
    fn times_lead_to_the_first_offset_not_before_them() {
        let records = Records::new("t", 7, 100);
        let first = FIRST_TIMESTAMP_MS + 7;
        for (timestamp_ms, offset) in [
            (0, Some(0)),
            (i64::MIN, Some(0)),
            (first, Some(0)),
            (first + 1, Some(1)),
            (first + 1_000, Some(1)),
            (first + 98_001, Some(99)),
            (first + 99_000, Some(99)),
            (first + 99_001, None),
            (i64::MAX, None),
        ] {
            assert_eq!(records.first_not_before(timestamp_ms), offset, "{timestamp_ms}");
        }
        assert_eq!(Records::new("t", 0, 0).first_not_before(0), None);
        assert!((0..99).all(|offset| records.timestamp_ms(offset) < records.timestamp_ms(offset + 1)));
    }
}

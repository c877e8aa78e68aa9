//! What the group commit says, step by step, without a disk.

use std::io::{Error, ErrorKind};

use super::super::block::BLOCK_BYTES;
use super::super::entry::{Decoded, EntryWriter, decode};
use super::super::segment::{DecodedHeader, HEADER_BYTES, Header, SegmentId};
use super::super::store::{Change, Durability, Entries, FailedPositions, Refused, StoreState, WriteFailure};
use super::super::{JournalPosition, entry};
use super::{FULL_RETRY_MS, SegmentWrite, Start, Writer};
use crate::clock::Now;
use crate::limits::{JOURNAL_ENTRY_MAX_BYTES, JOURNAL_PENDING_MAX_BYTES, JOURNAL_WRITE_MAX_BYTES};

const SEGMENT_BYTES: u64 = HEADER_BYTES + 2 * BLOCK_BYTES as u64;

/// One record with a value of so many bytes.
struct Bytes(usize);

impl Entries for Bytes {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        entries.record(|key| key.push(1), |value| value.resize(value.len() + self.0, 7));
    }
}

struct Two;

impl Entries for Two {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        entries.record(|key| key.push(1), |_| {});
        entries.tombstone(|key| key.push(2));
    }
}

fn writer(mode: Durability, segment_bytes: u64) -> Writer {
    let start = Start { position: 0, previous_end: 0, active: None, next_segment: SegmentId(1) };
    let mut writer = Writer::new(9, mode, segment_bytes, start);
    assert_eq!(writer.poll_prepare(at(0)), Some(SegmentId(1)));
    assert_eq!(writer.poll_prepare(at(0)), None);
    writer.prepared(true, at(0));
    writer
}

impl Writer {
    fn append(&mut self, partition: i32, leader_epoch: i32, records: &dyn Entries) -> Result<JournalPosition, Refused> {
        self.append_all(&[Change { partition, leader_epoch, records }])
    }
}

fn at(monotonic_ms: u64) -> Now {
    Now { monotonic_ms, unix_ms: 0 }
}

fn entries(bytes: &[u8], mut position: u64) -> usize {
    let mut count = 0;
    let mut rest = bytes;
    while let Decoded::Entry(entry) = decode(rest, position, rest.len() as u64) {
        position = entry.end();
        rest = &rest[entry.length()..];
        count += 1;
    }
    assert!(rest.iter().all(|byte| *byte == 0));
    count
}

fn failure(kind: ErrorKind) -> Result<(), WriteFailure> {
    Err(WriteFailure::Write(Error::from(kind)))
}

#[test]
fn what_comes_during_a_write_is_the_next_write() {
    let mut writer = writer(Durability::Fsync, SEGMENT_BYTES);
    assert_eq!(writer.poll_write(at(0)), None);
    let first = writer.append(3, 1, &Bytes(10)).expect("open");
    let SegmentWrite { segment, offset, data, sync, token } = writer.poll_write(at(0)).expect("a write");
    assert_eq!((segment, offset, sync, data.len()), (SegmentId(1), 0, true, 2 * BLOCK_BYTES));
    let header = Header { stream: 9, id: SegmentId(1), base: 0, previous_end: 0, synced: 0 };
    assert_eq!(Header::decode(&data[..BLOCK_BYTES]), DecodedHeader::Header(header));
    assert_eq!(entries(&data[BLOCK_BYTES..], 0), 1);

    let second = writer.append(3, 1, &Two).expect("open");
    let third = writer.append(4, 1, &Bytes(0)).expect("open");
    assert!(first < second && second < third);
    assert_eq!((writer.poll_write(at(0)), writer.durable()), (None, JournalPosition(0)));
    writer.written(token, Ok(()), at(0));
    assert_eq!((writer.durable(), writer.appended()), (first, third));

    let write = writer.poll_write(at(0)).expect("the collection");
    assert_eq!((write.offset, write.data.len()), (HEADER_BYTES, BLOCK_BYTES));
    assert_eq!(entries(&write.data, 0), 4);
    let Decoded::Entry(last) = decode(&write.data[first.0 as usize..], first.0, 500) else { panic!("an entry") };
    assert_eq!((last.synced, last.more), (Some(first.0), true));
    writer.written(write.token, Ok(()), at(0));
    assert_eq!((writer.durable(), writer.poll_write(at(0))), (third, None));
}

#[test]
fn a_full_segment_rolls_to_the_prepared_one() {
    let mut writer = writer(Durability::Fsync, SEGMENT_BYTES);
    let length = (entry::HEADER_BYTES + 1 + 3_000) as u64;
    for _ in 0..4 {
        writer.append(0, 0, &Bytes(3_000)).expect("open");
    }
    let write = writer.poll_write(at(0)).expect("what fits");
    assert_eq!((write.segment, write.data.len()), (SegmentId(1), 3 * BLOCK_BYTES));
    writer.written(write.token, Ok(()), at(0));
    assert_eq!(writer.durable(), JournalPosition(2 * length));
    assert_eq!(writer.poll_write(at(0)), None, "the next segment is not ready");
    assert_eq!(writer.poll_prepare(at(0)), Some(SegmentId(2)));
    writer.prepared(true, at(0));
    let write = writer.poll_write(at(0)).expect("the rest");
    assert_eq!((write.segment, write.offset), (SegmentId(2), 0));
    let header = Header { stream: 9, id: SegmentId(2), base: 2 * length, previous_end: 2 * length, synced: 2 * length };
    assert_eq!(Header::decode(&write.data[..BLOCK_BYTES]), DecodedHeader::Header(header));
    writer.written(write.token, Ok(()), at(0));
    assert_eq!((writer.durable(), writer.appended()), (JournalPosition(4 * length), JournalPosition(4 * length)));
}

#[test]
fn a_full_disk_refuses_until_a_write_succeeds() {
    let mut writer = writer(Durability::Fsync, SEGMENT_BYTES);
    let durable = writer.append(0, 0, &Bytes(10)).expect("open");
    let write = writer.poll_write(at(0)).expect("a write");
    writer.written(write.token, Ok(()), at(0));
    writer.append(0, 0, &Bytes(10)).expect("open");
    let write = writer.poll_write(at(0)).expect("a write");
    writer.append(0, 0, &Bytes(20)).expect("open");
    writer.written(write.token, failure(ErrorKind::StorageFull), at(0));
    assert_eq!((writer.state(), writer.append(0, 0, &Bytes(1))), (StoreState::Full, Err(Refused::Full)));
    let failed = FailedPositions { after: durable, through: writer.appended() };
    assert_eq!((writer.poll_failed(), writer.poll_failed(), writer.durable()), (Some(failed), None, durable));

    // The next segment is needed, which cannot be made at once.
    assert_eq!((writer.poll_write(at(FULL_RETRY_MS)), writer.deadline_ms()), (None, None));
    assert_eq!(writer.poll_prepare(at(FULL_RETRY_MS)), Some(SegmentId(2)));
    writer.prepared(false, at(FULL_RETRY_MS));
    assert_eq!(writer.deadline_ms(), Some(2 * FULL_RETRY_MS));
    assert_eq!(writer.poll_prepare(at(2 * FULL_RETRY_MS)), Some(SegmentId(2)));
    writer.prepared(true, at(2 * FULL_RETRY_MS));
    assert_eq!(writer.deadline_ms(), Some(2 * FULL_RETRY_MS));

    // A header alone is tried, until it succeeds.
    let probe = writer.poll_write(at(2 * FULL_RETRY_MS)).expect("tried");
    let header =
        Header { stream: 9, id: SegmentId(2), base: failed.through.0, previous_end: durable.0, synced: durable.0 };
    assert_eq!((probe.segment, probe.offset, &probe.data[..]), (SegmentId(2), 0, &header.encode()[..]));
    writer.written(probe.token, failure(ErrorKind::QuotaExceeded), at(2 * FULL_RETRY_MS));
    assert_eq!((writer.state(), writer.poll_failed()), (StoreState::Full, None));
    assert_eq!((writer.poll_write(at(3 * FULL_RETRY_MS - 1)), writer.deadline_ms()), (None, Some(3 * FULL_RETRY_MS)));
    let again = writer.poll_write(at(3 * FULL_RETRY_MS)).expect("tried again");
    assert_eq!((again.segment, again.offset, &again.data), (SegmentId(2), 0, &probe.data));
    writer.written(again.token, Ok(()), at(3 * FULL_RETRY_MS));
    assert_eq!((writer.state(), writer.durable()), (StoreState::Open, failed.through));

    let position = writer.append(0, 0, &Bytes(1)).expect("open again");
    let write = writer.poll_write(at(3 * FULL_RETRY_MS)).expect("a write");
    assert_eq!((write.segment, write.offset, entries(&write.data, failed.through.0)), (SegmentId(2), HEADER_BYTES, 1));
    writer.written(write.token, Ok(()), at(3 * FULL_RETRY_MS));
    assert_eq!((writer.durable(), writer.deadline_ms()), (position, None));
}

#[test]
fn any_failed_sync_and_any_other_failed_write_fence() {
    let failures = [
        WriteFailure::Sync(Error::from(ErrorKind::StorageFull)),
        WriteFailure::Sync(Error::from_raw_os_error(5)),
        WriteFailure::Write(Error::from_raw_os_error(5)),
        WriteFailure::Write(Error::from(ErrorKind::WriteZero)),
    ];
    for failure in failures {
        let mut writer = writer(Durability::Fsync, SEGMENT_BYTES);
        let position = writer.append(0, 0, &Bytes(10)).expect("open");
        let write = writer.poll_write(at(0)).expect("a write");
        writer.written(write.token, Err(failure), at(0));
        assert_eq!((writer.state(), writer.append(0, 0, &Bytes(1))), (StoreState::Fenced, Err(Refused::Fenced)));
        let failed = FailedPositions { after: JournalPosition(0), through: position };
        assert_eq!(writer.poll_failed(), Some(failed));
        assert_eq!((writer.poll_write(at(1_000_000)), writer.poll_prepare(at(1_000_000))), (None, None));
        assert_eq!((writer.durable(), writer.deadline_ms()), (JournalPosition(0), None));
    }
}

#[test]
fn no_room_for_the_next_segment_is_a_full_disk() {
    let mut writer = writer(Durability::Fsync, SEGMENT_BYTES);
    for _ in 0..2 {
        writer.append(0, 0, &Bytes(3_000)).expect("open");
    }
    let write = writer.poll_write(at(0)).expect("a write");
    assert_eq!(writer.poll_prepare(at(0)), Some(SegmentId(2)));
    writer.prepared(false, at(0));
    writer.written(write.token, Ok(()), at(0));
    assert_eq!((writer.state(), writer.deadline_ms()), (StoreState::Open, Some(FULL_RETRY_MS)));
    let over = writer.append(0, 0, &Bytes(3_000)).expect("not known to be full yet");
    assert_eq!(writer.poll_write(at(0)), None);
    assert_eq!((writer.state(), writer.poll_failed().map(|failed| failed.through)), (StoreState::Full, Some(over)));
    assert_eq!(writer.poll_prepare(at(FULL_RETRY_MS)), Some(SegmentId(2)));
    writer.prepared(true, at(FULL_RETRY_MS));
    let probe = writer.poll_write(at(FULL_RETRY_MS)).expect("room at last");
    writer.written(probe.token, Ok(()), at(FULL_RETRY_MS));
    assert_eq!((writer.state(), writer.durable()), (StoreState::Open, over));
}

#[test]
fn modes_say_when_it_is_durable() {
    for (mode, at_once, sync) in
        [(Durability::Fsync, false, true), (Durability::Os, false, false), (Durability::None, true, false)]
    {
        let mut writer = writer(mode, SEGMENT_BYTES);
        let position = writer.append(0, 0, &Bytes(10)).expect("open");
        assert_eq!(writer.durable() == position, at_once, "{mode:?}");
        let write = writer.poll_write(at(0)).expect("a write");
        assert_eq!(write.sync, sync, "{mode:?}");
        writer.written(write.token, Ok(()), at(0));
        assert_eq!(writer.durable(), position, "{mode:?}");
    }
}

#[test]
fn limits_hold_at_the_limit_and_not_one_past_it() {
    let overhead = entry::HEADER_BYTES + 1;
    let mut writer = writer(Durability::Fsync, HEADER_BYTES + (JOURNAL_ENTRY_MAX_BYTES + BLOCK_BYTES) as u64);
    let position = writer.append(0, 0, &Bytes(JOURNAL_ENTRY_MAX_BYTES - overhead)).expect("at the limit");
    assert_eq!(writer.append(0, 0, &Bytes(JOURNAL_ENTRY_MAX_BYTES - overhead + 1)), Err(Refused::TooLarge));
    assert_eq!(writer.appended(), position, "nothing is kept of it");
    writer.append(0, 0, &Bytes(JOURNAL_ENTRY_MAX_BYTES - overhead)).expect("exactly what may wait");
    assert_eq!(writer.appended(), JournalPosition(JOURNAL_PENDING_MAX_BYTES as u64));
    writer.append(0, 0, &Bytes(0)).expect("at the limit");
    assert_eq!(writer.append(0, 0, &Bytes(0)), Err(Refused::Busy));
    let write = writer.poll_write(at(0)).expect("a write");
    assert_eq!(write.data.len(), BLOCK_BYTES + JOURNAL_ENTRY_MAX_BYTES, "a large entry goes alone");
    writer.written(write.token, Ok(()), at(0));
    writer.append(0, 0, &Bytes(0)).expect("room again");

    // As much as goes into one write, and one byte more.
    for (excess, entries_written) in [(0, 2), (1, 1)] {
        let mut writer = self::writer(Durability::Fsync, 4 * JOURNAL_WRITE_MAX_BYTES as u64);
        let half = JOURNAL_WRITE_MAX_BYTES / 2 - overhead;
        writer.append(0, 0, &Bytes(half)).expect("open");
        writer.append(0, 0, &Bytes(half + excess)).expect("open");
        let write = writer.poll_write(at(0)).expect("a write");
        assert_eq!(entries(&write.data[BLOCK_BYTES..], 0), entries_written);
    }

    let mut small = self::writer(Durability::Fsync, SEGMENT_BYTES);
    let largest = (SEGMENT_BYTES - HEADER_BYTES) as usize - overhead;
    small.append(0, 0, &Bytes(largest)).expect("as large as a segment");
    assert_eq!(small.append(0, 0, &Bytes(largest + 1)), Err(Refused::TooLarge));
}

#[test]
fn changes_are_taken_together_or_not_at_all() {
    let mut writer = writer(Durability::Fsync, SEGMENT_BYTES);
    let too_large = Bytes(SEGMENT_BYTES as usize);
    let change = |partition, records| Change { partition, leader_epoch: 0, records };
    let refused = writer.append_all(&[change(1, &Bytes(10)), change(2, &too_large), change(3, &Bytes(10))]);
    assert_eq!((refused, writer.appended()), (Err(Refused::TooLarge), JournalPosition(0)));
    assert_eq!(writer.poll_write(at(0)), None, "the first one is not there either");
    let taken = writer.append_all(&[change(1, &Bytes(10)), change(2, &Two), change(3, &Bytes(10))]);
    let write = writer.poll_write(at(0)).expect("a write");
    assert_eq!(entries(&write.data[BLOCK_BYTES..], 0), 4);
    writer.written(write.token, Ok(()), at(0));
    assert_eq!(taken, Ok(writer.durable()));

    // What waits for the disk is looked at once, before the first.
    let mut writer = self::writer(Durability::Fsync, HEADER_BYTES + (2 * JOURNAL_PENDING_MAX_BYTES) as u64);
    let half = Bytes(JOURNAL_PENDING_MAX_BYTES / 2 - 100);
    let changes = [change(1, &half), change(2, &half), change(3, &half)];
    let position = writer.append_all(&changes).expect("nothing waits");
    assert_eq!((writer.append_all(&changes), writer.appended()), (Err(Refused::Busy), position));
}

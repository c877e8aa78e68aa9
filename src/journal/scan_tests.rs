//! Torn tails and damage, one by one: what is cut, what is refused, and what must never come back.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use super::super::block::BLOCK_BYTES;
use super::super::disk::{Disk, join};
use super::super::entry::{Damage, EntryWriter, HEADER_BYTES as ENTRY_HEADER_BYTES};
use super::super::failure::OpenError;
use super::super::replay::{Replay, Replayed};
use super::super::salvage::tests::salvaged;
use super::super::segment::{HEADER_BYTES, SegmentId};
use super::super::store::{Durability, Entries, Store, StoreState, StoreWrite, WriteFailure};
use super::super::stream::{Stream, StreamSettings};
use super::super::testing::MemoryDisk;
use super::Cut;
use crate::clock::Now;

/// One entry that takes this many bytes, with a name.
#[derive(Clone, Copy)]
pub(in crate::journal) struct Sized(pub(in crate::journal) u8, pub(in crate::journal) usize);

impl Entries for Sized {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        entries.record(
            |key| key.push(self.0),
            |value| value.resize(value.len() + self.1 - ENTRY_HEADER_BYTES - 1, self.0),
        );
    }
}

/// Records of one append.
struct Several(Vec<Sized>);

impl Entries for Several {
    fn write(&self, entries: &mut EntryWriter<'_>) {
        self.0.iter().for_each(|record| record.write(entries));
    }
}

const SETTINGS: StreamSettings = StreamSettings {
    mode: Durability::Fsync,
    segment_bytes: HEADER_BYTES + 8 * BLOCK_BYTES as u64,
    prepare_step_bytes: BLOCK_BYTES as u64,
    snapshot_after_bytes: 1 << 30,
    room_bytes: 0,
};

pub(in crate::journal) struct Journal {
    pub(in crate::journal) disk: MemoryDisk,
    pub(in crate::journal) stream: Stream,
}

pub(in crate::journal) fn replay(disk: &MemoryDisk) -> Result<(Replay, String), OpenError> {
    let mut replay = Replay::new(Arc::new(disk.clone()), "s", 1, [0])?;
    let mut names = String::new();
    let mut take = |replayed: Replayed<'_>| {
        if let Replayed::Entry(entry) = replayed {
            names.push(entry.key[0] as char);
        }
    };
    while replay.step(100, &mut take)? {}
    Ok((replay, names))
}

impl Journal {
    pub(in crate::journal) fn fresh() -> Journal {
        let disk = MemoryDisk::default();
        disk.create_folder("s").expect("a folder");
        Journal::open(disk).0
    }

    fn open(disk: MemoryDisk) -> (Journal, String) {
        Journal::open_as(disk, Durability::Fsync)
    }

    fn open_as(disk: MemoryDisk, mode: Durability) -> (Journal, String) {
        let (replay, names) = replay(&disk).expect("it opens");
        let mut stream = Stream::open(&replay, StreamSettings { mode, ..SETTINGS }).expect("it opens");
        stream.replayed(replay);
        let mut journal = Journal { disk, stream };
        journal.jobs();
        (journal, names)
    }

    pub(in crate::journal) fn append(&mut self, entries: &[Sized]) {
        for entry in entries {
            self.stream.append(0, 1, entry).expect("room");
        }
    }

    fn poll_write(&mut self) -> StoreWrite {
        self.stream.poll_write(Now::default()).expect("a write is due")
    }

    pub(in crate::journal) fn jobs(&mut self) {
        while let Some(job) = self.stream.poll_job(Now::default()) {
            self.stream.job_done(job.run(&self.disk), Now::default());
        }
    }

    /// Makes everything durable.
    pub(in crate::journal) fn flush(&mut self) {
        while let Some(write) = self.stream.poll_write(Now::default()) {
            self.disk.write(write.file, write.offset, &write.data).expect("a write");
            self.disk.sync(write.file).expect("a sync");
            self.stream.written(write.token, Ok(()), Now::default());
            self.jobs();
        }
        assert_eq!(self.stream.durable(), self.stream.appended());
    }

    /// Power fails during the next write; only its bytes from `from` on have reached the disk.
    fn tear(mut self, from: usize) -> MemoryDisk {
        let write = self.poll_write();
        self.disk.write(write.file, write.offset + from as u64, &write.data[from..]).expect("a write");
        self.disk.killed()
    }
}

pub(in crate::journal) fn segment(number: u64) -> String {
    join("s", &SegmentId(number).file_name())
}

#[test]
fn what_was_torn_off_does_not_come_back() {
    let mut journal = Journal::fresh();
    journal.append(&[Sized(b'a', 100)]);
    journal.flush();
    journal.append(&[Sized(b'b', BLOCK_BYTES - 100), Sized(b'c', 3_000), Sized(b'd', 3_000)]);
    let disk = journal.tear(BLOCK_BYTES);

    let (cut, names) = replay(&disk).expect("a torn tail is no damage");
    assert_eq!(names, "a");
    let expected = Cut { path: segment(1), offset: HEADER_BYTES + 100, position: 100 };
    assert_eq!(cut.scan().cut, Some(expected));

    let (mut journal, _) = Journal::open(disk);
    journal.append(&[Sized(b'x', BLOCK_BYTES - 100)]);
    journal.flush();
    let (_, names) = Journal::open(journal.disk.killed());
    assert_eq!(names, "ax", "c and d would fit behind x");
}

#[test]
fn a_segment_that_was_only_begun_is_not_used_again() {
    let mut journal = Journal::fresh();
    journal.append(&[Sized(b'a', 8 * BLOCK_BYTES)]);
    journal.flush();
    journal.append(&[Sized(b'b', BLOCK_BYTES), Sized(b'c', 3_000)]);
    // The header and the first entry are lost.
    let (mut journal, names) = Journal::open(journal.tear(2 * BLOCK_BYTES));
    assert_eq!(names, "a");
    journal.append(&[Sized(b'x', BLOCK_BYTES)]);
    journal.flush();
    let (_, names) = Journal::open(journal.disk.killed());
    assert_eq!(names, "ax");
}

#[test]
fn half_an_append_does_not_count() {
    struct Two;
    impl Entries for Two {
        fn write(&self, entries: &mut EntryWriter<'_>) {
            Sized(b'b', 5_000).write(entries);
            Sized(b'c', 5_000).write(entries);
        }
    }
    let mut journal = Journal::fresh();
    journal.append(&[Sized(b'a', 100)]);
    journal.stream.append(0, 1, &Two).expect("room");
    let write = journal.poll_write();
    journal.disk.write(write.file, 0, &write.data[..3 * BLOCK_BYTES]).expect("a write");
    let (journal, names) = Journal::open(journal.disk.killed());
    assert_eq!((names.as_str(), journal.stream.appended().0), ("a", 100));
}

#[test]
fn damage_below_what_was_synced_is_refused() {
    let mut journal = Journal::fresh();
    for name in [b'a', b'b', b'c'] {
        journal.append(&[Sized(name, 1_000)]);
        journal.flush();
    }
    for (damaged, byte) in [(0, 500), (1, 4), (1, 0), (1, 999)] {
        let disk = journal.disk.killed();
        disk.damage(&segment(1), HEADER_BYTES + damaged * 1_000 + byte, |bytes| bytes[0] ^= 1);
        let error = replay(&disk).err().expect("refused");
        let OpenError::Damaged { path, offset, position, .. } = &error else { panic!("{error}") };
        assert_eq!((path, *offset, *position), (&segment(1), HEADER_BYTES + damaged * 1_000, damaged * 1_000));
        assert!(error.to_string().contains("rallypoint journal repair"), "{error}");
    }
    let disk = journal.disk.killed();
    disk.damage(&segment(1), HEADER_BYTES + 1_000, |bytes| bytes[..1_000].fill(0));
    let error = replay(&disk).err().expect("a hole is refused");
    assert!(matches!(error, OpenError::Damaged { damage: Damage::Zeros, .. }), "{error}");

    // The last entry may never have been acknowledged: nobody can tell.
    let disk = journal.disk.killed();
    disk.damage(&segment(1), HEADER_BYTES + 2_500, |bytes| bytes[0] ^= 1);
    let (cut, names) = replay(&disk).expect("cut");
    assert_eq!((names.as_str(), cut.scan().end), ("ab", 2_000));
}

#[test]
fn damage_in_an_earlier_segment_and_missing_ones_are_refused() {
    let mut journal = Journal::fresh();
    for name in [b'a', b'b', b'c', b'd'] {
        journal.append(&[Sized(name, 5 * BLOCK_BYTES)]);
        journal.flush();
    }
    journal.append(&[Sized(b'e', 100)]);
    journal.flush();
    let last = journal.disk.list("s").expect("a folder").len() as u64;
    assert_eq!(last, 5, "four in use, one prepared");
    for (number, offset) in [(1, HEADER_BYTES + 10), (3, HEADER_BYTES + 10), (1, 20), (2, 20), (4, 20)] {
        let disk = journal.disk.killed();
        disk.damage(&segment(number), offset, |bytes| bytes[0] ^= 1);
        let error = replay(&disk).err().unwrap_or_else(|| panic!("segment {number} at {offset}: accepted"));
        let names_it = error.to_string().contains(&SegmentId(number).file_name());
        let names_the_one_before = error.to_string().contains(&SegmentId(number - 1).file_name());
        assert!(names_it || names_the_one_before, "segment {number} at {offset}: {error}");
    }
    for number in [2, 3] {
        let disk = journal.disk.killed();
        disk.remove(&segment(number)).expect("it is there");
        let error = replay(&disk).err().expect("refused");
        assert!(matches!(error, OpenError::Misplaced { .. }), "{error}");
    }
    let disk = journal.disk.killed();
    disk.rename(&segment(5), &segment(6)).expect("a rename");
    disk.rename(&segment(4), &segment(5)).expect("a rename");
    disk.rename(&segment(6), &segment(4)).expect("a rename");
    assert!(matches!(replay(&disk), Err(OpenError::Misplaced { .. })));
}

#[test]
fn a_snapshot_that_saw_what_failed_is_given_up() {
    let mut journal = Journal::fresh();
    journal.append(&[Sized(b'a', 100)]);
    journal.flush();
    journal.stream.begin_snapshot(0, 1);
    journal.append(&[Sized(b'b', 100)]);
    journal.stream.snapshot_records(&Sized(b'b', 100));
    let write = journal.poll_write();
    let full = WriteFailure::Write(Error::from(ErrorKind::StorageFull));
    journal.stream.written(write.token, Err(full), Now::default());
    assert_eq!(journal.stream.state(), StoreState::Full);
    assert_eq!(journal.stream.snapshot_under_way(), None);
    journal.stream.complete_snapshot();
    journal.jobs();
    let later = Now { monotonic_ms: 10_000, unix_ms: 0 };
    let probe = journal.stream.poll_write(later).expect("tried again");
    journal.disk.write(probe.file, probe.offset, &probe.data).expect("a write");
    journal.stream.written(probe.token, Ok(()), later);
    assert_eq!(journal.stream.state(), StoreState::Open);
    journal.append(&[Sized(b'c', 100)]);
    journal.flush();
    let (_, names) = Journal::open(journal.disk.killed());
    assert_eq!(names, "ac");
}

#[test]
fn where_only_a_snapshot_was_nothing_was_synced() {
    for mode in [Durability::Os, Durability::Fsync] {
        let mut journal = Journal::open_as(MemoryDisk::with_folder("s"), Durability::Os).0;
        journal.append(&[Sized(b'a', 100)]);
        journal.flush();
        journal.append(&[Sized(b'b', 400)]);
        let write = journal.poll_write();
        journal.disk.write(write.file, write.offset, &write.data).expect("a write");
        journal.stream.written(write.token, Ok(()), Now::default());
        journal.stream.begin_snapshot(0, 1);
        journal.stream.snapshot_records(&Sized(b's', 100));
        journal.stream.complete_snapshot();
        journal.jobs();

        let (mut journal, names) = Journal::open_as(journal.disk.crash(&mut |_| 0), mode);
        assert_eq!((names.as_str(), journal.stream.appended().0), ("s", 500));
        journal.append(&[Sized(b'c', 100)]);
        // The header of the new segment is lost.
        let (_, names) = Journal::open_as(journal.tear(HEADER_BYTES as usize), mode);
        assert_eq!(names, "s");
    }
}

#[test]
fn the_last_segments_of_an_append_that_failed_are_no_damage_without_the_first_ones() {
    let mut journal = Journal::fresh();
    journal.append(&[Sized(b'a', 100)]);
    journal.flush();
    let long = (0..25).map(|_| Sized(b'b', 4_000)).collect();
    journal.stream.append(0, 1, &Several(long)).expect("room");
    let later = Now { monotonic_ms: 10_000, unix_ms: 0 };
    for number in 1.. {
        let write = journal.poll_write();
        if number == 4 {
            let full = WriteFailure::Write(Error::from(ErrorKind::StorageFull));
            journal.stream.written(write.token, Err(full), Now::default());
            break;
        }
        journal.disk.write(write.file, write.offset, &write.data).expect("a write");
        journal.disk.sync(write.file).expect("a sync");
        journal.stream.written(write.token, Ok(()), Now::default());
        journal.jobs();
    }
    journal.jobs();
    let probe = journal.stream.poll_write(later).expect("tried again");
    journal.disk.write(probe.file, probe.offset, &probe.data).expect("a write");
    journal.disk.sync(probe.file).expect("a sync");
    journal.stream.written(probe.token, Ok(()), later);
    journal.append(&[Sized(b'c', 100)]);
    journal.flush();
    for (gone, left) in [(0, "ac"), (1, "c"), (2, "c"), (3, "c")] {
        let disk = journal.disk.killed();
        (1..=gone).for_each(|number| disk.remove(&segment(number)).expect("it is there"));
        assert_eq!(salvaged(&disk).0, left, "without the first {gone}");
        let (mut opened, names) = Journal::open(disk);
        assert_eq!(names, left, "without the first {gone}");
        opened.append(&[Sized(b'd', 100)]);
        opened.flush();
        assert_eq!(Journal::open(opened.disk.killed()).1, format!("{left}d"));
    }
}

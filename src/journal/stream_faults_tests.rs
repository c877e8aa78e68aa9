//! What a stream makes of one fault, or one end, at the worst moment.

use std::io::{Error, ErrorKind};
use std::ops::Range;

use super::super::super::writer::FULL_RETRY_MS;
use super::*;

/// Of a snapshot in several pieces.
const KEYS: Range<u8> = 0..8;

const VALUE_BYTES: usize = 100_000;

const LATER: Now = Now { monotonic_ms: FULL_RETRY_MS, unix_ms: 0 };

fn long_snapshot() -> State {
    KEYS.map(|key| ((0, key), vec![key; VALUE_BYTES])).collect()
}

impl Simple {
    fn poll_jobs(&mut self) -> Vec<Job> {
        std::iter::from_fn(|| self.stream.poll_job(Now::default())).collect()
    }

    fn run(&mut self, jobs: Vec<Job>) {
        jobs.into_iter().for_each(|job| self.stream.job_done(job.run(&self.disk), Now::default()));
    }

    /// Takes a snapshot of partition 0 and gives its jobs, of which none has been done.
    fn begin_long_snapshot(&mut self) -> Vec<Job> {
        self.stream.begin_snapshot(0, 1);
        let mut jobs = Vec::new();
        for key in KEYS {
            assert!(self.stream.snapshot_wants_records());
            self.stream.snapshot_records(&Listed(vec![(key, Some(vec![key; VALUE_BYTES]))]));
            jobs.extend(self.poll_jobs());
        }
        self.stream.complete_snapshot();
        jobs.extend(self.poll_jobs());
        assert!(jobs.len() >= 2, "{} pieces", jobs.len());
        jobs
    }

    fn append_unwritten(&mut self, partition: i32, key: u8, value: &[u8]) {
        self.stream.append(partition, 1, &Listed(vec![(key, Some(value.to_vec()))])).expect("room");
    }

    fn fail_write(&mut self) {
        let write = self.stream.poll_write(Now::default()).expect("a write is due");
        let full = WriteFailure::Write(Error::from(ErrorKind::StorageFull));
        self.stream.written(write.token, Err(full), Now::default());
        assert_eq!(self.stream.state(), StoreState::Full);
    }

    fn probe(&mut self) {
        let probe = self.stream.poll_write(LATER).expect("tried again");
        self.disk.write(probe.file, probe.offset, &probe.data).expect("a write");
        self.disk.sync(probe.file).expect("a sync");
        self.stream.written(probe.token, Ok(()), LATER);
        assert_eq!(self.stream.state(), StoreState::Open);
    }

    /// The power fails during an append: its first block is lost, and the others are there.
    fn torn(mut self) -> MemoryDisk {
        self.append_unwritten(0, 0, &[1; BLOCK_BYTES + 1_000]);
        let write = self.stream.poll_write(Now::default()).expect("a write is due");
        let from = BLOCK_BYTES;
        self.disk.write(write.file, write.offset + from as u64, &write.data[from..]).expect("a write");
        self.disk.killed()
    }
}

fn files(disk: &MemoryDisk, prefix: &str) -> Vec<String> {
    disk.paths().into_iter().filter(|path| path.starts_with(&format!("s/{prefix}"))).collect()
}

#[test]
fn a_snapshot_of_several_pieces_is_read_back() {
    let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
    life.append(0, 0, b"covered");
    let jobs = life.begin_long_snapshot();
    life.run(jobs);
    life.settle();
    assert_eq!(life.stream.snapshot_under_way(), None);
    assert_eq!(replay(&life.disk.killed()).expect("it is whole"), long_snapshot());
}

#[test]
fn a_snapshot_that_lacks_a_piece_gets_no_name() {
    for (fault, piece) in [(Fault::Full, 0), (Fault::Failing, 0), (Fault::Full, 1), (Fault::Failing, 1)] {
        let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
        life.append(0, 0, b"old");
        life.snapshot(0, 0, b"old");
        life.append(0, 0, b"new");
        let snapshots = files(&life.disk, "snapshot-");
        let jobs = life.begin_long_snapshot();
        // The first step makes the file.
        life.disk.fail_at(life.disk.steps() + 1 + piece, fault);
        life.run(jobs);
        life.settle();
        assert_eq!(files(&life.disk, "snapshot-"), snapshots, "{fault:?} of piece {piece}");
        let found = replay(&life.disk.killed()).expect("it is whole");
        assert_eq!(found, State::from([((0, 0), b"new".to_vec())]));
    }
}

#[test]
fn pieces_of_a_snapshot_that_was_given_up_do_not_count_for_the_next_one() {
    let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
    life.append_unwritten(0, 0, b"not kept");
    let late = life.begin_long_snapshot();
    life.fail_write();
    assert_eq!(life.stream.snapshot_under_way(), None);
    let jobs = life.begin_long_snapshot();
    life.run(late);
    life.run(jobs);
    life.probe();
    life.settle();
    assert_eq!(life.stream.snapshot_under_way(), None);
    assert_eq!(replay(&life.disk.killed()).expect("it is whole"), long_snapshot());
}

#[test]
fn a_prepared_segment_stays_whenever_the_process_that_prepared_it_ended() {
    for steps in 0.. {
        let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
        life.append_unwritten(0, 0, &[0; 8_000]);
        let write = life.stream.poll_write(Now::default()).expect("a write is due");
        life.disk.write(write.file, write.offset, &write.data).expect("a write");
        life.disk.sync(write.file).expect("a sync");
        life.stream.written(write.token, Ok(()), Now::default());
        life.disk.fail_at(life.disk.steps() + steps, Fault::PowerOff);
        while let Some(job) = life.stream.poll_job(Now::default()) {
            life.run(vec![job]);
        }
        if !life.disk.is_off() {
            assert!(steps > 4, "all of it was tried");
            break;
        }
        let mut life = Simple::opened(&life.disk.killed());
        life.append(0, 1, &[1; 3_000]);
        // Into the next segment, and not so much that the one behind that is prepared too.
        life.append(0, 2, &[2; 1_500]);
        let found = replay(&life.disk.crash(&mut |_| 0)).expect("it is whole");
        let lengths = found.values().map(Vec::len);
        assert!(lengths.eq([8_000, 3_000, 1_500]), "{steps} steps");
    }
}

#[test]
fn starts_that_cut_the_log_do_not_make_it_grow() {
    let mut disk = MemoryDisk::with_folder("s");
    for number in 0..12 {
        let mut life = Simple::opened(&disk);
        life.append(0, 0, &[number]);
        if let Some(partition) = life.stream.snapshot_due(Now::default()) {
            life.snapshot(partition, 0, &[number]);
        }
        assert!(segments(&disk) <= 6, "{} segments after {number} starts", segments(&disk));
        disk = life.torn();
        assert_eq!(replay(&disk).expect("it is whole"), State::from([((0, 0), vec![number])]));
    }
}

#[test]
fn what_a_snapshot_sets_free_during_a_removal_goes_behind_it() {
    let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
    for partition in [1, 2, 0, 0] {
        (0..4).for_each(|_| life.append(partition, 0, &[1; 3_000]));
    }
    let bases = life.stream.bases.clone();
    assert_eq!(bases.len(), 4);
    let mut removals = Vec::new();
    for partition in [1, 2] {
        life.stream.begin_snapshot(partition, 1);
        life.stream.snapshot_records(&Listed(vec![(0, Some(vec![1; 3_000]))]));
        life.stream.complete_snapshot();
        let jobs = life.poll_jobs();
        life.run(jobs);
        removals.extend(life.poll_jobs());
    }
    assert_eq!(removals.len(), 1);
    life.run(removals);
    life.settle();
    assert!(life.stream.bases.keys().eq(bases.keys().skip(2)));
}

#[test]
fn a_start_on_a_full_disk_reads_and_writes_again_when_there_is_space() {
    let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
    life.append(0, 0, b"kept");
    let disk = life.torn();
    disk.set_capacity(Some(0));
    let mut life = Simple::opened(&disk);
    life.append_unwritten(0, 1, b"refused");
    life.settle();
    assert_eq!(life.stream.state(), StoreState::Full);
    assert!(life.stream.poll_failed().is_some());
    disk.set_capacity(None);
    while let Some(job) = life.stream.poll_job(LATER) {
        life.run(vec![job]);
    }
    life.probe();
    life.append(0, 2, b"taken");
    let expected = State::from([((0, 0), b"kept".to_vec()), ((0, 2), b"taken".to_vec())]);
    assert_eq!(replay(&disk.killed()).expect("it is whole"), expected);
}

#[test]
fn room_that_is_kept_for_segments_goes_when_a_snapshot_finds_none() {
    for fault in [Fault::Failing, Fault::Full] {
        let mut life = Simple::opened(&MemoryDisk::with_folder("s"));
        (0..12).for_each(|_| life.append(0, 0, &[1; 3_000]));
        life.snapshot(0, 0, &[1; 3_000]);
        assert!(!files(&life.disk, "spare-").is_empty());
        let jobs = life.begin_long_snapshot();
        life.disk.fail_at(life.disk.steps() + 1, fault);
        life.run(jobs);
        life.settle();
        assert_eq!(files(&life.disk, "spare-").is_empty(), fault == Fault::Full);
    }
}

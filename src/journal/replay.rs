//! Reads a stream back: each partition's snapshot, then the log behind it, entry by entry and in steps, so that the core can
//! do other things in between. A partition is said to be loaded as soon as nothing of it is to come. Changes nothing on the
//! disk; what goes on from there is [`super::stream`].

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::coverage::Coverage;
use super::disk::{Disk, join};
use super::entry::Entry;
use super::failure::{At, OpenError};
use super::reader::EntryReader;
use super::reading::{Reading, Teller};
use super::scan::{Extent, Scan, Scanner};
use super::segment::HEADER_BYTES;
use super::snapshot::{SnapshotId, SnapshotReader};

/// What a step of a replay gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed<'a> {
    /// The next record; the last one of a key counts.
    Entry(Entry<'a>),
    /// Nothing of this partition is to come.
    Loaded(i32),
}

/// How far a replay is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// Read so far.
    pub bytes_done: u64,
    /// To read in all; shrinks when it turns out that a segment is not full.
    pub bytes_total: u64,
    /// Records given so far.
    pub entries: u64,
}

/// The replay of one stream.
pub struct Replay {
    disk: Arc<dyn Disk>,
    folder: String,
    stream: u32,
    partitions: FxHashMap<i32, Partition>,
    superseded: Vec<SnapshotId>,
    phase: Phase,
    scan: Scan,
    coverage: Coverage,
    /// Size of each.
    snapshot_bytes: BTreeMap<i32, u64>,
    /// The position up to which some snapshot says that the log was once.
    complete_at: u64,
    progress: Progress,
    teller: Teller,
}

/// What is known of a partition.
#[derive(Default)]
struct Partition {
    /// The newest.
    snapshot: Option<SnapshotId>,
    /// Position of its last entry in the log.
    last: Option<u64>,
    /// Whether an entry was found that the snapshot does not cover.
    is_in_log: bool,
    is_loaded: bool,
}

enum Phase {
    Scan(Scanner),
    Snapshots(Option<SnapshotReader>, std::vec::IntoIter<SnapshotId>),
    Log(Option<EntryReader>, usize),
    Done,
}

/// What a replay found; where the stream goes on.
pub(super) struct Outcome {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: String,
    pub(super) stream: u32,
    pub(super) scan: Scan,
    pub(super) coverage: Coverage,
    pub(super) superseded: Vec<SnapshotId>,
    pub(super) snapshot_bytes: BTreeMap<i32, u64>,
    pub(super) complete_at: u64,
}

impl Replay {
    /// Begins the replay of the stream in a folder. `partitions` are those that live in it: each will be said to be loaded.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn new(
        disk: Arc<dyn Disk>,
        folder: &str,
        stream: u32,
        partitions: impl IntoIterator<Item = i32>,
    ) -> Result<Self, OpenError> {
        let scanner = Scanner::new(disk.clone(), folder, stream)?;
        let mut found: Vec<_> =
            disk.list(folder).at(folder)?.iter().filter_map(|name| SnapshotId::of_file_name(name)).collect();
        found.sort_unstable();
        let mut replay = Replay {
            disk,
            folder: folder.to_owned(),
            stream,
            partitions: partitions.into_iter().map(|partition| (partition, Partition::default())).collect(),
            superseded: Vec::new(),
            progress: Progress { bytes_total: 2 * scanner.bytes_total(), ..Progress::default() },
            phase: Phase::Scan(scanner),
            scan: Scan::default(),
            coverage: Coverage::default(),
            snapshot_bytes: BTreeMap::new(),
            complete_at: 0,
            teller: Teller::default(),
        };
        for id in found {
            let newest = &mut replay.partitions.entry(id.partition).or_default().snapshot;
            replay.superseded.extend(newest.replace(id));
        }
        for id in replay.partitions.values().filter_map(|partition| partition.snapshot) {
            let snapshot = SnapshotReader::open(replay.disk.as_ref(), folder, stream, id)?;
            replay.snapshot_bytes.insert(id.partition, snapshot.file_bytes);
            replay.complete_at = replay.complete_at.max(snapshot.complete_at);
        }
        replay.progress.bytes_total += replay.snapshot_bytes.values().sum::<u64>();
        replay.teller.tell(replay.progress);
        Ok(replay)
    }

    /// Goes on for about `budget` entries (or one segment, while the log is checked) and gives what it reads to `take`.
    /// False when all is read.
    ///
    /// # Errors
    /// [`OpenError`]: the replay is over.
    pub fn step(&mut self, budget: usize, take: &mut dyn FnMut(Replayed<'_>)) -> Result<bool, OpenError> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Scan(scanner) => self.check(scanner, take)?,
            Phase::Snapshots(reader, rest) => self.read_snapshots(reader, rest, budget, take)?,
            Phase::Log(reader, index) => self.read_log(reader, index, budget, take)?,
            Phase::Done => {}
        }
        self.teller.tell(self.progress);
        Ok(!matches!(self.phase, Phase::Done))
    }

    /// How far it is, for another thread.
    pub fn reading(&self) -> Arc<Reading> {
        self.teller.reading()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// What the log turned out to hold, once it was checked.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    pub(super) fn into_outcome(self) -> Outcome {
        assert!(matches!(self.phase, Phase::Done), "the replay is done");
        Outcome {
            disk: self.disk,
            folder: self.folder,
            stream: self.stream,
            scan: self.scan,
            coverage: self.coverage,
            superseded: self.superseded,
            snapshot_bytes: self.snapshot_bytes,
            complete_at: self.complete_at,
        }
    }

    fn check(&mut self, mut scanner: Scanner, take: &mut dyn FnMut(Replayed<'_>)) -> Result<(), OpenError> {
        if !scanner.step()? {
            self.progress.bytes_done = scanner.bytes_done();
            self.phase = Phase::Scan(scanner);
            return Ok(());
        }
        self.scan = scanner.into_scan();
        let log_bytes: u64 = self.scan.extents.iter().map(Extent::bytes).sum();
        self.progress.bytes_done = log_bytes;
        self.progress.bytes_total = 2 * log_bytes + self.snapshot_bytes.values().sum::<u64>();
        for (partition, last) in &self.scan.last_of {
            self.partitions.entry(*partition).or_default().last = Some(*last);
        }
        for (number, partition) in &mut self.partitions {
            if partition.snapshot.is_none() && partition.last.is_none() {
                partition.is_loaded = true;
                take(Replayed::Loaded(*number));
            }
        }
        let mut snapshots: Vec<_> = self.partitions.values().filter_map(|partition| partition.snapshot).collect();
        snapshots.sort_unstable();
        self.phase = Phase::Snapshots(None, snapshots.into_iter());
        Ok(())
    }

    fn read_snapshots(
        &mut self,
        mut reader: Option<SnapshotReader>,
        mut rest: std::vec::IntoIter<SnapshotId>,
        budget: usize,
        take: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<(), OpenError> {
        if reader.is_none() {
            let Some(id) = rest.next() else {
                self.phase = Phase::Log(None, 0);
                return Ok(());
            };
            reader = Some(self.open_snapshot(id)?);
        }
        let mut snapshot = reader.expect("one is open");
        let before = snapshot.bytes_read();
        for _ in 0..budget {
            let Some(entry) = snapshot.next_entry()? else {
                self.progress.bytes_done += snapshot.file_bytes - before;
                let partition = self.partitions.get_mut(&snapshot.id.partition).expect("it has a snapshot");
                if partition.last.is_none_or(|last| last < snapshot.id.covers) {
                    partition.is_loaded = true;
                    take(Replayed::Loaded(snapshot.id.partition));
                }
                self.phase = Phase::Snapshots(None, rest);
                return Ok(());
            };
            self.progress.entries += 1;
            take(Replayed::Entry(entry));
        }
        self.progress.bytes_done += snapshot.bytes_read() - before;
        self.phase = Phase::Snapshots(Some(snapshot), rest);
        Ok(())
    }

    fn open_snapshot(&self, id: SnapshotId) -> Result<SnapshotReader, OpenError> {
        let snapshot = SnapshotReader::open(self.disk.as_ref(), &self.folder, self.stream, id)?;
        if snapshot.synced > self.scan.end {
            return Err(OpenError::Misplaced {
                path: self.folder.clone(),
                problem: format!(
                    "the log ends at position {}, but the snapshot of partition {} says that it was on disk up to {}",
                    self.scan.end, id.partition, snapshot.synced
                ),
            });
        }
        Ok(snapshot)
    }

    fn read_log(
        &mut self,
        mut reader: Option<EntryReader>,
        index: usize,
        budget: usize,
        take: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<(), OpenError> {
        let Some(extent) = self.scan.extents.get(index).copied() else {
            // Of the last append of a partition only a part was there.
            for (number, partition) in self.partitions.iter_mut().filter(|(_, partition)| !partition.is_loaded) {
                partition.is_loaded = true;
                take(Replayed::Loaded(*number));
            }
            return Ok(());
        };
        let path = join(&self.folder, &extent.header.id.file_name());
        if reader.is_none() {
            let file = self.disk.open(&path).at(&path)?;
            let end_offset = extent.header.offset_of(extent.end);
            reader = Some(EntryReader::new(file, HEADER_BYTES, extent.header.base, end_offset).at(&path)?);
        }
        let mut log = reader.expect("one is open");
        let before = log.position();
        for _ in 0..budget {
            let Some(entry) = log.next_checked().at(&path)? else {
                self.progress.bytes_done += log.position() - before;
                self.phase = Phase::Log(None, index + 1);
                return Ok(());
            };
            self.give(entry, take);
        }
        self.progress.bytes_done += log.position() - before;
        self.phase = Phase::Log(Some(log), index);
        Ok(())
    }

    fn give(&mut self, entry: Entry<'_>, take: &mut dyn FnMut(Replayed<'_>)) {
        let partition = self.partitions.get_mut(&entry.partition).expect("the scan has seen it");
        if partition.snapshot.is_none_or(|snapshot| entry.end() > snapshot.covers) {
            self.progress.entries += 1;
            if !partition.is_in_log {
                partition.is_in_log = true;
                self.coverage.appended(entry.partition, entry.position);
            }
            take(Replayed::Entry(entry));
        }
        if partition.last == Some(entry.position) && !partition.is_loaded {
            partition.is_loaded = true;
            take(Replayed::Loaded(entry.partition));
        }
    }
}

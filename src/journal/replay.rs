//! Reads a stream back, in steps, so that the core can do other things in between. First the log is checked: then it is known
//! where it ends, and [`super::stream`] may go on from there. Then each partition's snapshot is given, and the log behind it,
//! entry by entry. A partition is said to be loaded as soon as nothing of it is to come. Changes nothing on the disk, and reads
//! nothing that was appended since the log was checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::disk::{Disk, join};
use super::entry::Entry;
use super::failure::{At, OpenError};
use super::reader::EntryReader;
use super::reading::{Reading, Teller};
use super::scan::{CUT, Cut, Extent, Scan, Scanner};
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
    /// Position of the first entry that the snapshot does not cover, once it was read.
    first: Option<u64>,
    is_loaded: bool,
}

impl Partition {
    /// Whether the log has entries that the snapshot does not cover.
    fn has_tail(&self) -> bool {
        let covers = self.snapshot.map_or(0, |snapshot| snapshot.covers);
        self.last.is_some_and(|last| last >= covers)
    }
}

/// Else it could overwrite what has changed since.
const NOT_LOADED: &str = "what is given is of a partition that is not loaded";

enum Phase {
    Scan(Scanner),
    Snapshots(Option<SnapshotReader>, std::vec::IntoIter<SnapshotId>),
    Log(Option<EntryReader>, usize),
    Done,
}

/// What is known once the log was checked; where the stream goes on.
pub(super) struct Checked<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) folder: &'a str,
    pub(super) stream: u32,
    pub(super) scan: &'a Scan,
    pub(super) snapshot_bytes: &'a BTreeMap<i32, u64>,
    pub(super) complete_at: u64,
}

/// What is known once all was read.
pub(super) struct Outcome {
    /// Each partition's first entry in the log that its snapshot does not cover.
    pub(super) needed: Vec<(i32, u64)>,
    /// Snapshots that there are newer ones of.
    pub(super) superseded: Vec<SnapshotId>,
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

    /// Goes on for up to `budget` entries and gives what it reads to `take`. False when all is read.
    ///
    /// # Errors
    /// [`OpenError`]: the replay is over. What is wrong with the log is found before anything is given; damage in a snapshot
    /// when it is read.
    pub fn step(&mut self, budget: usize, take: &mut dyn FnMut(Replayed<'_>)) -> Result<bool, OpenError> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Scan(scanner) => self.check(scanner, budget, take)?,
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

    /// Whether the log was checked, so that it is known where it ends.
    pub fn is_checked(&self) -> bool {
        !matches!(self.phase, Phase::Scan(_))
    }

    /// Whether nothing of this partition is to come.
    pub fn is_loaded(&self, partition: i32) -> bool {
        self.is_checked() && self.partitions.get(&partition).is_none_or(|found| found.is_loaded)
    }

    /// What the log turned out to hold, once it was checked.
    pub fn scan(&self) -> &Scan {
        &self.scan
    }

    pub(super) fn checked(&self) -> Checked<'_> {
        assert!(self.is_checked(), "it is known where the log ends");
        Checked {
            disk: self.disk.as_ref(),
            folder: &self.folder,
            stream: self.stream,
            scan: &self.scan,
            snapshot_bytes: &self.snapshot_bytes,
            complete_at: self.complete_at,
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        assert!(matches!(self.phase, Phase::Done), "the replay is done");
        let first = |(number, found): (i32, Partition)| Some((number, found.first?));
        Outcome { needed: self.partitions.into_iter().filter_map(first).collect(), superseded: self.superseded }
    }

    fn check(
        &mut self,
        mut scanner: Scanner,
        budget: usize,
        take: &mut dyn FnMut(Replayed<'_>),
    ) -> Result<(), OpenError> {
        if !scanner.step(budget)? {
            self.progress.bytes_done = scanner.bytes_done();
            self.phase = Phase::Scan(scanner);
            return Ok(());
        }
        self.scan = scanner.into_scan();
        if let Some(Cut { path, offset, position }) = &self.scan.cut {
            tracing::warn!(path, offset, position, "the log is cut here: {CUT}");
        }
        let log_bytes: u64 = self.scan.extents.iter().map(Extent::bytes).sum();
        self.progress.bytes_done = log_bytes;
        self.progress.bytes_total = 2 * log_bytes + self.snapshot_bytes.values().sum::<u64>();
        for (partition, last) in &self.scan.last_of {
            self.partitions.entry(*partition).or_default().last = Some(*last);
        }
        // Those first of which nothing else is to come.
        let with_snapshot = |partition: &Partition| Some((partition.has_tail(), partition.snapshot?));
        let mut snapshots: Vec<_> = self.partitions.values().filter_map(with_snapshot).collect();
        snapshots.sort_unstable();
        for (_, id) in &snapshots {
            self.open_snapshot(*id)?;
        }
        for (number, partition) in &mut self.partitions {
            if partition.snapshot.is_none() && partition.last.is_none() {
                partition.is_loaded = true;
                take(Replayed::Loaded(*number));
            }
        }
        let ids: Vec<_> = snapshots.into_iter().map(|(_, id)| id).collect();
        self.phase = Phase::Snapshots(None, ids.into_iter());
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
        let (number, before) = (snapshot.id.partition, snapshot.bytes_read());
        let partition = self.partitions.get_mut(&number).expect("it has a snapshot");
        for _ in 0..budget {
            let Some(entry) = snapshot.next_entry()? else {
                self.progress.bytes_done += snapshot.file_bytes - before;
                if !partition.has_tail() {
                    partition.is_loaded = true;
                    take(Replayed::Loaded(number));
                }
                self.phase = Phase::Snapshots(None, rest);
                return Ok(());
            };
            self.progress.entries += 1;
            assert!(entry.partition == number && !partition.is_loaded, "{NOT_LOADED}");
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
            assert!(self.partitions.values().all(|partition| partition.is_loaded), "the last entry of each was given");
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
            partition.first.get_or_insert(entry.position);
            assert!(!partition.is_loaded, "{NOT_LOADED}");
            take(Replayed::Entry(entry));
        }
        if partition.last == Some(entry.position) && !partition.is_loaded {
            partition.is_loaded = true;
            take(Replayed::Loaded(entry.partition));
        }
    }
}

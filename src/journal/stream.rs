//! One stream of the journal in use: a core's [`Store`]. Joins the group commit ([`super::writer`]) to the files of its
//! segments, and bounds the log by snapshots (`taking`). Does no I/O itself but where it is opened: writes go out by
//! [`Store::poll_write`], everything else by [`Store::poll_job`].

use std::collections::{BTreeMap, VecDeque};
use std::io;

use super::JournalPosition;
use super::block::BLOCK_BYTES;
use super::coverage::Coverage;
use super::disk::{ASIDE, Disk, DiskFile, join};
use super::failure::{At, OpenError};
use super::job::{self, Done, Job, JobDone};
use super::replay::{Checked, Outcome, Replay};
use super::scan::Extent;
use super::segment::{DEFAULT_SEGMENT_BYTES, HEADER_BYTES, SegmentId};
use super::snapshot::SnapshotId;
use super::store::{
    Change, Durability, Entries, FailedPositions, Refused, Store, StoreState, StoreWrite, WriteFailure, is_full,
};
use super::taking::Taking;
use super::writer::{ActiveStart, Start, Writer};
use crate::clock::Now;

/// How a stream is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSettings {
    /// When an append is acknowledged.
    pub mode: Durability,
    /// Size of new segments; a multiple of the block size, at least two blocks.
    pub segment_bytes: u64,
    /// The next segment is filled with zeros in steps of so many bytes, whole blocks, while the log grows: at once they would
    /// hold up the disk.
    pub prepare_step_bytes: u64,
    /// Log that is kept before snapshots are taken to shorten it; more if the snapshots themselves are larger.
    pub snapshot_after_bytes: u64,
    /// Memory that is there from the start for records on their way, so that a large one does not wait for pages. More is
    /// made when it is needed.
    pub room_bytes: usize,
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings {
            mode: Durability::Fsync,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            prepare_step_bytes: 1 << 20,
            snapshot_after_bytes: 4 * DEFAULT_SEGMENT_BYTES,
            room_bytes: 0,
        }
    }
}

/// One core's journal.
pub struct Stream {
    settings: StreamSettings,
    folder: String,
    stream: u32,
    writer: Writer,
    /// The segment that is written and the next one, if it is prepared.
    files: BTreeMap<SegmentId, Box<dyn DiskFile>>,
    preparing: Option<Preparing>,
    /// First position of each segment in use.
    bases: BTreeMap<SegmentId, u64>,
    coverage: Coverage,
    /// Whether `coverage` has all that is needed: not while a replay still reads the log.
    is_replayed: bool,
    /// Where the first append goes.
    opened_at: JournalPosition,
    taking: Option<Taking>,
    /// Snapshots that were begun.
    takings: u64,
    /// Size of each partition's snapshot.
    snapshot_bytes: BTreeMap<i32, u64>,
    snapshot_retry_at_ms: u64,
    is_removing: bool,
    jobs: VecDeque<Job>,
}

/// A segment that has some of its zeros.
struct Preparing {
    id: SegmentId,
    done_bytes: u64,
    /// A step is under way.
    is_busy: bool,
}

/// After a snapshot failed, in milliseconds.
const SNAPSHOT_RETRY_MS: u64 = 10_000;

impl Stream {
    /// Goes on where the log ends that a replay has checked: removes what does not count, and makes the first segment if there
    /// is none and the disk is not full. The replay may go on meanwhile: nothing that it reads is changed, and until [`Stream::replayed`] nothing of the
    /// log is removed and no snapshot is due.
    ///
    /// # Errors
    /// [`OpenError::Io`].
    ///
    /// # Panics
    /// If the replay has not checked the log, or sizes of segments are not made of blocks.
    pub fn open(replay: &Replay, settings: StreamSettings) -> Result<Self, OpenError> {
        let blocks = settings.segment_bytes / BLOCK_BYTES as u64;
        assert!(
            settings.segment_bytes.is_multiple_of(BLOCK_BYTES as u64) && blocks >= 2,
            "a segment is made of blocks"
        );
        let checked = replay.checked();
        let scan = checked.scan;
        // A killed process may have left names that were not durable yet; what is built on them would go with them.
        checked.disk.sync_folder(checked.folder).at(checked.folder)?;
        let prepared = scan.prepared.filter(|(_, file_bytes)| *file_bytes == settings.segment_bytes);
        let prepared = prepared.map(|(id, _)| id);
        remove_what_does_not_count(&checked, prepared)?;
        write_again(&checked)?;

        let direct = settings.mode == Durability::Fsync;
        let mut files = BTreeMap::new();
        let position = scan.end.max(checked.complete_at);
        let last = scan.extents.last();
        let goes_on = last.filter(|_| scan.cut.is_none() && position == scan.end);
        let active = match goes_on {
            Some(extent) => Some(open_active(&checked, *extent, direct, &mut files)?),
            None => None,
        };
        let next_segment = last.map_or(SegmentId(1), |extent| extent.header.id.next());
        let start = Start { position, previous_end: scan.end, active, next_segment };
        let mut writer = Writer::new(checked.stream, settings.mode, settings.segment_bytes, start);
        writer.make_room(settings.room_bytes);
        let mut stream = Stream {
            settings,
            writer,
            files,
            preparing: None,
            bases: scan.extents.iter().map(|extent| (extent.header.id, extent.header.base)).collect(),
            coverage: Coverage::default(),
            is_replayed: false,
            opened_at: JournalPosition(position),
            taking: None,
            takings: 0,
            snapshot_bytes: checked.snapshot_bytes.clone(),
            snapshot_retry_at_ms: 0,
            is_removing: false,
            jobs: VecDeque::new(),
            folder: checked.folder.to_owned(),
            stream: checked.stream,
        };
        stream.prepare_first(checked.disk, prepared)?;
        Ok(stream)
    }

    /// The replay that this was opened with is done: it is known what of the log is needed.
    ///
    /// # Panics
    /// If the replay is not done.
    pub fn replayed(&mut self, replay: Replay) {
        let Outcome { needed, superseded } = replay.into_outcome();
        needed.into_iter().for_each(|(partition, position)| self.coverage.found(partition, position));
        self.is_replayed = true;
        // Not before the newer ones have proved whole.
        if !superseded.is_empty() {
            self.jobs.push_back(Job::remove_snapshots(&self.folder, superseded));
        }
        self.remove_covered();
    }

    /// Bytes of the log that a start would read.
    pub fn log_bytes(&self) -> u64 {
        self.bases.first_key_value().map_or(0, |(_, base)| self.writer.appended().0 - base)
    }

    /// As files: a segment that was cut, or that a full disk ended, takes as much as a full one.
    fn log_file_bytes(&self) -> u64 {
        let before_last = self.bases.len().saturating_sub(1) as u64;
        self.log_bytes().max(before_last * self.settings.segment_bytes)
    }

    fn prepare_first(&mut self, disk: &dyn Disk, prepared: Option<SegmentId>) -> Result<(), OpenError> {
        let direct = self.settings.mode == Durability::Fsync;
        if prepared.is_none() && !self.files.is_empty() {
            return Ok(());
        }
        let id = self.writer.poll_prepare(Now::default()).expect("a new writer wants a segment");
        let path = join(&self.folder, &id.file_name());
        let file = if prepared == Some(id) {
            disk.open_for_writing(&path, direct)
        } else {
            let bytes = self.settings.segment_bytes;
            let file = job::prepare(disk, &self.folder, id, 0..bytes, bytes, direct);
            file.map(|file| file.expect("it has all its zeros"))
        };
        if let Err(error) = &file
            && is_full(error)
        {
            // What is there can be read; the writer asks for the segment again.
            tracing::error!(path, "the disk is full: commits and joins will be refused until there is space");
            self.writer.prepared(false, Now::default());
            return Ok(());
        }
        self.files.insert(id, file.at(&path)?);
        self.writer.prepared(true, Now::default());
        Ok(())
    }

    /// The next step of a segment that is to be prepared.
    fn poll_prepare(&mut self, now: Now) -> Option<Job> {
        // A start has better things to do, unless somebody is there already.
        let waits = !self.is_replayed && self.writer.appended() <= self.opened_at;
        if waits || self.writer.state() == StoreState::Fenced {
            return None;
        }
        if let Some(id) = self.writer.poll_prepare(now) {
            self.preparing = Some(Preparing { id, done_bytes: 0, is_busy: false });
        }
        let StreamSettings { segment_bytes, prepare_step_bytes, mode, .. } = self.settings;
        let ahead_bytes = self.writer.used_bytes().saturating_mul(2);
        let preparing = self.preparing.as_mut().filter(|it| !it.is_busy && it.done_bytes <= ahead_bytes)?;
        preparing.is_busy = true;
        let end = segment_bytes.min(preparing.done_bytes + prepare_step_bytes);
        let (zeros, direct) = (preparing.done_bytes..end, mode == Durability::Fsync);
        Some(Job::prepare(&self.folder, preparing.id, zeros, segment_bytes, direct))
    }

    fn prepared(&mut self, id: SegmentId, done_bytes: u64, file: Option<Box<dyn DiskFile>>, now: Now) {
        match file {
            Some(file) => {
                self.preparing = None;
                self.files.insert(id, file);
                self.writer.prepared(true, now);
            }
            None => self.preparing = Some(Preparing { id, done_bytes, is_busy: false }),
        }
    }

    fn note_written(&mut self) {
        if let Some(header) = self.writer.active_header()
            && self.bases.insert(header.id, header.base).is_none()
        {
            self.files.retain(|id, _| *id >= header.id);
            self.remove_covered();
        }
    }

    /// Segments of which no entry is needed any more go, but never the one that is written.
    fn remove_covered(&mut self) {
        if !self.is_replayed {
            return;
        }
        let floor = self.coverage.oldest().map_or(self.writer.written_position().0, |(_, position)| position);
        let covered = self.bases.values().skip(1).take_while(|next_base| **next_base <= floor).count();
        let Some(keep) = self.bases.keys().nth(covered).copied().filter(|_| covered > 0 && !self.is_removing) else {
            return;
        };
        let kept = self.bases.split_off(&keep);
        self.is_removing = true;
        let gone = std::mem::replace(&mut self.bases, kept);
        self.jobs.push_back(Job::remove(&self.folder, gone, keep, self.settings.segment_bytes));
    }

    fn snapshot_failed(&mut self, id: SnapshotId, error: &io::Error, now: Now) {
        tracing::warn!(partition = id.partition, %error, "the snapshot failed and will be taken again; the log grows meanwhile");
        self.abandon_snapshot();
        self.snapshot_retry_at_ms = now.monotonic_ms + SNAPSHOT_RETRY_MS;
        if is_full(error) {
            // Only snapshots make the log shorter.
            self.jobs.push_back(Job::remove_spares(&self.folder));
        }
    }

    fn snapshot_job_done(&mut self, taking: u64, is_last: bool, file_bytes: u64, result: io::Result<()>, now: Now) {
        let Some(taking) = self.taking.as_mut().filter(|it| it.number() == taking) else { return };
        let id = taking.id();
        if let Err(error) = result {
            return self.snapshot_failed(id, &error, now);
        }
        taking.piece_written();
        if is_last {
            self.taking = None;
            self.snapshot_bytes.insert(id.partition, file_bytes);
            self.coverage.publish();
            self.remove_covered();
        }
    }

    fn abandon_snapshot(&mut self) {
        if let Some(taking) = self.taking.take() {
            self.coverage.abandon();
            self.jobs.push_back(Job::drop_snapshot(&self.folder, taking.id()));
        }
    }

    fn state_changed(&mut self, before: StoreState) {
        let state = self.writer.state();
        if state == before {
            return;
        }
        match state {
            StoreState::Open => tracing::warn!(folder = self.folder, "there is space again"),
            StoreState::Full => {
                tracing::error!(
                    folder = self.folder,
                    "the disk is full: commits and joins are refused until there is space"
                );
            }
            StoreState::Fenced => {
                tracing::error!(folder = self.folder, "the journal failed: it takes nothing until a restart");
            }
        }
        // It may have been given what failed and is undone now.
        if state != StoreState::Open {
            self.abandon_snapshot();
        }
    }
}

impl Store for Stream {
    fn append_all(&mut self, changes: &[Change<'_>]) -> Result<JournalPosition, Refused> {
        let before = self.writer.appended();
        let after = self.writer.append_all(changes)?;
        if after > before {
            // Later ones begin behind that: it is not too late for any.
            changes.iter().for_each(|change| self.coverage.appended(change.partition, before.0));
        }
        Ok(after)
    }

    fn durable(&self) -> JournalPosition {
        self.writer.durable()
    }

    fn appended(&self) -> JournalPosition {
        self.writer.appended()
    }

    fn unwritten_bytes(&self) -> u64 {
        self.writer.appended().0 - self.writer.written_position().0
    }

    fn poll_failed(&mut self) -> Option<FailedPositions> {
        self.writer.poll_failed()
    }

    fn mode(&self) -> Durability {
        self.settings.mode
    }

    fn state(&self) -> StoreState {
        self.writer.state()
    }

    fn poll_write(&mut self, now: Now) -> Option<StoreWrite> {
        let before = self.writer.state();
        let write = self.writer.poll_write(now);
        self.state_changed(before);
        let write = write?;
        let file = self.files.get(&write.segment).expect("the segment that is written is open").fd();
        Some(StoreWrite { file, offset: write.offset, data: write.data, sync: write.sync, token: write.token })
    }

    fn written(&mut self, token: u64, result: Result<(), WriteFailure>, now: Now) {
        let before = self.writer.state();
        if let Err(failure) = &result {
            tracing::warn!(folder = self.folder, %failure, "the journal could not be written");
        }
        self.writer.written(token, result, now);
        self.state_changed(before);
        self.note_written();
    }

    fn deadline_ms(&self) -> Option<u64> {
        self.writer.deadline_ms()
    }

    fn poll_job(&mut self, now: Now) -> Option<Job> {
        if let Some(step) = self.poll_prepare(now) {
            return Some(step);
        }
        let written = self.writer.written_position();
        let taking = self.taking.as_mut();
        self.jobs.pop_front().or_else(|| taking.and_then(|taking| taking.poll_job(&self.folder, written)))
    }

    fn job_done(&mut self, done: JobDone, now: Now) {
        match done.0 {
            Done::Prepared(id, done_bytes, Ok(file)) => self.prepared(id, done_bytes, file, now),
            Done::Prepared(id, _, Err(error)) => {
                self.preparing = None;
                tracing::warn!(folder = self.folder, segment = %id, %error, "the next segment could not be made");
                self.writer.prepared(false, now);
            }
            Done::Removed(left, result) => {
                self.is_removing = false;
                self.bases.extend(left);
                match result {
                    // Snapshots may have set more free meanwhile.
                    Ok(()) => self.remove_covered(),
                    Err(error) => {
                        tracing::warn!(folder = self.folder, %error, "segments that are not needed could not be removed");
                    }
                }
            }
            Done::Dropped => {}
            Done::Snapshot { taking, is_last, file_bytes, result } => {
                self.snapshot_job_done(taking, is_last, file_bytes, result, now);
            }
        }
    }

    fn snapshot_due(&self, now: Now) -> Option<i32> {
        let waits = !self.is_replayed || self.taking.is_some() || now.monotonic_ms < self.snapshot_retry_at_ms;
        let log_bytes = self.log_file_bytes();
        if waits || self.writer.state() == StoreState::Fenced || log_bytes <= self.settings.snapshot_after_bytes {
            return None;
        }
        // Together they would cost more than what they save.
        if log_bytes <= self.snapshot_bytes.values().sum() {
            return None;
        }
        let (partition, position) = self.coverage.oldest()?;
        (position < *self.bases.last_key_value()?.1).then_some(partition)
    }

    fn begin_snapshot(&mut self, partition: i32, leader_epoch: i32) {
        self.coverage.begin(partition);
        let id = SnapshotId { partition, covers: self.writer.appended().0 };
        self.takings += 1;
        self.taking = Some(Taking::new(self.takings, self.stream, id, leader_epoch));
    }

    fn snapshot_under_way(&self) -> Option<i32> {
        self.taking.as_ref().map(|taking| taking.id().partition)
    }

    fn snapshot_wants_records(&self) -> bool {
        self.taking.as_ref().is_some_and(Taking::wants_records)
    }

    fn snapshot_records(&mut self, records: &dyn Entries) {
        if let Some(taking) = &mut self.taking {
            taking.push(records);
        }
    }

    fn complete_snapshot(&mut self) {
        let is_synced = self.settings.mode == Durability::Fsync;
        if let Some(taking) = &mut self.taking {
            taking.complete(self.writer.appended(), is_synced);
        }
    }
}

fn remove_what_does_not_count(checked: &Checked<'_>, prepared: Option<SegmentId>) -> Result<(), OpenError> {
    let Checked { disk, folder, scan, .. } = checked;
    let behind = scan.behind.iter().rev().filter(|id| prepared != Some(**id)).map(|id| id.file_name());
    let aside = disk.list(folder).at(folder)?.into_iter().filter(|name| name.ends_with(ASIDE));
    for name in behind.chain(aside) {
        let path = join(folder, &name);
        disk.remove(&path).at(&path)?;
        disk.sync_folder(folder).at(folder)?;
    }
    Ok(())
}

/// What a killed process wrote may be in memory only, and was read as if it were on disk. A sync alone would not do: if one
/// has failed before, the system takes what it could not write for written. So what may not be synced is written again.
fn write_again(checked: &Checked<'_>) -> Result<(), OpenError> {
    let Checked { disk, folder, scan, .. } = checked;
    for extent in &scan.extents {
        let path = join(folder, &extent.header.id.file_name());
        let file = disk.open_for_writing(&path, false).at(&path)?;
        let end = extent.header.offset_of(extent.end);
        let mut offset = extent.header.offset_of(scan.synced.clamp(extent.header.base, extent.end));
        if offset == HEADER_BYTES {
            offset = 0;
        }
        let mut chunk = vec![0; 256 << 10];
        while offset < end {
            let length = (end - offset).min(chunk.len() as u64) as usize;
            let length = file.read_at(offset, &mut chunk[..length]).at(&path)?;
            file.write_at(offset, &chunk[..length]).at(&path)?;
            offset += length as u64;
        }
        file.sync().at(&path)?;
    }
    Ok(())
}

fn open_active(
    checked: &Checked<'_>,
    extent: Extent,
    direct: bool,
    files: &mut BTreeMap<SegmentId, Box<dyn DiskFile>>,
) -> Result<ActiveStart, OpenError> {
    let path = join(checked.folder, &extent.header.id.file_name());
    let offset = extent.header.offset_of(extent.end);
    let mut tail = vec![0; (offset % BLOCK_BYTES as u64) as usize];
    checked.disk.open(&path).and_then(|file| file.read_at(offset - tail.len() as u64, &mut tail)).at(&path)?;
    files.insert(extent.header.id, checked.disk.open_for_writing(&path, direct).at(&path)?);
    let whole_blocks = (extent.file_bytes - HEADER_BYTES) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    Ok(ActiveStart { header: extent.header, file_bytes: HEADER_BYTES + whole_blocks, tail })
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

//! Group commit of one stream, without I/O and without a linger timer: while one write is under way appends are collected,
//! and when it has ended the collection is the next write. Who does the I/O is the owner, [`super::stream`].
//!
//! Writes are whole blocks: the last block of the write before is written again with what follows in it, so that the stream
//! has no gaps. Bytes that were durable are written again as they were.

use std::collections::VecDeque;
use std::rc::Rc;

use super::block::{BLOCK_BYTES, BlockBuffer, SharedBlocks};
use super::entry::{EntryWriter, decode_checked, length_at, seal};
use super::segment::{HEADER_BYTES, Header, SegmentId};
use super::store::{Change, Durability, FailedPositions, Refused, StoreState, WriteFailure, is_full};
use super::{JournalPosition, entry};
use crate::clock::Now;
use crate::limits::{JOURNAL_ENTRY_MAX_BYTES, JOURNAL_PENDING_MAX_BYTES, JOURNAL_WRITE_MAX_BYTES};

/// How long a full disk is left alone before the next try, in milliseconds.
pub const FULL_RETRY_MS: u64 = 1_000;

/// One write, then one sync if `sync`.
#[derive(Debug, PartialEq, Eq)]
pub struct SegmentWrite {
    /// Where.
    pub segment: SegmentId,
    /// In the file; a multiple of the block size, as is the length.
    pub offset: u64,
    /// What.
    pub data: SharedBlocks,
    /// Whether its end must mean that it is on disk.
    pub sync: bool,
    /// For [`Writer::written`].
    pub token: u64,
}

/// Where a writer goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Position of the next entry.
    pub position: u64,
    /// End of what the log has; before the position if a snapshot reached further.
    pub previous_end: u64,
    /// The segment that has room, if any.
    pub active: Option<ActiveStart>,
    /// The next segment to prepare.
    pub next_segment: SegmentId,
}

/// A segment that a writer goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveStart {
    /// As read.
    pub header: Header,
    /// Size of the file.
    pub file_bytes: u64,
    /// What the block that the next entry begins in holds before it.
    pub tail: Vec<u8>,
}

/// The group commit of one stream.
#[derive(Debug)]
pub struct Writer {
    stream: u32,
    mode: Durability,
    /// Size of the segments that are prepared.
    segment_bytes: u64,
    /// Appended while a write is under way.
    collecting: Vec<u8>,
    /// Being written, from `line_at` on.
    line: Vec<u8>,
    line_at: usize,
    /// Of what `line_at` points to; the next write begins there.
    line_position: u64,
    appended: u64,
    /// Everything up to here is written, but for what failed.
    written: u64,
    synced: u64,
    /// Where the next segments begin, in order.
    rolls: VecDeque<u64>,
    /// End of the segment that appends go to.
    fill_end: u64,
    /// Where the last entry ends that counts; behind it in its segment may be what is left of a write that failed.
    valid_end: u64,
    active: Option<Active>,
    spare: Spare,
    next_segment: SegmentId,
    in_flight: Option<InFlight>,
    /// What is written, or was last.
    blocks: SharedBlocks,
    next_token: u64,
    state: StoreState,
    retry_at_ms: u64,
    failed: Option<FailedPositions>,
    failed_through: u64,
}

#[derive(Debug)]
struct Active {
    header: Header,
    tail: Vec<u8>,
    header_written: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Spare {
    Wanted,
    Asked,
    Ready,
    Failed { retry_at_ms: u64 },
}

#[derive(Debug)]
struct InFlight {
    token: u64,
    bytes: usize,
}

impl Writer {
    /// A writer that goes on at `start`, where all that the log has before is synced. `segment_bytes` is the size of new segments.
    pub fn new(stream: u32, mode: Durability, segment_bytes: u64, start: Start) -> Self {
        let (base, file_bytes) = start
            .active
            .as_ref()
            .map_or((start.position, segment_bytes), |active| (active.header.base, active.file_bytes));
        let active =
            start.active.map(|active| Active { header: active.header, tail: active.tail, header_written: true });
        Writer {
            stream,
            mode,
            segment_bytes,
            collecting: Vec::new(),
            line: Vec::new(),
            line_at: 0,
            line_position: start.position,
            appended: start.position,
            written: start.position,
            // Not up to the position: where only a snapshot was, the log may have lost what nobody had synced.
            synced: start.previous_end,
            rolls: if active.is_some() { VecDeque::new() } else { VecDeque::from([start.position]) },
            fill_end: base + (file_bytes - HEADER_BYTES),
            valid_end: start.previous_end,
            active,
            spare: Spare::Wanted,
            next_segment: start.next_segment,
            in_flight: None,
            blocks: SharedBlocks(Rc::new(BlockBuffer::with_capacity(0))),
            next_token: 0,
            state: StoreState::Open,
            retry_at_ms: 0,
            failed: None,
            failed_through: start.position,
        }
    }

    /// See [`super::store::Store::append_all`].
    ///
    /// # Errors
    /// [`Refused`].
    pub fn append_all(&mut self, changes: &[Change<'_>]) -> Result<JournalPosition, Refused> {
        match self.state {
            StoreState::Open => {}
            StoreState::Full => return Err(Refused::Full),
            StoreState::Fenced => return Err(Refused::Fenced),
        }
        if (self.appended - self.written) as usize > JOURNAL_PENDING_MAX_BYTES {
            return Err(Refused::Busy);
        }
        let before = self.collecting.len();
        let base = self.appended - before as u64;
        for Change { partition, leader_epoch, records } in changes {
            records.write(&mut EntryWriter::new(&mut self.collecting, base, *partition, *leader_epoch));
        }
        let largest = (self.segment_bytes - HEADER_BYTES).min(JOURNAL_ENTRY_MAX_BYTES as u64);
        if entry_lengths(&self.collecting[before..]).any(|length| length as u64 > largest) {
            self.collecting.truncate(before);
            return Err(Refused::TooLarge);
        }
        for length in entry_lengths(&self.collecting[before..]) {
            if self.appended + length as u64 > self.fill_end {
                self.rolls.push_back(self.appended);
                self.fill_end = self.appended + (self.segment_bytes - HEADER_BYTES);
            }
            self.appended += length as u64;
        }
        Ok(JournalPosition(self.appended))
    }

    /// Has memory at hand for so many bytes on their way.
    pub fn make_room(&mut self, bytes: usize) {
        for buffer in [&mut self.collecting, &mut self.line] {
            let length = buffer.len();
            // Written to: else its pages are found only when they are needed.
            buffer.resize(length + bytes, 1);
            buffer.truncate(length);
        }
        self.blocks.empty(bytes).extend(&vec![1; bytes]);
    }

    /// The next write, if one is due; nothing while one is under way.
    pub fn poll_write(&mut self, now: Now) -> Option<SegmentWrite> {
        if self.state == StoreState::Fenced || self.in_flight.is_some() {
            return None;
        }
        if self.state == StoreState::Full {
            return self.poll_probe(now);
        }
        if self.line_at == self.line.len() {
            self.line.clear();
            self.line.shrink_to(2 * JOURNAL_WRITE_MAX_BYTES);
            self.blocks.shrink_to(2 * JOURNAL_WRITE_MAX_BYTES);
            self.line_at = 0;
            std::mem::swap(&mut self.line, &mut self.collecting);
        }
        if self.line.is_empty() {
            return None;
        }
        if self.is_segment_over() && !self.roll() {
            if matches!(self.spare, Spare::Failed { .. }) {
                self.fail(StoreState::Full, now);
            }
            return None;
        }
        Some(self.write(self.chunk_bytes()))
    }

    /// The write of this token has ended.
    ///
    /// # Panics
    /// If no such write is under way.
    pub fn written(&mut self, token: u64, result: Result<(), WriteFailure>, now: Now) {
        let in_flight = self.in_flight.take().expect("a write is under way");
        assert_eq!(in_flight.token, token, "the write that is under way");
        match result {
            Ok(()) => self.succeeded(in_flight.bytes),
            Err(WriteFailure::Write(error)) if is_full(&error) => self.fail(StoreState::Full, now),
            Err(_) => self.fail(StoreState::Fenced, now),
        }
    }

    /// The segment that must be prepared next, said once.
    pub fn poll_prepare(&mut self, now: Now) -> Option<SegmentId> {
        match self.spare {
            Spare::Wanted => {}
            Spare::Failed { retry_at_ms } if retry_at_ms <= now.monotonic_ms => {}
            _ => return None,
        }
        if self.state == StoreState::Fenced {
            return None;
        }
        self.spare = Spare::Asked;
        Some(self.next_segment)
    }

    /// The segment of [`Writer::poll_prepare`] is ready, all zeros, or could not be made.
    pub fn prepared(&mut self, is_ready: bool, now: Now) {
        if !is_ready {
            self.spare = Spare::Failed { retry_at_ms: now.monotonic_ms + FULL_RETRY_MS };
            return;
        }
        self.spare = Spare::Ready;
        if self.state == StoreState::Full {
            self.retry_at_ms = now.monotonic_ms;
        }
    }

    /// How much of the segment that is written is used; all if records wait for the next one already, or if only that can show
    /// whether there is space again.
    pub fn used_bytes(&self) -> u64 {
        if self.state == StoreState::Full || !self.rolls.is_empty() {
            return self.segment_bytes;
        }
        self.segment_bytes.saturating_sub(self.fill_end - self.appended)
    }

    /// Everything up to here is as durable as the mode promises.
    pub fn durable(&self) -> JournalPosition {
        JournalPosition(match self.mode {
            Durability::Fsync | Durability::Os => self.written,
            Durability::None | Durability::Memory => self.appended,
        })
    }

    /// Everything up to here was appended.
    pub fn appended(&self) -> JournalPosition {
        JournalPosition(self.appended)
    }

    /// Everything up to here was handed to the disk and, with [`Durability::Fsync`], is on it.
    pub fn written_position(&self) -> JournalPosition {
        JournalPosition(self.written)
    }

    /// The segment that was written last.
    pub fn active_header(&self) -> Option<Header> {
        self.active.as_ref().filter(|active| active.header_written).map(|active| active.header)
    }

    /// See [`super::store::Store::poll_failed`].
    pub fn poll_failed(&mut self) -> Option<FailedPositions> {
        self.failed.take()
    }

    /// Whether it takes appends.
    pub fn state(&self) -> StoreState {
        self.state
    }

    /// When something is to be tried again.
    pub fn deadline_ms(&self) -> Option<u64> {
        if self.state == StoreState::Fenced {
            return None;
        }
        let prepare = if let Spare::Failed { retry_at_ms } = self.spare { Some(retry_at_ms) } else { None };
        let waits_for_spare = self.is_segment_over() && self.spare != Spare::Ready;
        let probes = self.state == StoreState::Full && self.in_flight.is_none() && !waits_for_spare;
        prepare.into_iter().chain(probes.then_some(self.retry_at_ms)).min()
    }

    /// A full disk is tried with the header of a segment alone. Once that is durable, what is left of the write that failed
    /// is cut off, and appends are taken again.
    fn poll_probe(&mut self, now: Now) -> Option<SegmentWrite> {
        if now.monotonic_ms < self.retry_at_ms || (self.is_segment_over() && !self.roll()) {
            return None;
        }
        Some(self.write(0))
    }

    fn write(&mut self, bytes: usize) -> SegmentWrite {
        let token = self.next_token;
        self.next_token += 1;
        self.in_flight = Some(InFlight { token, bytes });
        let chunk = &mut self.line[self.line_at..self.line_at + bytes];
        seal(chunk, Some(self.synced));
        let active = self.active.as_ref().expect("a segment was rolled to");
        SegmentWrite {
            segment: active.header.id,
            offset: active.write_offset(self.line_position),
            data: active.write_data(chunk, &mut self.blocks),
            sync: self.mode == Durability::Fsync,
            token,
        }
    }

    fn is_segment_over(&self) -> bool {
        self.rolls.front() == Some(&self.line_position)
    }

    /// Goes on with the spare segment; false if there is none yet.
    fn roll(&mut self) -> bool {
        if self.spare != Spare::Ready {
            return false;
        }
        let header = Header {
            stream: self.stream,
            id: self.next_segment,
            base: self.line_position,
            previous_end: self.valid_end,
            synced: self.synced,
        };
        self.active = Some(Active { header, tail: Vec::new(), header_written: false });
        self.rolls.pop_front();
        self.next_segment = self.next_segment.next();
        self.spare = Spare::Wanted;
        true
    }

    /// How much of the line goes into the next write: whole entries, all of one segment.
    fn chunk_bytes(&self) -> usize {
        let in_segment = self.rolls.front().map_or(usize::MAX, |roll| (roll - self.line_position) as usize);
        let mut bytes = 0;
        for length in entry_lengths(&self.line[self.line_at..]) {
            let too_much = bytes > 0 && bytes + length > JOURNAL_WRITE_MAX_BYTES;
            if too_much || bytes >= in_segment {
                break;
            }
            bytes += length;
        }
        bytes
    }

    fn succeeded(&mut self, bytes: usize) {
        let active = self.active.as_mut().expect("it was written to");
        active.header_written = true;
        let written = &self.line[self.line_at..self.line_at + bytes];
        self.line_at += bytes;
        self.line_position += bytes as u64;
        let keep = (active.header.offset_of(self.line_position) % BLOCK_BYTES as u64) as usize;
        if keep <= bytes {
            active.tail.clear();
        }
        active.tail.extend_from_slice(&written[bytes - keep.min(bytes)..]);
        self.written = self.line_position;
        self.valid_end = self.line_position;
        if self.mode == Durability::Fsync {
            self.synced = self.written;
        }
        self.state = StoreState::Open;
    }

    fn fail(&mut self, state: StoreState, now: Now) {
        self.state = state;
        self.retry_at_ms = now.monotonic_ms + FULL_RETRY_MS;
        let after = self.durable().0.max(self.failed_through);
        if self.appended > after {
            self.failed_through = self.appended;
            let after = self.failed.map_or(JournalPosition(after), |failed| failed.after);
            self.failed = Some(FailedPositions { after, through: JournalPosition(self.appended) });
        }
        if state == StoreState::Full {
            self.drop_what_failed();
        }
    }

    /// Positions are not used again: the log goes on behind them, in a segment that says so. What is left of the failed write
    /// in its own segment could otherwise be taken for what came later.
    fn drop_what_failed(&mut self) {
        self.valid_end -= self.begun_append_bytes();
        self.line.clear();
        self.line_at = 0;
        self.collecting.clear();
        self.line_position = self.appended;
        self.fill_end = self.appended + (self.segment_bytes - HEADER_BYTES);
        self.rolls.clear();
        match &mut self.active {
            Some(active) if !active.header_written => {
                (active.header.base, active.header.previous_end) = (self.appended, self.valid_end);
            }
            _ => self.rolls.push_back(self.appended),
        }
    }
}

impl Writer {
    /// Bytes of the last append that are written, if not all of it is: a line begins and ends with whole appends.
    fn begun_append_bytes(&self) -> u64 {
        let (mut at, mut complete) = (0, 0);
        for length in entry_lengths(&self.line[..self.line_at]) {
            let is_last = !decode_checked(&self.line[at..]).more;
            at += length;
            complete = if is_last { at } else { complete };
        }
        (self.line_at - complete) as u64
    }
}

impl Active {
    fn write_offset(&self, position: u64) -> u64 {
        if self.header_written {
            let offset = self.header.offset_of(position);
            offset - offset % BLOCK_BYTES as u64
        } else {
            0
        }
    }

    fn write_data(&self, chunk: &[u8], blocks: &mut SharedBlocks) -> SharedBlocks {
        let data = blocks.empty(BLOCK_BYTES + self.tail.len() + chunk.len());
        if !self.header_written {
            data.extend(&self.header.encode());
        }
        data.extend(&self.tail);
        data.extend(chunk);
        data.pad();
        blocks.clone()
    }
}

fn entry_lengths(entries: &[u8]) -> impl Iterator<Item = usize> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let length = length_at(rest)?;
        debug_assert!(length >= entry::HEADER_BYTES, "an entry has a header");
        rest = &rest[length..];
        Some(length)
    })
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;

//! A snapshot that is being taken: records come in while the state changes, pieces go out as jobs.

use super::JournalPosition;
use super::job::Job;
use super::snapshot::{SnapshotId, SnapshotWriter};
use super::store::Entries;

/// Written at once, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Pieces that may wait to be written before no more records are wanted.
const PIECES_MAX: usize = 4;

#[derive(Debug)]
pub(super) struct Taking {
    /// Of no other one: jobs of one that was given up may end while the next one is taken.
    number: u64,
    id: SnapshotId,
    /// Until it is complete.
    writer: Option<SnapshotWriter>,
    /// The last piece, and the position that must be durable before it may be written.
    last: Option<(Vec<u8>, JournalPosition)>,
    offset: u64,
    under_way: usize,
}

impl Taking {
    pub(super) fn new(number: u64, stream: u32, id: SnapshotId, leader_epoch: i32) -> Self {
        let writer = Some(SnapshotWriter::new(stream, id, leader_epoch));
        Taking { number, id, writer, last: None, offset: 0, under_way: 0 }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn id(&self) -> SnapshotId {
        self.id
    }

    pub(super) fn wants_records(&self) -> bool {
        self.under_way < PIECES_MAX && self.writer.as_ref().is_some_and(|writer| writer.pending_bytes() < PIECE_BYTES)
    }

    pub(super) fn push(&mut self, records: &dyn Entries) {
        self.writer.as_mut().expect("it is not complete").push(records);
    }

    pub(super) fn complete(&mut self, at: JournalPosition, is_synced: bool) {
        let writer = self.writer.take().expect("it is not complete");
        self.last = Some((writer.finish(at.0, if is_synced { at.0 } else { 0 }), at));
    }

    pub(super) fn poll_job(&mut self, folder: &str, durable: JournalPosition) -> Option<Job> {
        let (piece, is_last) = match &mut self.writer {
            Some(writer) if writer.pending_bytes() >= PIECE_BYTES => (writer.take_piece(), false),
            Some(_) => return None,
            // The last one gives the file its name: first it must be known that the others are written.
            None if self.under_way > 0 => return None,
            None => (self.last.take_if(|(_, at)| durable >= *at)?.0, true),
        };
        let offset = self.offset;
        self.offset += piece.len() as u64;
        self.under_way += 1;
        Some(Job::write_snapshot(folder, self.number, self.id, offset, piece, is_last))
    }

    pub(super) fn piece_written(&mut self) {
        self.under_way -= 1;
    }
}

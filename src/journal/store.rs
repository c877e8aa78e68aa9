//! The storage seam: what a shard asks of a journal, whatever is behind it. No I/O in here: a store says what to write,
//! its owner writes it and says how that ended.

use std::os::fd::RawFd;

use super::JournalPosition;
use super::block::SharedBlocks;
use super::entry::EntryWriter;
use super::job::{Job, JobDone};
use crate::clock::Now;

/// What is kept of an acknowledged append, and when it is acknowledged. The default is [`Durability::Fsync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Acknowledged when it is on disk: survives a power failure.
    #[default]
    Fsync,
    /// Acknowledged when the operating system has it: survives the process, not the machine.
    Os,
    /// Acknowledged at once, written soon after: survives an orderly stop.
    None,
    /// Kept nowhere.
    Memory,
}

impl Durability {
    /// The mode of a name.
    ///
    /// # Panics
    /// If there is none of it: options are checked before.
    pub fn of_name(name: &str) -> Durability {
        let all = [Durability::Fsync, Durability::Os, Durability::None, Durability::Memory];
        all.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name)).expect("the name of a mode")
    }

    /// As options, metrics and log lines name it.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::Fsync => "fsync",
            Durability::Os => "os",
            Durability::None => "none",
            Durability::Memory => "memory",
        }
    }
}

/// Whether a store takes appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It does.
    Open,
    /// The disk is full. What was appended and not durable has failed and is dropped; until a write succeeds nothing more is
    /// taken.
    Full,
    /// Writing or syncing failed in a way that leaves the disk's content unknown. Nothing is taken until a restart.
    Fenced,
}

/// Why a store did not take an append; nothing of it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// [`StoreState::Full`].
    #[error("the disk is full")]
    Full,
    /// [`StoreState::Fenced`].
    #[error("the journal failed and takes nothing until a restart")]
    Fenced,
    /// More than [`crate::limits::JOURNAL_PENDING_MAX_BYTES`] wait for the disk.
    #[error("too much waits for the disk")]
    Busy,
    /// A record is larger than [`crate::limits::JOURNAL_ENTRY_MAX_BYTES`], or than a segment.
    #[error("a record is too large for the journal")]
    TooLarge,
}

/// Records that can write themselves as entries. All entries of one append survive a crash, or none.
pub trait Entries {
    /// Appends each record's key and value.
    fn write(&self, entries: &mut EntryWriter<'_>);
}

/// The records of one change to an offsets partition.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The partition.
    pub partition: i32,
    /// Its leader epoch.
    pub leader_epoch: i32,
    /// All of them survive a crash, or none.
    pub records: &'a dyn Entries,
}

/// What is to be written, in one go, with one sync behind it if `sync`.
#[derive(Debug, PartialEq, Eq)]
pub struct StoreWrite {
    /// Of the segment.
    pub file: RawFd,
    /// In the file, in bytes.
    pub offset: u64,
    /// All of it is to be written: a short write is an error of the write. Offset, length and memory suit a file that was
    /// opened with O_DIRECT.
    pub data: SharedBlocks,
    /// Whether the file's data is to be synced after the write.
    pub sync: bool,
    /// For [`Store::written`].
    pub token: u64,
}

/// Which half of a [`StoreWrite`] failed.
///
/// The difference matters: what was written and not yet synced may be written again, but after a failed sync the system
/// may have dropped the pages and would report success the next time. So a sync is never tried again.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailure {
    /// The write; no sync was tried.
    #[error("write: {0}")]
    Write(#[source] std::io::Error),
    /// The sync behind a successful write, or it is not known which of the two.
    #[error("sync: {0}")]
    Sync(#[source] std::io::Error),
}

/// Whether there is no space for what was to be written: there may be later.
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Positions whose waiters must be told that their append failed, and whose changes must be undone: above `after`, up to and
/// including `through`. They are not used again, and [`Store::durable`] will step over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedPositions {
    /// The last position that is durable.
    pub after: JournalPosition,
    /// The last position that failed.
    pub through: JournalPosition,
}

/// Where a core's records go. One owner, one thread.
///
/// In each turn: appends, then [`Store::poll_write`] until it gives nothing; [`Store::written`] for each write that ended;
/// then [`Store::poll_failed`] and [`Store::durable`] say which replies have become errors and which may leave.
pub trait Store {
    /// Takes the records of one change to an offsets partition; a reply that promises them waits for the position. Without
    /// records it is the position of the append before.
    ///
    /// # Errors
    /// [`Refused`]: nothing of it was kept.
    fn append(&mut self, partition: i32, leader_epoch: i32, records: &dyn Entries) -> Result<JournalPosition, Refused> {
        self.append_all(&[Change { partition, leader_epoch, records }])
    }

    /// Takes some changes, or none of them. A crash may nevertheless leave some, in their order.
    ///
    /// # Errors
    /// [`Refused`]: nothing of them was kept.
    fn append_all(&mut self, changes: &[Change<'_>]) -> Result<JournalPosition, Refused>;

    /// Everything up to here is as durable as the mode promises. Never goes back.
    fn durable(&self) -> JournalPosition;

    /// Everything up to here was appended.
    fn appended(&self) -> JournalPosition;

    /// What was appended and is not written, in bytes; of what is acknowledged before, too.
    fn unwritten_bytes(&self) -> u64 {
        self.appended().0.saturating_sub(self.durable().0)
    }

    /// Positions that failed since this was asked last; to be asked before [`Store::durable`]. A restart in this very state may
    /// still find some of them: a client that was told of the failure has to assume either, as with Kafka.
    fn poll_failed(&mut self) -> Option<FailedPositions>;

    /// What the store promises.
    fn mode(&self) -> Durability;

    /// Whether it takes appends.
    fn state(&self) -> StoreState;

    /// The next write, if one is due; nothing while one is under way.
    fn poll_write(&mut self, now: Now) -> Option<StoreWrite>;

    /// The write of this token has ended.
    fn written(&mut self, token: u64, result: Result<(), WriteFailure>, now: Now);

    /// When [`Store::poll_write`] must be asked at the latest though nothing was appended (a full disk is tried again), on
    /// the monotonic clock.
    fn deadline_ms(&self) -> Option<u64>;

    /// Work on files that is to be done beside the core, in this order; nothing if none is due.
    fn poll_job(&mut self, now: Now) -> Option<Job> {
        let _ = now;
        None
    }

    /// A job has ended.
    fn job_done(&mut self, done: JobDone, now: Now) {
        let _ = (done, now);
    }

    /// The partition of which a snapshot should be taken next so that the log can be shortened.
    fn snapshot_due(&self, now: Now) -> Option<i32> {
        let _ = now;
        None
    }

    /// Begins the snapshot of a partition, one at a time: every record that lives now must be given to
    /// [`Store::snapshot_records`] before [`Store::complete_snapshot`]. Appends may go on meanwhile; of a key that changes the
    /// old or the new record is given, or both in order.
    fn begin_snapshot(&mut self, partition: i32, leader_epoch: i32) {
        let _ = (partition, leader_epoch);
    }

    /// The partition of the snapshot that was begun; nothing any more once it is there or has failed.
    fn snapshot_under_way(&self) -> Option<i32> {
        None
    }

    /// Whether the snapshot takes records now: not while the disk is behind.
    fn snapshot_wants_records(&self) -> bool {
        false
    }

    /// Some of the partition's records.
    fn snapshot_records(&mut self, records: &dyn Entries) {
        let _ = records;
    }

    /// All records were given.
    fn complete_snapshot(&mut self) {}
}

/// Keeps nothing: every append is durable at once.
#[derive(Debug, Default)]
pub struct MemoryStore {
    appended: JournalPosition,
}

impl Store for MemoryStore {
    fn append_all(&mut self, _: &[Change<'_>]) -> Result<JournalPosition, Refused> {
        self.appended.0 += 1;
        Ok(self.appended)
    }

    fn durable(&self) -> JournalPosition {
        self.appended
    }

    fn appended(&self) -> JournalPosition {
        self.appended
    }

    fn poll_failed(&mut self) -> Option<FailedPositions> {
        None
    }

    fn mode(&self) -> Durability {
        Durability::Memory
    }

    fn state(&self) -> StoreState {
        StoreState::Open
    }

    fn poll_write(&mut self, _: Now) -> Option<StoreWrite> {
        None
    }

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>, _: Now) {}

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Entries for One {
        fn write(&self, entries: &mut EntryWriter<'_>) {
            entries.tombstone(|key| key.push(1));
        }
    }

    #[test]
    fn memory_is_durable_at_once() {
        let mut store: Box<dyn Store> = Box::new(MemoryStore::default());
        assert_eq!(store.durable(), JournalPosition(0));
        let first = store.append(0, 0, &One).expect("memory takes everything");
        assert!(first > JournalPosition(0));
        assert_eq!((store.durable(), store.appended()), (first, first));
        assert_eq!(store.poll_write(Now::default()), None);
        assert_eq!((store.mode().name(), store.state()), ("memory", StoreState::Open));
    }
}

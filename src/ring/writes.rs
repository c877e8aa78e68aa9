//! Writes to files: WRITE, linked to FSYNC (data only) if it is to be synced, the buffer kept until both have ended.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::os::fd::RawFd;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

use super::token::{Key, Kind, pack};

/// The kernel takes at most this much in one write.
const WRITE_MAX_BYTES: usize = 1 << 30;

/// The write, and the sync that is linked to it.
type Entries = (squeue::Entry, Option<squeue::Entry>);

/// Writes in flight and writes that ended.
#[derive(Default)]
pub(super) struct Writes {
    slots: Vec<Option<Writing>>,
    ended: VecDeque<Written>,
}

/// A write that has ended: its token, and which half failed.
pub type Written = (u64, Result<(), (FailedHalf, io::Error)>);

/// Which half of a write failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedHalf {
    /// The write itself; no sync was tried.
    Write,
    /// The sync behind it.
    Sync,
}

struct Writing {
    file: RawFd,
    offset: u64,
    data: Box<dyn Deref<Target = [u8]>>,
    from: usize,
    sync: bool,
    token: u64,
    written: Option<i32>,
    synced: Option<i32>,
}

impl Writes {
    /// The submissions of a new write: the second one, if any, is linked to the first.
    pub(super) fn begin(
        &mut self,
        file: RawFd,
        offset: u64,
        data: Box<dyn Deref<Target = [u8]>>,
        sync: bool,
        token: u64,
    ) -> Entries {
        let writing = Writing { file, offset, data, from: 0, sync, token, written: None, synced: None };
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        let entries = writing.entries(slot);
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(writing);
        entries
    }

    /// One of the two submissions of a slot completed. When both have: the submissions for the rest after a short write
    /// (which cancels its sync), or nothing, and the write has ended.
    pub(super) fn completed(&mut self, kind: Kind, key: Key, result: i32) -> Option<Entries> {
        let slot = key.slot as usize;
        let writing = self.slots[slot].as_mut()?;
        if kind == Kind::Write {
            writing.written = Some(result);
        } else {
            writing.synced = Some(result);
        }
        let written = writing.written?;
        let synced = if writing.sync { writing.synced? } else { 0 };
        if written > 0 {
            writing.from += written as usize;
            if writing.from < writing.data.len() {
                (writing.written, writing.synced) = (None, None);
                return Some(writing.entries(slot));
            }
        }
        let result = if written < 0 {
            Err((FailedHalf::Write, io::Error::from_raw_os_error(-written)))
        } else if writing.from < writing.data.len() {
            Err((FailedHalf::Write, io::ErrorKind::WriteZero.into()))
        } else if synced < 0 {
            Err((FailedHalf::Sync, io::Error::from_raw_os_error(-synced)))
        } else {
            Ok(())
        };
        self.ended.push_back((writing.token, result));
        self.slots[slot] = None;
        None
    }

    /// The next write that ended, by its token.
    pub(super) fn pop_ended(&mut self) -> Option<Written> {
        self.ended.pop_front()
    }

    /// Whether any write is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.slots.iter().any(Option::is_some)
    }
}

impl Writing {
    fn entries(&self, slot: usize) -> Entries {
        let key = Key { slot: slot as u32, generation: 0 };
        let rest = &self.data[self.from..];
        let length = rest.len().min(WRITE_MAX_BYTES) as u32;
        let write = opcode::Write::new(Fd(self.file), rest.as_ptr(), length)
            .offset(self.offset + self.from as u64)
            .build()
            .user_data(pack(Kind::Write, key));
        if !self.sync {
            return (write, None);
        }
        let sync =
            opcode::Fsync::new(Fd(self.file)).flags(FsyncFlags::DATASYNC).build().user_data(pack(Kind::Sync, key));
        (write.flags(squeue::Flags::IO_LINK), Some(sync))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { slot: 0, generation: 0 };

    #[test]
    fn a_short_write_goes_on_where_it_stopped() {
        let mut writes = Writes::default();
        writes.begin(5, 100, Box::new(vec![1; 10]), true, 42);
        assert!(writes.completed(Kind::Write, KEY, 4).is_none());
        assert!(writes.completed(Kind::Sync, KEY, -libc::ECANCELED).is_some(), "the rest is submitted");
        assert!(writes.pop_ended().is_none());
        assert!(writes.completed(Kind::Sync, KEY, 0).is_none(), "completions may come in any order");
        assert!(writes.completed(Kind::Write, KEY, 6).is_none());
        assert!(matches!(writes.pop_ended(), Some((42, Ok(())))));
        assert!(!writes.is_busy());
    }

    #[test]
    fn failures_of_either_half_are_told_once() {
        use FailedHalf::{Sync, Write};
        for (written, synced, half, code) in
            [(-libc::ENOSPC, -libc::ECANCELED, Write, libc::ENOSPC), (10, -libc::EIO, Sync, libc::EIO)]
        {
            let mut writes = Writes::default();
            writes.begin(5, 0, Box::new(vec![1; 10]), true, 1);
            writes.completed(Kind::Write, KEY, written);
            assert!(writes.completed(Kind::Sync, KEY, synced).is_none());
            let (_, result) = writes.pop_ended().expect("it ended");
            let (failed, error) = result.expect_err("it failed");
            assert_eq!((failed, error.raw_os_error()), (half, Some(code)));
        }
    }

    #[test]
    fn a_write_without_a_sync_ends_by_itself() {
        let mut writes = Writes::default();
        let (_, sync) = writes.begin(5, 0, Box::new(vec![1; 10]), false, 7);
        assert!(sync.is_none());
        assert!(writes.completed(Kind::Write, KEY, 10).is_none());
        assert!(matches!(writes.pop_ended(), Some((7, Ok(())))));
    }

    #[test]
    fn a_write_of_nothing_at_all_is_a_failure_not_a_loop() {
        let mut writes = Writes::default();
        writes.begin(5, 0, Box::new(vec![1; 10]), true, 1);
        writes.completed(Kind::Write, KEY, 0);
        assert!(writes.completed(Kind::Sync, KEY, 0).is_none());
        assert!(writes.pop_ended().expect("it ended").1.is_err());
    }
}

//! Writes that are synced right behind: WRITE linked to FSYNC (data only), the buffer kept until both have ended.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{opcode, squeue};

use super::token::{Key, Kind, pack};

/// The kernel takes at most this much in one write.
const WRITE_MAX_BYTES: usize = 1 << 30;

/// Writes in flight and writes that ended.
#[derive(Default)]
pub(super) struct Writes {
    slots: Vec<Option<Writing>>,
    ended: VecDeque<(u64, io::Result<()>)>,
}

struct Writing {
    file: RawFd,
    offset: u64,
    data: Vec<u8>,
    from: usize,
    token: u64,
    written: Option<i32>,
    synced: Option<i32>,
}

impl Writes {
    /// The two linked submissions of a new write.
    pub(super) fn begin(&mut self, file: RawFd, offset: u64, data: Vec<u8>, token: u64) -> [squeue::Entry; 2] {
        let writing = Writing { file, offset, data, from: 0, token, written: None, synced: None };
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
    pub(super) fn completed(&mut self, kind: Kind, key: Key, result: i32) -> Option<[squeue::Entry; 2]> {
        let slot = key.slot as usize;
        let writing = self.slots[slot].as_mut()?;
        if kind == Kind::Write {
            writing.written = Some(result);
        } else {
            writing.synced = Some(result);
        }
        let (written, synced) = (writing.written?, writing.synced?);
        if written > 0 {
            writing.from += written as usize;
            if writing.from < writing.data.len() {
                (writing.written, writing.synced) = (None, None);
                return Some(writing.entries(slot));
            }
        }
        let result = if written < 0 || synced < 0 {
            let code = if written < 0 { written } else { synced };
            Err(io::Error::from_raw_os_error(-code))
        } else if writing.from < writing.data.len() {
            Err(io::ErrorKind::WriteZero.into())
        } else {
            Ok(())
        };
        self.ended.push_back((writing.token, result));
        self.slots[slot] = None;
        None
    }

    /// The next write that ended, by its token.
    pub(super) fn pop_ended(&mut self) -> Option<(u64, io::Result<()>)> {
        self.ended.pop_front()
    }

    /// Whether any write is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.slots.iter().any(Option::is_some)
    }
}

impl Writing {
    fn entries(&self, slot: usize) -> [squeue::Entry; 2] {
        let key = Key { slot: slot as u32, generation: 0 };
        let rest = &self.data[self.from..];
        let length = rest.len().min(WRITE_MAX_BYTES) as u32;
        let write = opcode::Write::new(Fd(self.file), rest.as_ptr(), length)
            .offset(self.offset + self.from as u64)
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(pack(Kind::Write, key));
        let sync =
            opcode::Fsync::new(Fd(self.file)).flags(FsyncFlags::DATASYNC).build().user_data(pack(Kind::Sync, key));
        [write, sync]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { slot: 0, generation: 0 };

    #[test]
    fn a_short_write_goes_on_where_it_stopped() {
        let mut writes = Writes::default();
        writes.begin(5, 100, vec![1; 10], 42);
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
        for (written, synced, code) in [(-libc::ENOSPC, -libc::ECANCELED, libc::ENOSPC), (10, -libc::EIO, libc::EIO)] {
            let mut writes = Writes::default();
            writes.begin(5, 0, vec![1; 10], 1);
            writes.completed(Kind::Write, KEY, written);
            assert!(writes.completed(Kind::Sync, KEY, synced).is_none());
            let (_, result) = writes.pop_ended().expect("it ended");
            assert_eq!(result.expect_err("it failed").raw_os_error(), Some(code));
        }
    }

    #[test]
    fn a_write_of_nothing_at_all_is_a_failure_not_a_loop() {
        let mut writes = Writes::default();
        writes.begin(5, 0, vec![1; 10], 1);
        writes.completed(Kind::Write, KEY, 0);
        assert!(writes.completed(Kind::Sync, KEY, 0).is_none());
        assert!(writes.pop_ended().expect("it ended").1.is_err());
    }
}

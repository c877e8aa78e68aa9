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

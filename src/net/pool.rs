//! Reply buffers of one core for reuse, so that a request allocates none and an idle connection holds none.

use super::conversation::Held;

/// Buffers kept at most.
const SPARE_MAX: usize = 1024;

/// A buffer that grew above this is freed rather than kept, in bytes.
const KEPT_MAX_BYTES: usize = 16 << 10;

/// Spare buffers; the one used last is the next to be used.
#[derive(Default)]
pub(super) struct Pool {
    buffers: Vec<Vec<u8>>,
    #[expect(clippy::vec_box, reason = "the boxes themselves go back and forth")]
    held: Vec<Box<Held>>,
}

impl Pool {
    /// An empty buffer.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_else(|| Vec::with_capacity(512))
    }

    /// Whether a buffer is small enough to be kept for reuse.
    pub(super) fn keeps(buffer: &Vec<u8>) -> bool {
        buffer.capacity() <= KEPT_MAX_BYTES
    }

    /// Takes back a buffer that is not needed any more.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() > 0 && Pool::keeps(&buffer) && self.buffers.len() < SPARE_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// An empty set of held replies.
    pub(super) fn take_held(&mut self) -> Box<Held> {
        self.held.pop().unwrap_or_default()
    }

    /// Takes back a set that has become empty.
    pub(super) fn give_back_held(&mut self, mut held: Box<Held>) {
        self.give_back(held.take_bytes());
        if held.marks_bytes() <= KEPT_MAX_BYTES && self.held.len() < SPARE_MAX {
            self.held.push(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::service::JournalPosition;

    #[test]
    fn what_has_grown_large_is_not_kept() {
        let mut pool = Pool::default();
        for (replies, is_kept) in [(2, true), (100_000, false)] {
            let mut held = pool.take_held();
            held.marks.extend((0..replies).map(|at| (at, JournalPosition(1))));
            held.marks.clear();
            pool.give_back_held(held);
            assert_eq!(pool.take_held().marks.capacity() > 0, is_kept, "room for {replies}");
        }
    }
}

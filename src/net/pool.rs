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
        if self.held.len() < SPARE_MAX {
            self.give_back(held.take_bytes());
            self.held.push(held);
        }
    }
}

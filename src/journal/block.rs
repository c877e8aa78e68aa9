//! Memory for writes that bypass the page cache: whole blocks, at an address that is a multiple of one.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Alignment of offsets, lengths and memory: at least the logical block of every disk in use.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes whose address is a multiple of [`BLOCK_BYTES`]. Their place is fixed when they are made: moving the value does not
/// move them.
#[derive(Debug)]
pub struct BlockBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl BlockBuffer {
    /// An empty buffer with room for so many bytes, rounded up to whole blocks.
    pub fn with_capacity(bytes: usize) -> Self {
        let memory: Vec<u8> = Vec::with_capacity(bytes.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES);
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        assert!(start < BLOCK_BYTES, "memory can be aligned");
        let mut buffer = BlockBuffer { memory, start };
        buffer.memory.resize(start, 0);
        buffer
    }

    /// Without its bytes, if there is room for so many without more memory.
    pub fn reuse(&mut self, bytes: usize) -> bool {
        let has_room = self.start + bytes.next_multiple_of(BLOCK_BYTES) <= self.memory.capacity();
        if has_room {
            self.memory.truncate(self.start);
        }
        has_room
    }

    /// Whole blocks of zeros.
    pub fn zeros(bytes: usize) -> Self {
        let mut buffer = BlockBuffer::with_capacity(bytes);
        buffer.memory.resize(buffer.start + bytes.next_multiple_of(BLOCK_BYTES), 0);
        buffer
    }

    /// Appends bytes.
    ///
    /// # Panics
    /// If there is no room: growing would move what is there.
    pub fn extend(&mut self, bytes: &[u8]) {
        assert!(self.memory.len() + bytes.len() <= self.memory.capacity(), "room for {} bytes", bytes.len());
        self.memory.extend_from_slice(bytes);
    }

    /// Fills the last block up with zeros.
    pub fn pad(&mut self) {
        self.memory.resize(self.start + self.len().next_multiple_of(BLOCK_BYTES), 0);
    }
}

impl Deref for BlockBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl DerefMut for BlockBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

impl PartialEq for BlockBuffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BlockBuffer {}

/// The blocks of a write: its owner writes into the same memory again once nobody else has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBlocks(pub Rc<BlockBuffer>);

impl SharedBlocks {
    /// Empty, with room for so many bytes: in the memory that was used before, if that is large enough and free.
    pub fn empty(&mut self, bytes: usize) -> &mut BlockBuffer {
        if !Rc::get_mut(&mut self.0).is_some_and(|buffer| buffer.reuse(bytes)) {
            self.0 = Rc::new(BlockBuffer::with_capacity(bytes));
        }
        Rc::get_mut(&mut self.0).expect("nobody else has it yet")
    }

    /// Gives memory for more than so many bytes back.
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.0.memory.capacity() > bytes.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES {
            self.0 = Rc::new(BlockBuffer::with_capacity(0));
        }
    }
}

impl Deref for SharedBlocks {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_nobody_else_has_it() {
        let mut shared = SharedBlocks(Rc::new(BlockBuffer::with_capacity(0)));
        shared.empty(10_000).extend(b"first");
        let place = shared.as_ptr();
        let lent = shared.clone();
        shared.empty(10_000).extend(b"second");
        assert_eq!((&lent[..], &shared[..]), (&b"first"[..], &b"second"[..]));
        assert_ne!(shared.as_ptr(), place, "somebody had it");
        let place = shared.as_ptr();
        shared.empty(12_288).extend(b"third");
        assert_eq!((shared.as_ptr(), &shared[..]), (place, &b"third"[..]));
        shared.shrink_to(12_288);
        assert_eq!(&shared[..], b"third", "as much as may be kept");
        shared.empty(12_289);
        shared.shrink_to(12_288);
        assert!(shared.0.memory.capacity() < 12_288);
    }

    #[test]
    fn blocks_are_aligned_and_padded() {
        for bytes in [0, 1, 4_095, 4_096, 4_097, 100_000] {
            let mut buffer = BlockBuffer::with_capacity(bytes);
            buffer.extend(&vec![1; bytes]);
            buffer.pad();
            let moved = Box::new(buffer);
            assert_eq!(moved.as_ptr().align_offset(BLOCK_BYTES), 0);
            assert_eq!(moved.len(), bytes.next_multiple_of(BLOCK_BYTES));
            assert!(moved[..bytes].iter().all(|byte| *byte == 1) && moved[bytes..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(BlockBuffer::zeros(5_000).len(), 8_192);
    }
}

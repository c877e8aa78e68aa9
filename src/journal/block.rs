//! Memory for writes that bypass the page cache: whole blocks, at an address that is a multiple of one.

use std::ops::{Deref, DerefMut};

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

#[cfg(test)]
mod tests {
    use super::*;

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

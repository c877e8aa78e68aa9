//! Bytes of one connection that could not be executed where they arrived: the beginning of a frame whose rest is under
//! way, or whole frames behind a parked request. They begin at a frame's first byte.

/// Received and not executed; empty, it holds no memory.
#[derive(Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    start: usize,
}

impl Pending {
    /// How much there is.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// What it takes in memory, as far as bytes have come: what was executed and is not dropped counts too.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Adds what arrived. Memory grows with what arrived, at most to double, and never for what was only announced.
    pub(super) fn append(&mut self, data: &[u8]) {
        if self.bytes.len() + data.len() > self.bytes.capacity() && self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(data);
    }

    /// Drops the first `count` bytes, which were executed; the memory too when nothing is left.
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.bytes.len());
        if self.start == self.bytes.len() {
            *self = Pending::default();
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Pending::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumed_bytes_are_gone_and_so_is_the_memory_of_none() {
        let mut pending = Pending::default();
        pending.append(b"abc");
        pending.consume(1);
        pending.append(b"d");
        assert_eq!(pending.as_slice(), b"bcd");
        pending.consume(3);
        assert!(pending.is_empty());
        assert_eq!(pending.bytes.capacity(), 0);
    }

    #[test]
    fn what_was_executed_weighs_until_its_memory_is_used_again() {
        let mut pending = Pending::default();
        pending.append(&[1; 1000]);
        pending.consume(999);
        assert_eq!((pending.len(), pending.held_bytes()), (1, 1000));
        pending.append(&[1; 1000]);
        assert_eq!((pending.len(), pending.held_bytes()), (1001, 1001));
        pending.consume(1001);
        assert_eq!(pending.held_bytes(), 0);
    }

    #[test]
    fn room_in_front_is_used_before_memory_grows() {
        let mut pending = Pending::default();
        pending.append(&[1; 1000]);
        for _ in 0..1000 {
            pending.consume(100);
            pending.append(&[1; 100]);
        }
        assert!(pending.bytes.capacity() <= 2200, "{}", pending.bytes.capacity());
    }
}

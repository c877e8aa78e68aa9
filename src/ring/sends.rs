//! Replies that the kernel is sending: the ring keeps each until its completion, one per slot.

/// What became of a send.
#[derive(Debug)]
pub enum Sent {
    /// All bytes are out; the buffer comes back for reuse.
    All(Vec<u8>),
    /// The peer's window took only some: send the rest with [`super::Ring::send_rest`].
    Some,
    /// The connection is broken; the buffer comes back for reuse.
    Failed(Vec<u8>),
}

/// A buffer per slot, and how much of it went out.
#[derive(Default)]
pub(super) struct Sends {
    slots: Vec<Sending>,
}

#[derive(Default)]
struct Sending {
    bytes: Vec<u8>,
    from: usize,
}

impl Sends {
    /// Keeps `bytes` for the slot. A slot sends one buffer at a time.
    pub(super) fn begin(&mut self, slot: u32, bytes: Vec<u8>) -> &[u8] {
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with((slot + 1).next_power_of_two(), Sending::default);
        }
        let sending = &mut self.slots[slot];
        assert!(sending.bytes.is_empty() && !bytes.is_empty(), "one send per slot, and not an empty one");
        *sending = Sending { bytes, from: 0 };
        &sending.bytes
    }

    /// The bytes of the slot that have not gone out.
    pub(super) fn rest(&self, slot: u32) -> &[u8] {
        let sending = &self.slots[slot as usize];
        &sending.bytes[sending.from..]
    }

    /// Drops the bytes of the slot, of which the kernel has none.
    pub(super) fn forget(&mut self, slot: u32) {
        self.slots[slot as usize].bytes = Vec::new();
    }

    /// Accounts for a completion.
    pub(super) fn completed(&mut self, slot: u32, result: i32) -> Sent {
        let sending = &mut self.slots[slot as usize];
        if result < 0 {
            return Sent::Failed(std::mem::take(&mut sending.bytes));
        }
        sending.from += result as usize;
        if sending.from < sending.bytes.len() {
            return Sent::Some;
        }
        let mut bytes = std::mem::take(&mut sending.bytes);
        bytes.clear();
        Sent::All(bytes)
    }
}

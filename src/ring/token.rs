//! What a completion belongs to: a kind of operation, a slot, and the slot's generation.

/// A slot and its generation, so that what comes late for an old user of the slot never meets the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Key {
    /// Index of the slot.
    pub slot: u32,
    /// How often the slot was used before; counts modulo [`Key::GENERATIONS`].
    pub generation: u32,
}

impl Key {
    /// Generations that fit beside the slot and the kind in the 64 bits that the kernel carries.
    pub const GENERATIONS: u32 = 1 << 24;

    /// The key of the slot's next user.
    pub fn next(self) -> Key {
        Key { slot: self.slot, generation: (self.generation + 1) % Key::GENERATIONS }
    }
}

/// The kinds of operation on a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Multishot accept.
    Accept,
    /// Multishot receive into provided buffers.
    Receive,
    /// One send.
    Send,
    /// The cancellation of an accept.
    CancelAccept,
    /// The cancellation of a receive.
    CancelReceive,
    /// The timer.
    Timer,
    /// A change of the timer; its own end is of no interest.
    TimerUpdate,
    /// The cancellation of everything.
    CancelAll,
    /// The read of the wakers' eventfd.
    Wake,
    /// The write of a write-and-sync.
    Write,
    /// The sync of a write-and-sync.
    Sync,
}

const KINDS: [Kind; 11] = [
    Kind::Accept,
    Kind::Receive,
    Kind::Send,
    Kind::CancelAccept,
    Kind::CancelReceive,
    Kind::Timer,
    Kind::TimerUpdate,
    Kind::CancelAll,
    Kind::Wake,
    Kind::Write,
    Kind::Sync,
];

/// The 64 bits that go with an operation: kind (8), generation (24), slot (32).
pub(super) fn pack(kind: Kind, key: Key) -> u64 {
    debug_assert!(key.generation < Key::GENERATIONS);
    (kind as u64) << 56 | u64::from(key.generation) << 32 | u64::from(key.slot)
}

/// The inverse of [`pack`].
pub(super) fn unpack(user_data: u64) -> (Kind, Key) {
    let kind = KINDS[(user_data >> 56) as usize];
    (kind, Key { slot: user_data as u32, generation: (user_data >> 32) as u32 % Key::GENERATIONS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_way_through_the_kernel() {
        let key = Key { slot: u32::MAX, generation: Key::GENERATIONS - 1 };
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(unpack(pack(kind, key)), (kind, key));
        }
    }

    #[test]
    fn generations_wrap_within_their_bits() {
        let last = Key { slot: 7, generation: Key::GENERATIONS - 1 };
        assert_eq!(last.next(), Key { slot: 7, generation: 0 });
    }
}

//! One connection: its socket, what the ring has in flight for it, and its conversation.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::conversation::Conversation;
use super::holdings::Holdings;
use crate::ring::Key;
use crate::shard::service::ConnectionId;

/// What the ring is doing about receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Nothing.
    Off,
    /// A multishot receive is armed.
    Armed,
    /// Its end was asked for and has not come.
    Ending,
    /// It ended for want of buffers; it is armed again in its turn.
    Starved,
}

/// A connection that the table holds.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) key: Key,
    pub(super) socket: OwnedFd,
    pub(super) conversation: Conversation,
    pub(super) receiving: Receiving,
    /// A send is in flight.
    pub(super) is_sending: bool,
    /// The send's last part is out, and the next is on the list of those with something to send.
    pub(super) has_rest: bool,
    /// Shut down; waits for the last completions.
    pub(super) is_closing: bool,
    /// On the list of those with something to send.
    pub(super) is_dirty: bool,
    /// On the list of those whose kept frames may go on.
    pub(super) is_resuming: bool,
    /// Counted among those with a parked request.
    is_counted_parked: bool,
    /// The stall wheel has an entry for it.
    pub(super) is_watched: bool,
    /// As the core's sum last counted it.
    pub(super) holdings: Holdings,
    /// When the peer last sent something or took something.
    pub(super) active_ms: u64,
    /// When the send in flight last made progress.
    pub(super) progress_ms: u64,
}

impl Connection {
    pub(super) fn new(key: Key, socket: OwnedFd, conversation: Conversation, now_ms: u64) -> Connection {
        Connection {
            key,
            socket,
            conversation,
            receiving: Receiving::Off,
            is_sending: false,
            has_rest: false,
            is_closing: false,
            is_dirty: false,
            is_resuming: false,
            is_counted_parked: false,
            is_watched: false,
            holdings: Holdings::default(),
            active_ms: now_ms,
            progress_ms: now_ms,
        }
    }

    pub(super) fn id(&self) -> ConnectionId {
        id_of(self.key)
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The count of parked requests, with the present state of this connection in place of the last one that was counted.
    pub(super) fn count_parked(&mut self, parked: u64) -> u64 {
        let is_parked = self.conversation.is_parked();
        let before = std::mem::replace(&mut self.is_counted_parked, is_parked);
        parked + u64::from(is_parked) - u64::from(before)
    }

    /// Whether the ring has something in flight for it.
    pub(super) fn is_in_flight(&self) -> bool {
        (self.is_sending && !self.has_rest) || matches!(self.receiving, Receiving::Armed | Receiving::Ending)
    }
}

/// What the service calls the connection.
pub(super) fn id_of(key: Key) -> ConnectionId {
    ConnectionId(u64::from(key.generation) << 32 | u64::from(key.slot))
}

/// The inverse of [`id_of`].
pub(super) fn key_of(id: ConnectionId) -> Key {
    Key { slot: id.0 as u32, generation: (id.0 >> 32) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Connection>() <= 300, "{} bytes", size_of::<Connection>());
    }

    #[test]
    fn ids_and_keys_are_the_same_thing() {
        let key = Key { slot: u32::MAX - 1, generation: Key::GENERATIONS - 1 };
        assert_eq!(key_of(id_of(key)), key);
    }
}

//! Replies: one send per connection and turn, the buffer handed over, not copied. Large ones go out in parts, and so many parts
//! in a turn, so that nobody's large answers hold up the small ones of others.

use super::core::Core;
use crate::limits;
use crate::ring::{Completion, Key, Sent};

/// What the large sends of a turn have had.
#[derive(Default)]
struct LargeSends {
    bytes: usize,
}

impl LargeSends {
    /// Whether a connection with so much to say may send in this turn; it is counted then. Small sends always may.
    fn have_room_for(&mut self, ready_bytes: usize) -> bool {
        if ready_bytes <= limits::SMALL_SEND_MAX_BYTES {
            return true;
        }
        let has_room = self.bytes < limits::LARGE_SENDS_PER_TURN_BYTES;
        if has_room {
            self.bytes += ready_bytes.min(limits::SEND_MAX_BYTES);
        }
        has_room
    }
}

impl Core {
    /// Sends what the connections on the list have to say; false if they had nothing. What is large and has no room in this turn
    /// stays on the list, before what comes up later.
    pub(super) fn send_all(&mut self) -> bool {
        let (mut sends, mut large) = (0, LargeSends::default());
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|key| {
            let Some(connection) = self.table.get_mut(*key) else { return false };
            if !connection.is_closing && !large.have_room_for(connection.conversation.ready_bytes()) {
                return true;
            }
            connection.is_dirty = false;
            sends += u64::from(self.send(*key));
            false
        });
        self.dirty = dirty;
        self.counters.sends.add(sends);
        sends > 0
    }

    /// Hands the kernel what a connection has to say, or the next part of it.
    fn send(&mut self, key: Key) -> bool {
        let Some(connection) = self.table.get_mut(key) else { return false };
        if connection.is_closing || (connection.is_sending && !connection.has_rest) {
            return false;
        }
        if connection.has_rest {
            connection.has_rest = false;
            self.ring.send_rest(key, connection.fd());
            return true;
        }
        let Some(bytes) = connection.conversation.take_output() else { return false };
        connection.is_sending = true;
        connection.progress_ms = self.now.monotonic_ms;
        self.ring.send(key, connection.fd(), bytes);
        if !connection.is_watched {
            connection.is_watched = true;
            let due_ms = self.now.monotonic_ms + self.limits.send_stall_max_ms;
            self.stalls.insert(self.now.monotonic_ms, due_ms, key);
        }
        true
    }

    /// A send completed.
    pub(super) fn on_send(&mut self, completion: &Completion) {
        let key = completion.key;
        let sent = self.ring.sent(completion);
        let Some(connection) = self.table.get_mut(key) else { return };
        let bytes = completion.result.max(0) as usize;
        self.counters.sent_bytes.add(bytes as u64);
        connection.conversation.sent(bytes);
        connection.active_ms = self.now.monotonic_ms;
        match sent {
            Sent::Some if !connection.is_closing => {
                connection.progress_ms = self.now.monotonic_ms;
                connection.has_rest = true;
                if !connection.is_dirty {
                    connection.is_dirty = true;
                    self.dirty.push(key);
                }
            }
            Sent::Some => {
                connection.is_sending = false;
                self.ring.forget_send(key);
            }
            Sent::All(buffer) => {
                connection.is_sending = false;
                self.pool.give_back(buffer);
            }
            Sent::Failed(buffer) => {
                connection.is_sending = false;
                self.pool.give_back(buffer);
                self.close(key);
            }
        }
        self.settle(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sends_have_their_share_of_a_turn_and_small_ones_go_in_any_case() {
        let mut large = LargeSends::default();
        let parts = limits::LARGE_SENDS_PER_TURN_BYTES / limits::SEND_MAX_BYTES;
        for part in 0..parts {
            assert!(large.have_room_for(limits::SEND_MAX_BYTES + part), "a part counts as what is handed over of it");
        }
        assert!(!large.have_room_for(limits::SMALL_SEND_MAX_BYTES + 1), "a byte too large to go in any case");
        assert!(large.have_room_for(limits::SMALL_SEND_MAX_BYTES));
        let mut large = LargeSends { bytes: limits::LARGE_SENDS_PER_TURN_BYTES - 1 };
        assert!(large.have_room_for(limits::SEND_MAX_BYTES), "the one that passes the share");
        assert!(!large.have_room_for(limits::SEND_MAX_BYTES));
    }
}

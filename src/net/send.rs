//! Replies: one send per connection and turn, the buffer handed over, not copied. Large ones go out in parts, and so many parts
//! in a turn, so that nobody's large answers hold up the small ones of others.

use super::core::Core;
use crate::limits;
use crate::ring::{Completion, Key, Sent};

impl Core {
    /// Sends what the connections on the list have to say; false if they had nothing. What is large and has no room in this turn
    /// stays on the list, before what comes up later.
    pub(super) fn send_all(&mut self) -> bool {
        let (mut sends, mut large_bytes) = (0, 0);
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.retain(|key| {
            let Some(connection) = self.table.get_mut(*key) else { return false };
            let bytes = connection.conversation.ready_bytes().min(limits::SEND_MAX_BYTES);
            if bytes > limits::SMALL_SEND_MAX_BYTES && !connection.is_closing {
                if large_bytes >= limits::LARGE_SENDS_PER_TURN_BYTES {
                    return true;
                }
                large_bytes += bytes;
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
            Sent::Some { .. } if !connection.is_closing => {
                connection.progress_ms = self.now.monotonic_ms;
                connection.has_rest = true;
                if !connection.is_dirty {
                    connection.is_dirty = true;
                    self.dirty.push(key);
                }
            }
            Sent::Some { .. } => {
                connection.is_sending = false;
                self.ring.forget_send(key);
            }
            Sent::All(buffer) => {
                connection.is_sending = false;
                self.pool.give_back(buffer);
            }
            Sent::Failed(_, buffer) => {
                connection.is_sending = false;
                self.pool.give_back(buffer);
                self.close(key);
            }
        }
        self.settle(key);
    }
}

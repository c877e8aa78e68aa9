//! Replies: one send per connection and turn, the buffer handed over, not copied.

use super::core::Core;
use crate::ring::{Completion, Sent};

impl Core {
    /// Sends what the connections on the list have to say; false if they had nothing.
    pub(super) fn send_all(&mut self) -> bool {
        let mut sends = 0;
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(connection) = self.table.get_mut(key) else { continue };
            connection.is_dirty = false;
            if connection.is_closing || connection.is_sending {
                continue;
            }
            let Some(bytes) = connection.conversation.take_output() else { continue };
            connection.is_sending = true;
            connection.progress_ms = self.now.monotonic_ms;
            self.ring.send(key, connection.fd(), bytes);
            sends += 1;
            if !connection.is_watched {
                connection.is_watched = true;
                let due_ms = self.now.monotonic_ms + self.limits.send_stall_max_ms;
                self.stalls.insert(self.now.monotonic_ms, due_ms, key);
            }
        }
        self.dirty = dirty;
        self.counters.sends.add(sends);
        sends > 0
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
                self.ring.send_rest(key, connection.fd());
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

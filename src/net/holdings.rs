//! What the connections of a core hold in memory together: bytes that were received and not executed, and replies that are not
//! out. Each connection is bounded by itself; here their sum is, by closing the one that weighs most. Nobody is made to wait
//! instead: half-sent frames that wait for each other's memory would wait for ever, and the frames of orderly clients,
//! which are small, behind them.

use super::connection::Connection;
use super::core::Core;
use crate::ring::Key;

/// Bytes of one connection, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holdings {
    /// Received and not executed.
    pub(super) kept_bytes: usize,
    /// Replies that are not out to their last byte.
    pub(super) unsent_bytes: usize,
}

impl Holdings {
    /// One connection has now `after` where it had `before`.
    fn change(&mut self, before: Holdings, after: Holdings) {
        self.kept_bytes = self.kept_bytes - before.kept_bytes + after.kept_bytes;
        self.unsent_bytes = self.unsent_bytes - before.unsent_bytes + after.unsent_bytes;
    }
}

impl Core {
    /// Brings the sums up to date with a connection, and bounds them.
    pub(super) fn account(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        let now = connection.holds();
        let before = std::mem::replace(&mut connection.holdings, now);
        self.holdings.change(before, now);
        while self.holdings.kept_bytes > self.limits.queued_requests_max_bytes {
            let kept = |connection: &Connection| connection.holdings.kept_bytes as u64;
            let Some((key, bytes)) = self.table.largest(kept) else { return };
            let (all, most) = (self.holdings.kept_bytes, self.limits.queued_requests_max_bytes);
            let reason = format!("queued requests: {bytes} bytes here, {all} of all connections, {most} allowed");
            self.cut_off(key, &reason);
        }
        while self.holdings.unsent_bytes > self.limits.unread_replies_max_bytes {
            let now_ms = self.now.monotonic_ms;
            // What is read right now is not in the way, however large it is.
            let waits = |connection: &Connection| {
                let waited_ms = if connection.is_sending { now_ms.saturating_sub(connection.progress_ms) } else { 0 };
                (connection.holdings.unsent_bytes as u64).saturating_mul(waited_ms + 1)
            };
            let Some((key, _)) = self.table.largest(waits) else { return };
            let (all, most) = (self.holdings.unsent_bytes, self.limits.unread_replies_max_bytes);
            let reason = format!("unread replies: {all} bytes of all connections, {most} allowed");
            self.cut_off(key, &reason);
        }
    }

    /// A connection that is about to close counts no more: its memory goes with its last completions.
    pub(super) fn discount(&mut self, key: Key) {
        if let Some(connection) = self.table.get_mut(key) {
            let before = std::mem::take(&mut connection.holdings);
            self.holdings.change(before, Holdings::default());
        }
    }
}

impl Connection {
    fn holds(&self) -> Holdings {
        Holdings { kept_bytes: self.conversation.kept_bytes(), unsent_bytes: self.conversation.reply_bytes() }
    }
}

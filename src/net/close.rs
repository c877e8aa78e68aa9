//! What follows from the state of a connection, and how connections end: shut down, wait for the last completions of
//! receive and send, then close. Closing at once would leave the armed receive holding the socket, and no FIN would go out.

use std::net::Shutdown;
use std::time::Duration;

use socket2::SockRef;
use tracing::info;

use super::core::Core;
use crate::ring::Key;

/// How long replies in hand may take to leave when the server stops, and what is promised to be written.
const STOP_MAX_MS: u64 = 3_000;

/// How much longer the last completions may take.
const STOP_GRACE_MS: u64 = 500;

impl Core {
    /// Draws the consequences after anything happened to a connection.
    pub(super) fn settle(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.is_closing {
            if !connection.is_in_flight() {
                self.release(key);
            }
            return;
        }
        if let Some(reason) = connection.conversation.take_failure() {
            self.report(key, &reason);
        }
        self.account(key);
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.is_closing {
            return;
        }
        self.parked = connection.count_parked(self.parked);
        let request_max_bytes = self.limits.request_max_bytes;
        if connection.conversation.is_finished(request_max_bytes) {
            return self.close(key);
        }
        if connection.conversation.has_output() && !connection.is_dirty && !connection.is_sending {
            connection.is_dirty = true;
            self.dirty.push(key);
        }
        if !connection.is_resuming && connection.conversation.can_resume(request_max_bytes) {
            connection.is_resuming = true;
            self.resuming.push_back(key);
        }
        self.settle_receive(key);
    }

    /// Ends a connection for something that is no fault of its peer; what waits to be sent is dropped.
    pub(super) fn close_for(&mut self, key: Key, reason: &str) {
        if self.table.get_mut(key).is_some_and(|connection| !connection.is_closing) {
            self.report(key, reason);
            self.close(key);
        }
    }

    /// Begins the end of a connection.
    pub(super) fn close(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.is_closing {
            return;
        }
        connection.is_closing = true;
        connection.conversation.stop();
        if std::mem::take(&mut connection.has_rest) {
            connection.is_sending = false;
            self.ring.forget_send(key);
        }
        self.parked = connection.count_parked(self.parked);
        self.gone.push(connection.id());
        self.discount(key);
        let Some(connection) = self.table.get_mut(key) else { return };
        // An error means that the peer was faster.
        let _ = SockRef::from(&connection.socket).shutdown(Shutdown::Both);
        if !connection.is_in_flight() {
            self.release(key);
        }
    }

    /// Closes connections that were idle for too long or whose replies make no progress.
    pub(super) fn close_overdue(&mut self) {
        let now_ms = self.now.monotonic_ms;
        while let Some(keys) = self.idle.as_mut().and_then(|wheel| wheel.pop_due(now_ms)) {
            keys.into_iter().for_each(|key| self.check_idle(key));
        }
        while let Some(keys) = self.stalls.pop_due(now_ms) {
            keys.into_iter().for_each(|key| self.check_stall(key));
        }
    }

    /// Begins the end of the core: no new connections, no new requests, replies in hand leave.
    pub(super) fn begin_stop(&mut self) {
        self.stop_by_ms = Some(self.now.monotonic_ms + STOP_MAX_MS);
        self.stop_listening();
        for key in self.table.keys() {
            if let Some(connection) = self.table.get_mut(key) {
                connection.conversation.stop();
                self.settle(key);
            }
        }
    }

    /// When a stop is to go on with what takes too long, or to give it up.
    pub(super) fn stop_deadline_ms(&self) -> Option<u64> {
        let stop_by_ms = self.stop_by_ms?;
        let is_grace = self.now.monotonic_ms >= stop_by_ms;
        Some(if is_grace { stop_by_ms + STOP_GRACE_MS } else { stop_by_ms })
    }

    /// Whether the core has come to its end; closes what takes too long. The service may still have to write.
    pub(super) fn has_stopped(&mut self, has_to_write: bool) -> bool {
        let Some(stop_by_ms) = self.stop_by_ms else { return false };
        let is_late = self.now.monotonic_ms >= stop_by_ms;
        let is_idle = self.table.len() == 0 && self.listeners.is_empty() && !self.ring.is_writing();
        if is_idle && (is_late || !has_to_write) {
            return true;
        }
        if !is_late {
            return false;
        }
        let keys = self.table.keys();
        keys.into_iter().for_each(|key| self.reset(key));
        if self.now.monotonic_ms >= stop_by_ms + STOP_GRACE_MS {
            return true;
        }
        false
    }

    fn check_idle(&mut self, key: Key) {
        let (Some(connection), Some(idle_ms)) = (self.table.get_mut(key), self.limits.connections_max_idle_ms) else {
            return;
        };
        let (now_ms, due_ms) = (self.now.monotonic_ms, connection.active_ms + idle_ms);
        if connection.is_closing {
            return;
        }
        if due_ms <= now_ms {
            self.counters.connections_closed_idle.add(1);
            self.log_close(key, &format!("idle for {idle_ms} ms (connections.max.idle.ms)"));
            self.close(key);
        } else if let Some(wheel) = &mut self.idle {
            wheel.insert(now_ms, due_ms, key);
        }
    }

    fn check_stall(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        connection.is_watched = false;
        if !connection.is_sending || connection.is_closing {
            return;
        }
        let (now_ms, due_ms) = (self.now.monotonic_ms, connection.progress_ms + self.limits.send_stall_max_ms);
        if due_ms <= now_ms {
            self.counters.connections_closed_stalled.add(1);
            self.log_close(key, &format!("stalled: a reply made no progress for {} ms", self.limits.send_stall_max_ms));
            self.reset(key);
        } else {
            connection.is_watched = true;
            self.stalls.insert(now_ms, due_ms, key);
        }
    }

    /// As `close`, but what the peer did not take is dropped, or the kernel would keep it for minutes.
    fn reset(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        connection.conversation.forget_replies();
        let _ = SockRef::from(&connection.socket).set_linger(Some(Duration::ZERO));
        self.close(key);
    }

    /// Ends a connection at once for what its peer did.
    pub(super) fn cut_off(&mut self, key: Key, reason: &str) {
        self.report(key, reason);
        self.reset(key);
    }

    /// Counts and logs what a peer did.
    fn report(&mut self, key: Key, reason: &str) {
        self.counters.close_reasons.count(first_word(reason));
        self.log_close(key, reason);
    }

    fn log_close(&mut self, key: Key, reason: &str) {
        let Some(connection) = self.table.get_mut(key) else { return };
        let peer = connection.conversation.session().peer;
        if let Some(suppressed) = self.log.allows(self.now.monotonic_ms) {
            info!(%peer, reason, suppressed, "closing a connection");
        }
    }

    fn release(&mut self, key: Key) {
        if let Some(connection) = self.table.remove(key) {
            self.quota.release(connection.conversation.session().peer.ip());
            self.counters.connections_closed.add(1);
        }
        // Clients that come and go leave entries behind, each for as long as its client might have been idle.
        let live = self.table.len();
        for wheel in self.idle.iter_mut().chain([&mut self.stalls]) {
            wheel.sweep(live, |key| self.table.get_mut(key).is_some());
        }
    }
}

/// What a reason is counted by.
fn first_word(reason: &str) -> &str {
    reason.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').next().unwrap_or_default()
}

//! New connections: accepted by multishot, counted over all cores, the one too many closed at once.

use std::os::fd::{AsRawFd, OwnedFd};

use socket2::SockRef;
use tracing::warn;

use super::address::canonical;
use super::connection::Connection;
use super::conversation::Conversation;
use super::core::Core;
use super::quota::Refusal;
use crate::limits::ADMISSIONS_PER_TURN;
use crate::ring::{Completion, Key, Kind, accepted};
use crate::shard::service::Session;

/// How long accepting rests when the process or the machine is out of descriptors or memory.
const ACCEPT_REST_MS: u64 = 200;

impl Core {
    /// Arms all accepts that are not armed.
    pub(super) fn listen(&mut self) {
        for slot in 0..self.listeners.len() {
            let listening = &mut self.listeners[slot];
            if !listening.is_armed {
                listening.is_armed = true;
                self.ring.accept(listener_key(slot), listening.socket.socket.as_raw_fd());
            }
        }
    }

    /// Ends all accepts; the sockets close when the last completion has come.
    pub(super) fn stop_listening(&mut self) {
        self.accept_again_ms = None;
        self.arrivals.clear();
        for (slot, listening) in self.listeners.iter().enumerate() {
            if listening.is_armed {
                self.ring.cancel_accept(listener_key(slot));
            }
        }
        self.close_listeners();
    }

    /// A cancellation of an accept completed. If it missed (the accept was just then running), it is tried again.
    pub(super) fn on_cancel_accept(&mut self, completion: &Completion) {
        let is_armed = self.listeners.get(completion.key.slot as usize).is_some_and(|listening| listening.is_armed);
        if completion.result < 0 && is_armed {
            self.ring.cancel_accept(completion.key);
        }
    }

    /// An accept completed.
    pub(super) fn on_accept(&mut self, completion: &Completion) {
        let slot = completion.key.slot as usize;
        self.listeners[slot].is_armed = completion.has_more();
        match accepted(completion) {
            Ok(_) if self.stop_by_ms.is_some() => {}
            Ok(socket) => self.arrivals.push_back((slot, socket)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ECANCELED | libc::ECONNABORTED | libc::EPROTO) => {}
                _ => {
                    self.counters.accepts_suspended.add(1);
                    self.accept_again_ms = Some(self.now.monotonic_ms + ACCEPT_REST_MS);
                    if let Some(suppressed) = self.log.allows(self.now.monotonic_ms) {
                        warn!(%error, suppressed, "accepting connections rests for {ACCEPT_REST_MS} ms");
                    }
                }
            },
        }
        if self.stop_by_ms.is_some() {
            self.close_listeners();
        } else if self.accept_again_ms.is_none() {
            self.listen();
        }
    }

    /// Closes at once what was accepted out of the reserve of descriptors: a burst must not take what files need, not even
    /// until it is its turn.
    pub(super) fn keep_reserve(&mut self, completions: &mut [Completion]) {
        for completion in completions {
            if completion.kind == Kind::Accept && completion.result >= self.descriptor_ceiling {
                drop(accepted(completion));
                completion.result = -libc::ECONNABORTED;
                self.counters.connections_refused.count("descriptors");
                self.log_refusal("descriptors are short (raise the limit on open files)");
            }
        }
    }

    /// Takes up connections that have come, not so many that those who are there would wait for it.
    pub(super) fn admit_some(&mut self) {
        for _ in 0..ADMISSIONS_PER_TURN {
            let Some((slot, socket)) = self.arrivals.pop_front() else { return };
            self.admit(slot, socket);
        }
    }

    /// Takes accepting up again when its rest is over.
    pub(super) fn accept_again(&mut self) {
        if self.accept_again_ms.is_some_and(|due_ms| due_ms <= self.now.monotonic_ms) {
            self.accept_again_ms = None;
            self.listen();
        }
    }

    /// Closes the listening sockets once no accept holds any of them.
    fn close_listeners(&mut self) {
        if self.listeners.iter().all(|listening| !listening.is_armed) {
            self.listeners.clear();
        }
    }

    fn admit(&mut self, slot: usize, socket: OwnedFd) {
        // A peer that is gone already has no address.
        let Ok(Some(peer)) = SockRef::from(&socket).peer_addr().map(|address| address.as_socket()) else { return };
        let peer = canonical(peer);
        if let Err(refusal) = self.quota.admit(peer.ip()) {
            let key = match refusal {
                Refusal::Total => "max.connections",
                Refusal::Address => "max.connections.per.ip",
            };
            self.counters.connections_refused.count(key);
            return self.log_refusal(key);
        }
        self.counters.connections_accepted.add(1);
        let session = Session { listener: self.listeners[slot].index, peer };
        let now_ms = self.now.monotonic_ms;
        let connection = self.table.insert(|key| Connection::new(key, socket, Conversation::new(session), now_ms));
        let key = connection.key;
        if let (Some(wheel), Some(idle_ms)) = (&mut self.idle, self.limits.connections_max_idle_ms) {
            wheel.insert(now_ms, now_ms + idle_ms, key);
        }
        self.settle(key);
    }

    fn log_refusal(&mut self, limit: &str) {
        if let Some(suppressed) = self.log.allows(self.now.monotonic_ms) {
            warn!(limit, suppressed, "a connection was refused");
        }
    }
}

fn listener_key(slot: usize) -> Key {
    Key { slot: slot as u32, generation: 0 }
}

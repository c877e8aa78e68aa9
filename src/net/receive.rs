//! Received bytes: handed to the conversation where they lie in the ring's buffer, which goes back in the same turn.

use super::connection::Receiving;
use super::conversation::Turn;
use super::core::Core;
use crate::limits;
use crate::ring::{BufferId, Completion, Key};
use crate::shard::service::Service;

impl Core {
    /// A receive completed.
    pub(super) fn on_receive<S: Service>(&mut self, service: &mut S, completion: &Completion) {
        if let Some(buffer) = completion.buffer() {
            self.feed(service, completion.key, buffer, completion.result.max(0) as usize);
            self.ring.give_back(buffer);
        }
        let key = completion.key;
        let Some(connection) = self.table.get_mut(key) else { return };
        if !completion.has_more() {
            connection.receiving = Receiving::Off;
        }
        match -completion.result {
            ..0 => {}
            0 => connection.conversation.end(),
            libc::ENOBUFS => {
                connection.receiving = Receiving::Starved;
                self.starved.push_back(key);
                self.counters.receives_starved.add(1);
            }
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
            _ => self.close(key),
        }
        self.settle(key);
    }

    /// A cancellation of a receive completed. If it missed (the receive was just then running), it is tried again.
    pub(super) fn on_cancel_receive(&mut self, completion: &Completion) {
        let Some(connection) = self.table.get_mut(completion.key) else { return };
        if completion.result < 0 && connection.receiving == Receiving::Ending {
            connection.receiving = Receiving::Armed;
            self.settle(completion.key);
        }
    }

    /// Arms receives that lacked a buffer, at most as many as there are buffers, in the order in which they ended.
    pub(super) fn rearm_starved(&mut self) {
        for _ in 0..self.starved.len().min(self.ring.buffer_count()) {
            let Some(key) = self.starved.pop_front() else { return };
            if let Some(connection) = self.table.get_mut(key)
                && connection.receiving == Receiving::Starved
            {
                connection.receiving = Receiving::Off;
                self.settle(key);
            }
        }
    }

    /// Executes kept frames of conversations that may go on, in the order in which they came to it: of all while the turn has
    /// time, and a little of some in any case. True if any frame was executed.
    pub(super) fn resume_all<S: Service>(&mut self, service: &mut S) -> bool {
        let mut was_any = false;
        for resumed in 0..self.resuming.len() {
            let has_time = self.has_time_to_receive();
            if !has_time && resumed >= limits::CONNECTIONS_OF_A_LATE_TURN {
                break;
            }
            let Some(key) = self.resuming.pop_front() else { break };
            let Some(connection) = self.table.get_mut(key) else { continue };
            connection.is_resuming = false;
            let id = connection.id();
            let mut turn = Turn {
                service,
                pool: &mut self.pool,
                durable: self.durable,
                waits: &mut self.waits,
                request_max_bytes: self.limits.request_max_bytes,
                number: self.turn_number,
                share: if has_time { self.turn_share } else { limits::CONNECTION_REQUESTS_PER_TURN_MIN },
                requests: 0,
            };
            was_any |= connection.conversation.resume(id, &mut turn);
            self.counters.requests.add(turn.requests);
            self.settle(key);
        }
        was_any
    }

    /// Arms or ends the receive of a connection as its conversation wants.
    pub(super) fn settle_receive(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        match (connection.receiving, connection.conversation.wants_bytes(self.limits.request_max_bytes)) {
            (Receiving::Off, true) => {
                connection.receiving = Receiving::Armed;
                self.ring.receive(key, connection.fd());
            }
            (Receiving::Armed, false) if !connection.conversation.has_ended() => {
                connection.receiving = Receiving::Ending;
                self.ring.cancel_receive(key);
                self.counters.receives_suspended.add(1);
            }
            _ => {}
        }
    }

    fn feed<S: Service>(&mut self, service: &mut S, key: Key, buffer: BufferId, length: usize) {
        let Some(connection) = self.table.get_mut(key) else { return };
        connection.active_ms = self.now.monotonic_ms;
        let id = connection.id();
        let mut turn = Turn {
            service,
            pool: &mut self.pool,
            durable: self.durable,
            waits: &mut self.waits,
            request_max_bytes: self.limits.request_max_bytes,
            number: self.turn_number,
            share: self.turn_share,
            requests: 0,
        };
        connection.conversation.feed(id, self.ring.bytes(buffer, length), &mut turn);
        self.counters.requests.add(turn.requests);
        self.counters.received_bytes.add(length as u64);
    }
}

//! Connections between clients and cores: they delay, never reorder within themselves, and break.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use super::{Event, Incoming, World};
use crate::shard::service::{ListenerIndex, Session};

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) actor: usize,
    /// Which of the actor's connections.
    pub(super) link: usize,
    core: usize,
    incarnation: u64,
    /// Of the requests that wait for a reply, in order.
    expected: VecDeque<i32>,
    /// When what was sent last arrives.
    up_us: u64,
    down_us: u64,
    /// As far as the client knows.
    pub(super) is_open: bool,
    /// Nothing gets through any more.
    is_cut: bool,
}

impl Connection {
    pub(super) fn core(&self) -> usize {
        self.core
    }
}

impl World {
    /// Sends a request frame on one of an actor's connections, a new one to this core if there is none.
    pub(super) fn send(&mut self, actor: usize, link: usize, core: usize, frame: Vec<u8>) {
        let connection = match self.actors[actor].links[link] {
            Some(connection) => connection,
            None => self.connect(actor, link, core),
        };
        let latency_us = self.latency_us();
        let found = &mut self.connections[connection as usize];
        let correlation_id = frame.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes);
        found.expected.push_back(correlation_id);
        found.up_us = found.up_us.max(self.now_us + latency_us);
        let at_us = found.up_us;
        self.at(at_us, Event::Frame { connection, frame });
    }

    fn connect(&mut self, actor: usize, link: usize, core: usize) -> u64 {
        let connection = self.connections.len() as u64;
        let is_refused = core >= self.machine.cores.len();
        let up_us = self.now_us + self.latency_us();
        self.connections.push(Connection {
            actor,
            link,
            core,
            incarnation: self.machine.incarnation,
            expected: VecDeque::new(),
            up_us,
            down_us: 0,
            is_open: true,
            is_cut: is_refused,
        });
        self.actors[actor].links[link] = Some(connection);
        if is_refused {
            self.at(up_us, Event::ClosedAtClient { connection });
        } else {
            self.at(up_us, Event::Open { connection });
        }
        connection
    }

    pub(super) fn open_at_server(&mut self, connection: u64) {
        let port = 10_000 + (connection % 50_000) as u16;
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let session = Session { listener: ListenerIndex(0), peer };
        if self.is_alive(connection) {
            self.model.opened(connection, self.connections[connection as usize].core);
        }
        self.send_to_core(connection, |id| Incoming::Opened(id, session));
    }

    /// Whether the process that a connection leads to still runs.
    fn is_alive(&self, connection: u64) -> bool {
        self.machine.is_up() && self.connections[connection as usize].incarnation == self.machine.incarnation
    }

    pub(super) fn send_to_core(&mut self, connection: u64, what: impl FnOnce(u64) -> Incoming) {
        if !self.is_alive(connection) {
            return;
        }
        let found = &self.connections[connection as usize];
        let incoming = what(connection);
        if found.is_cut && matches!(incoming, Incoming::Frame(..)) {
            return;
        }
        let core = found.core;
        self.machine.cores[core].inbox.push(incoming);
        self.wake_core(core);
    }

    /// A reply frame leaves a core.
    pub(super) fn reply(&mut self, connection: u64, frame: Vec<u8>) {
        let latency_us = self.latency_us();
        let found = &mut self.connections[connection as usize];
        found.down_us = found.down_us.max(self.now_us + latency_us);
        let at_us = found.down_us;
        self.at(at_us, Event::Reply { connection, frame });
    }

    pub(super) fn reply_at_client(&mut self, connection: u64, frame: &[u8]) {
        let found = &mut self.connections[connection as usize];
        if !found.is_open || found.is_cut {
            return;
        }
        let told = frame.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        let due = found.expected.pop_front();
        let (actor, link) = (found.actor, found.link);
        if told != due {
            return self.model.fault(format!("connection {connection}: correlation id {told:?}, but {due:?} is due"));
        }
        self.received(actor, link, &frame[4..]);
    }

    /// A core closes a connection, behind the replies that are under way.
    pub(super) fn close_from_server(&mut self, connection: u64) {
        let latency_us = self.latency_us();
        let found = &self.connections[connection as usize];
        let at_us = found.down_us.max(self.now_us + latency_us);
        self.at(at_us, Event::ClosedAtClient { connection });
    }

    pub(super) fn closed_at_client(&mut self, connection: u64) {
        let found = &mut self.connections[connection as usize];
        if !std::mem::replace(&mut found.is_open, false) {
            return;
        }
        let (actor, link) = (found.actor, found.link);
        self.disconnected(actor, link, connection);
    }

    /// A client closes one of its connections.
    pub(super) fn close(&mut self, actor: usize, link: usize) {
        let Some(connection) = self.actors[actor].links[link].take() else { return };
        let latency_us = self.latency_us();
        let found = &mut self.connections[connection as usize];
        found.is_open = false;
        let at_us = found.up_us.max(self.now_us + latency_us);
        self.at(at_us, Event::ClosedAtServer { connection });
    }

    /// A connection breaks; either end learns of it in its own time.
    pub(super) fn cut(&mut self, connection: u64) {
        self.connections[connection as usize].is_cut = true;
        let pauses_us = [1_000, 50_000, 3_000_000, 20_000_000];
        let (here_us, there_us) = (*self.random.pick(&pauses_us), *self.random.pick(&pauses_us));
        let (here_us, there_us) = (self.random.below(here_us), self.random.below(there_us));
        self.after(here_us, Event::ClosedAtClient { connection });
        self.after(there_us, Event::ClosedAtServer { connection });
    }

    /// The process has ended: the clients learn of it.
    pub(super) fn cut_all(&mut self) {
        for connection in 0..self.connections.len() as u64 {
            if self.connections[connection as usize].is_open {
                self.connections[connection as usize].is_cut = true;
                let pause_us = self.random.below(100_000);
                self.after(pause_us, Event::ClosedAtClient { connection });
            }
        }
    }

    fn latency_us(&mut self) -> u64 {
        let most_us = self.plan.latency_ms * 1_000 + 100;
        if self.random.chance(20) { self.random.below(20 * most_us) } else { self.random.below(most_us) }
    }
}

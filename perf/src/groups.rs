//! Many groups of one member on shared sockets. A socket takes its groups in batches: it asks for the ids of a whole batch
//! at once (such a request is never parked), then the groups join one after the other, the SyncGroup of one together with
//! the JoinGroup of the next: at most one parked request on a socket, as a server reads nothing behind it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::crew::{MEMBER_ID_REQUIRED, NOT_AVAILABLE_YET, Plan};
use crate::engine::{Engine, Handler};
use crate::{messages, wire};

const RETRY_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
enum Awaits {
    Id,
    Join(String),
    Sync,
}

#[derive(Default)]
struct Socket {
    in_flight: VecDeque<(String, Awaits)>,
    /// Groups of the batch with their member ids, still to join.
    ready: VecDeque<(String, String)>,
    asked: i32,
    answered: i32,
}

/// The groups still to come, and the sockets that work through them.
pub(crate) struct Groups {
    /// Groups whose one member has its assignment.
    pub(crate) settled: usize,
    plan: Plan,
    batch: usize,
    names: VecDeque<String>,
    sockets: Vec<Socket>,
    retries: Vec<(usize, String)>,
}

impl Groups {
    pub(crate) fn new(plan: Plan, names: Vec<String>, sockets: usize, batch: usize) -> Groups {
        let sockets = (0..sockets).map(|_| Socket::default()).collect();
        Groups { settled: 0, plan, batch, names: names.into(), sockets, retries: Vec::new() }
    }

    /// Takes all groups to their assignment; gives the time it took.
    pub(crate) fn drive(&mut self, engine: &mut Engine, limit: Duration) -> Result<Duration, String> {
        let (start, groups) = (Instant::now(), self.names.len());
        for connection in 0..self.sockets.len() {
            self.go_on(connection, engine.output(connection));
        }
        let mut retried = start;
        while self.settled < groups {
            engine.turn(self, Some(RETRY_PAUSE))?;
            let now = Instant::now();
            if now - start > limit {
                return Err(format!("only {} of {groups} groups in {limit:?}; {}", self.settled, self.waiting()));
            }
            if now - retried > RETRY_PAUSE {
                retried = now;
                for (connection, group) in std::mem::take(&mut self.retries) {
                    self.ask_id(connection, group, engine.output(connection));
                }
            }
        }
        Ok(start.elapsed())
    }

    /// The next JoinGroup of the batch, or the next batch.
    fn go_on(&mut self, connection: usize, output: &mut Vec<u8>) {
        if let Some((group, id)) = self.sockets[connection].ready.pop_front() {
            let frame = messages::join_group(&group, self.plan.session_timeout_ms, &id, &self.plan.metadata);
            self.send(connection, group, Awaits::Join(id), frame, output);
        } else if self.sockets[connection].in_flight.is_empty() {
            for group in self.names.drain(..self.batch.min(self.names.len())).collect::<Vec<_>>() {
                self.ask_id(connection, group, output);
            }
        }
    }

    fn waiting(&self) -> String {
        let busy = self.sockets.iter().enumerate().filter_map(|(number, it)| Some((number, it.in_flight.front()?)));
        format!("{} to be asked again; waiting first for {:?}", self.retries.len(), busy.take(3).collect::<Vec<_>>())
    }

    fn ask_id(&mut self, connection: usize, group: String, output: &mut Vec<u8>) {
        let frame = messages::join_group(&group, self.plan.session_timeout_ms, "", &self.plan.metadata);
        self.send(connection, group, Awaits::Id, frame, output);
    }

    fn send(&mut self, connection: usize, group: String, awaits: Awaits, mut frame: Vec<u8>, output: &mut Vec<u8>) {
        let socket = &mut self.sockets[connection];
        wire::stamp(&mut frame, socket.asked);
        socket.asked += 1;
        socket.in_flight.push_back((group, awaits));
        output.append(&mut frame);
    }
}

impl Handler for Groups {
    fn frame(&mut self, connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let socket = &mut self.sockets[connection];
        let is_due = frame.get(4..8) == Some(&socket.answered.to_be_bytes());
        let Some((group, awaits)) = socket.in_flight.pop_front().filter(|_| is_due) else {
            return Err(format!("an answer that was not asked for on connection {connection}: {frame:02x?}"));
        };
        socket.answered += 1;
        match awaits {
            Awaits::Id => {
                let joined = messages::read_join_group(frame)?;
                if NOT_AVAILABLE_YET.contains(&joined.error_code) {
                    self.retries.push((connection, group));
                } else if joined.error_code == MEMBER_ID_REQUIRED && !joined.member_id.is_empty() {
                    socket.ready.push_back((group, joined.member_id.into()));
                } else {
                    return Err(format!("JoinGroup of {group} without an id: {joined:?}"));
                }
                if socket.in_flight.is_empty() {
                    self.go_on(connection, output);
                }
            }
            Awaits::Join(id) => {
                let joined = messages::read_join_group(frame)?;
                if joined.error_code != 0 || joined.members != [id.as_str()] || !joined.is_leader {
                    return Err(format!("JoinGroup of {group} as {id}: {joined:?}"));
                }
                let generation = joined.generation_id;
                let frame = messages::sync_group(&group, generation, &id, &joined.members, &self.plan.assignment);
                self.send(connection, group, Awaits::Sync, frame, output);
                if !self.sockets[connection].ready.is_empty() {
                    self.go_on(connection, output);
                }
            }
            Awaits::Sync => {
                let (error_code, assignment) = messages::read_sync_group(frame)?;
                if error_code != 0 || assignment != self.plan.assignment {
                    return Err(format!("SyncGroup of {group}: error code {error_code}, {} bytes", assignment.len()));
                }
                self.settled += 1;
                if socket.in_flight.is_empty() {
                    self.go_on(connection, output);
                }
            }
        }
        Ok(())
    }
}

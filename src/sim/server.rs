//! One core of the simulated machine: the real shard, driven as `net` drives it, with the model looking on.

use std::cell::Cell;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::breaks::Breaks;
use super::conversation::Conversation;
use super::model::{Model, Outcome};
use super::random::Random;
use crate::clock::Now;
use crate::shard::Shard;
use crate::shard::service::{
    ConnectionId, FileWrite, JournalPosition, Network, Service, Session, Verdict, WriteFailure,
};

/// What comes in between two turns.
pub(super) enum Incoming {
    Opened(u64, Session),
    Frame(u64, Vec<u8>),
    Closed(u64),
    Written(u64, Result<(), WriteFailure>),
}

/// What a turn leaves behind.
pub(super) enum Effect {
    Reply { connection: u64, frame: Vec<u8> },
    Close { connection: u64 },
    Write(FileWrite),
}

pub(super) struct Core {
    shard: Shard,
    random: Random,
    wires: Wires,
    pub(super) inbox: Vec<Incoming>,
    /// When its next turn is.
    pub(super) turn_at_us: Option<u64>,
}

/// The network of one core.
#[derive(Default)]
struct Wires {
    conversations: FxHashMap<u64, Conversation>,
    /// Who waits for which position of the journal.
    waits: VecDeque<(JournalPosition, u64)>,
    durable: JournalPosition,
    /// Connections that may have something to do.
    touched: Vec<u64>,
    /// Connections that the shard has not been told are gone.
    gone: Vec<u64>,
    effects: Vec<Effect>,
}

/// What the shard sees of it during its turn.
struct Desk<'a> {
    wires: &'a mut Wires,
    model: &'a mut Model,
    breaks: &'a mut Breaks,
    /// How often it is told yet that the turn has time.
    time: Cell<u64>,
}

/// A turn has time for so many things at most.
const TIME_MAX: u64 = 40;

/// After so many rounds of one turn something goes round in a circle.
const ROUNDS_MAX: usize = 10_000;

impl Core {
    pub(super) fn new(shard: Shard, random: Random) -> Core {
        Core { shard, random, wires: Wires::default(), inbox: Vec::new(), turn_at_us: None }
    }

    /// Whether it still reads what a former run has left.
    pub(super) fn is_loading(&self) -> bool {
        self.shard.is_loading()
    }

    /// When the next turn must be at the latest, on the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.shard.deadline_ms()
    }

    /// One turn of the core; an error is its end.
    pub(super) fn turn(&mut self, now: Now, model: &mut Model, breaks: &mut Breaks) -> std::io::Result<Vec<Effect>> {
        self.shard.begin(now);
        for incoming in std::mem::take(&mut self.inbox) {
            match incoming {
                Incoming::Opened(id, session) => {
                    self.wires.conversations.insert(id, Conversation::new(session));
                }
                Incoming::Frame(id, frame) => {
                    if let Some(conversation) = self.wires.conversations.get_mut(&id).filter(|found| !found.is_over) {
                        conversation.waiting.push_back(frame);
                        self.execute(id, model, breaks);
                    }
                }
                Incoming::Closed(id) => {
                    if self.wires.conversations.remove(&id).is_some() {
                        model.closed(id);
                        self.wires.gone.push(id);
                    }
                }
                Incoming::Written(token, result) => self.shard.written(token, result),
            }
        }
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "a turn does not end");
            self.tell_gone();
            let time = Cell::new(if self.shard.is_loading() { 0 } else { self.random.below(TIME_MAX) });
            let mut desk = Desk { wires: &mut self.wires, model, breaks, time };
            self.shard.turn(now, &mut desk)?;
            if !self.go_on(model, breaks) {
                break;
            }
        }
        self.wires.send(model);
        self.tell_gone();
        Ok(std::mem::take(&mut self.wires.effects))
    }

    fn tell_gone(&mut self) {
        self.wires.gone.drain(..).for_each(|id| self.shard.closed(ConnectionId(id)));
    }

    /// Executes what waited behind requests that were answered. False if there was nothing.
    fn go_on(&mut self, model: &mut Model, breaks: &mut Breaks) -> bool {
        let can_go_on = |id: &u64| self.wires.conversations.get(id).is_some_and(Conversation::can_go_on);
        let ready: Vec<u64> = self.wires.touched.iter().copied().filter(can_go_on).collect();
        ready.iter().for_each(|id| self.execute(*id, model, breaks));
        !ready.is_empty()
    }

    fn execute(&mut self, id: u64, model: &mut Model, breaks: &mut Breaks) {
        self.wires.touched.push(id);
        loop {
            let conversation = self.wires.conversations.get_mut(&id).expect("it is open");
            let Some((place, frame)) = conversation.take_frame() else { return };
            let bent = breaks.bend_request(&frame, model);
            let mut reply = Vec::new();
            let session = &mut conversation.session;
            let verdict = self.shard.request(ConnectionId(id), session, bent.as_deref().unwrap_or(&frame), &mut reply);
            match verdict {
                Verdict::Answered => {
                    model.executed(id, place, &frame, Outcome::Replied(&reply));
                    conversation.push(place, reply, JournalPosition::default());
                }
                Verdict::Durable(position) => {
                    let awaited = breaks.bend_position(position);
                    model.executed(id, place, &frame, Outcome::Replied(&reply));
                    conversation.push(place, reply, awaited);
                    if awaited == position {
                        self.wires.waits.push_back((position, id));
                    }
                }
                Verdict::Parked => {
                    if !reply.is_empty() {
                        model.fault("a parked request has a reply already".into());
                    }
                    conversation.parked = Some(place);
                    model.executed(id, place, &frame, Outcome::Parked);
                }
                Verdict::Close(reason) => {
                    model.executed(id, place, &frame, Outcome::Refused(&reason));
                    conversation.stop();
                }
            }
            breaks.disorder(conversation);
        }
    }
}

impl Wires {
    /// At the end of a turn: what may leave leaves, what is finished is closed.
    fn send(&mut self, model: &mut Model) {
        self.touched.sort_unstable();
        self.touched.dedup();
        for id in std::mem::take(&mut self.touched) {
            let Some(conversation) = self.conversations.get_mut(&id) else { continue };
            while let Some((place, frame)) = conversation.take_reply(self.durable) {
                model.left(id, place);
                self.effects.push(Effect::Reply { connection: id, frame });
            }
            if conversation.is_finished() {
                self.conversations.remove(&id);
                model.closed(id);
                self.gone.push(id);
                self.effects.push(Effect::Close { connection: id });
            }
        }
    }
}

impl Network for Desk<'_> {
    fn answer(&mut self, connection: ConnectionId, write: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        let Some(conversation) = self.wires.conversations.get_mut(&connection.0) else { return false };
        let Some(place) = conversation.parked else { return false };
        let mut reply = Vec::new();
        write(&mut reply);
        if self.breaks.forgets(&reply, connection.0, place, self.model) {
            return true;
        }
        conversation.parked = None;
        let reply = self.breaks.bend_answer(reply, connection.0, place, self.model);
        self.model.answered(connection.0, place, &reply);
        conversation.push(place, reply, JournalPosition::default());
        self.wires.touched.push(connection.0);
        true
    }

    fn durable(&mut self, position: JournalPosition) {
        self.wires.durable = self.wires.durable.max(position);
        while let Some((_, id)) = self.wires.waits.pop_front_if(|(wanted, _)| *wanted <= position) {
            self.wires.touched.push(id);
        }
    }

    fn failed(&mut self, after: JournalPosition, through: JournalPosition) {
        self.model.write_failed();
        while let Some((wanted, id)) = self.wires.waits.pop_front_if(|(wanted, _)| *wanted <= through) {
            if wanted <= after {
                self.model.fault(format!("{wanted:?} was not released, though {after:?} is durable"));
            }
            if self.wires.conversations.remove(&id).is_some() {
                self.model.closed(id);
                self.wires.gone.push(id);
                self.wires.effects.push(Effect::Close { connection: id });
            }
        }
    }

    fn has_time(&self) -> bool {
        self.time.replace(self.time.get().saturating_sub(1)) > 0
    }

    fn write(&mut self, write: FileWrite) {
        self.wires.effects.push(Effect::Write(write));
    }
}

//! The order of one connection's requests and replies, without I/O: bytes in, frames to the service, reply bytes out.
//!
//! Replies leave in the order of their requests, and effects happen in that order. A parked request stops the
//! conversation: what comes meanwhile is kept, not executed. A reply that waits for the journal stops nothing but the
//! replies behind it.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::pending::Pending;
use super::pool::Pool;
use super::waits::Waits;
use crate::limits;
use crate::shard::service::{ConnectionId, JournalPosition, OVERSIZED_REPLY, Service, Session, Verdict};
use crate::wire::Frames;

/// What a conversation needs of its core while frames are executed.
pub(super) struct Turn<'a, S> {
    pub(super) service: &'a mut S,
    pub(super) pool: &'a mut Pool,
    /// The journal is durable up to here.
    pub(super) durable: JournalPosition,
    /// Who waits for which position; added to.
    pub(super) waits: &'a mut Waits,
    pub(super) request_max_bytes: usize,
    /// Which turn of the core this is.
    pub(super) number: u32,
    /// Requests of one connection that are executed in it.
    pub(super) share: u32,
    /// Frames handed to the service; counted up.
    pub(super) requests: u64,
}

/// One connection's requests and replies.
#[derive(Debug)]
pub(super) struct Conversation {
    session: Session,
    pending: Pending,
    output: Vec<u8>,
    held: Option<Box<Held>>,
    /// Reply bytes that were taken for sending and are not out.
    sending_bytes: usize,
    /// The same with those that are out: the buffer is kept until all of them are.
    taken_bytes: usize,
    /// The last turn in which frames were executed, and how many.
    turn_number: u32,
    turn_requests: u32,
    is_parked: bool,
    is_choked: bool,
    has_ended: bool,
    failure: Option<Box<Cow<'static, str>>>,
    is_over: bool,
}

/// Replies that may not leave yet.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// From which byte on the journal must have got where, in ascending order; the first is at byte 0.
    pub(super) marks: VecDeque<(usize, JournalPosition)>,
}

impl Held {
    /// The empty buffer in it.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        debug_assert!(self.bytes.is_empty() && self.marks.is_empty());
        std::mem::take(&mut self.bytes)
    }

    /// What its marks take in memory, or took.
    pub(super) fn marks_bytes(&self) -> usize {
        self.marks.capacity() * size_of::<(usize, JournalPosition)>()
    }
}

impl Conversation {
    pub(super) fn new(session: Session) -> Conversation {
        Conversation {
            session,
            pending: Pending::default(),
            output: Vec::new(),
            held: None,
            sending_bytes: 0,
            taken_bytes: 0,
            turn_number: 0,
            turn_requests: 0,
            is_parked: false,
            is_choked: false,
            has_ended: false,
            failure: None,
            is_over: false,
        }
    }

    /// Takes bytes that arrived: executes the frames that are complete, in place where it can, and keeps the rest.
    pub(super) fn feed<S: Service>(&mut self, id: ConnectionId, mut data: &[u8], turn: &mut Turn<'_, S>) {
        if self.is_over {
            return;
        }
        self.begin_turn(turn);
        while !self.pending.is_empty() && self.may_execute(turn) {
            let missing = self.missing_bytes(turn.request_max_bytes);
            if missing > 0 && data.is_empty() {
                break;
            }
            let (now, later) = data.split_at(missing.min(data.len()));
            self.pending.append(now);
            data = later;
            self.execute_pending(id, turn);
        }
        let used = if self.pending.is_empty() { self.execute(id, data, turn) } else { 0 };
        if !self.is_over {
            self.pending.append(&data[used..]);
        }
        self.return_empty_output(turn.pool);
    }

    /// Executes the frames that were kept, if nothing stops them any more, up to this turn's share. True if any was executed.
    pub(super) fn resume<S: Service>(&mut self, id: ConnectionId, turn: &mut Turn<'_, S>) -> bool {
        let before = turn.requests;
        self.begin_turn(turn);
        self.execute_pending(id, turn);
        self.return_empty_output(turn.pool);
        turn.requests > before
    }

    /// Appends the reply of the parked request. False if there is none. A request that gets no reply is one whose reply would
    /// be too large; that ends the conversation.
    pub(super) fn answer(&mut self, pool: &mut Pool, write: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        if !self.is_parked {
            return false;
        }
        self.is_parked = false;
        let replies = replies(&mut self.held, &mut self.output, pool);
        let before = replies.len();
        write(replies);
        if replies.len() == before {
            self.fail(OVERSIZED_REPLY.into());
        }
        self.choke();
        self.return_empty_output(pool);
        true
    }

    /// The journal is durable up to `position`: moves what waited for no more than that to the output.
    pub(super) fn release(&mut self, position: JournalPosition, pool: &mut Pool) {
        let Some(held) = &mut self.held else { return };
        while held.marks.front().is_some_and(|(_, wanted)| *wanted <= position) {
            held.marks.pop_front();
        }
        let free = held.marks.front().map_or(held.bytes.len(), |(from, _)| *from);
        if self.output.is_empty() && free == held.bytes.len() {
            std::mem::swap(&mut self.output, &mut held.bytes);
        } else {
            if self.output.capacity() == 0 {
                self.output = pool.take();
            }
            self.output.extend(held.bytes.drain(..free));
        }
        for (from, _) in &mut held.marks {
            *from -= free;
        }
        if held.marks.is_empty()
            && let Some(held) = self.held.take()
        {
            pool.give_back_held(held);
        }
    }

    /// The reply bytes that may leave, to be sent; [`Conversation::sent`] says when they are out.
    pub(super) fn take_output(&mut self) -> Option<Vec<u8>> {
        if self.output.is_empty() || self.sending_bytes > 0 {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.output);
        if !Pool::keeps(&bytes) {
            // It may be under way for long, and would hold twice what is counted.
            bytes.shrink_to_fit();
        }
        (self.sending_bytes, self.taken_bytes) = (bytes.len(), bytes.len());
        Some(bytes)
    }

    /// How much there is to send at present: what a send has left, or else all that came up since.
    pub(super) fn ready_bytes(&self) -> usize {
        if self.sending_bytes > 0 { self.sending_bytes } else { self.output.len() }
    }

    /// So many bytes are out.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sending_bytes -= bytes;
        if self.sending_bytes == 0 {
            self.taken_bytes = 0;
        }
        if self.is_choked && self.unsent_bytes() <= limits::CONNECTION_OUTPUT_MAX_BYTES / 2 {
            self.is_choked = false;
        }
    }

    /// The peer will send no more.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether the peer will send no more.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Executes nothing from here on; replies that are there still leave. A parked request stays unanswered.
    pub(super) fn stop(&mut self) {
        self.is_over = true;
        self.is_parked = false;
        self.pending.clear();
    }

    /// Drops the replies that are not being sent.
    pub(super) fn forget_replies(&mut self) {
        self.output = Vec::new();
        self.held = None;
    }

    /// What the bytes take in memory that were received and are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.pending.held_bytes()
    }

    /// Reply bytes that are not out.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.output.len() + self.sending_bytes + self.held.as_ref().map_or(0, |held| held.bytes.len())
    }

    /// What its replies take in memory: one that is being sent is there as a whole until its last byte is out.
    pub(super) fn reply_bytes(&self) -> usize {
        self.unsent_bytes() - self.sending_bytes + self.taken_bytes
    }

    /// Why the peer is to be cut off, once.
    pub(super) fn take_failure(&mut self) -> Option<Cow<'static, str>> {
        self.failure.take().map(|reason| *reason)
    }

    /// Whether nothing more will be executed or sent: the connection may close.
    pub(super) fn is_finished(&self, request_max_bytes: usize) -> bool {
        let is_silent = self.output.is_empty() && self.held.is_none() && self.sending_bytes == 0 && !self.is_parked;
        is_silent && (self.is_over || self.has_ended && !self.has_whole_frame(request_max_bytes))
    }

    /// Whether bytes of the peer are welcome.
    pub(super) fn wants_bytes(&self, request_max_bytes: usize) -> bool {
        if self.has_ended || self.is_choked {
            return false;
        }
        // Behind a parked request there is a bound; the rest of a frame is welcome whatever its size.
        self.pending.len() < limits::CONNECTION_BACKLOG_MAX_BYTES
            || !self.is_parked && !self.has_whole_frame(request_max_bytes)
    }

    /// Whether frames were kept that could be executed now.
    pub(super) fn can_resume(&self, request_max_bytes: usize) -> bool {
        !self.pending.is_empty() && !self.is_stopped() && self.has_whole_frame(request_max_bytes)
    }

    /// Whether a request waits for its event.
    pub(super) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Whether reply bytes may leave.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Who is at the other end.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    fn is_stopped(&self) -> bool {
        self.is_parked || self.is_choked || self.is_over
    }

    fn begin_turn<S>(&mut self, turn: &Turn<'_, S>) {
        if self.turn_number != turn.number {
            (self.turn_number, self.turn_requests) = (turn.number, 0);
        }
    }

    /// A connection that sends without end has its share of a turn, and then the others have theirs.
    fn may_execute<S>(&self, turn: &Turn<'_, S>) -> bool {
        !self.is_stopped() && self.turn_requests < turn.share
    }

    fn has_whole_frame(&self, request_max_bytes: usize) -> bool {
        self.missing_bytes(request_max_bytes) == 0
    }

    /// Until the next step can be taken with what is kept; a size that no frame has takes none.
    fn missing_bytes(&self, request_max_bytes: usize) -> usize {
        Frames::new(self.pending.as_slice(), request_max_bytes).missing().unwrap_or(0)
    }

    fn execute_pending<S: Service>(&mut self, id: ConnectionId, turn: &mut Turn<'_, S>) {
        let mut pending = std::mem::take(&mut self.pending);
        let used = self.execute(id, pending.as_slice(), turn);
        if !self.is_over {
            pending.consume(used);
            self.pending = pending;
        }
    }

    /// Executes the complete frames of `data` until something stops it or the turn's share is used; how many bytes it took.
    fn execute<S: Service>(&mut self, id: ConnectionId, data: &[u8], turn: &mut Turn<'_, S>) -> usize {
        let mut frames = Frames::new(data, turn.request_max_bytes);
        while self.may_execute(turn) {
            match frames.next_frame() {
                Ok(Some(frame)) => self.request(id, frame, turn),
                Ok(None) => break,
                Err(bad_size) => self.fail(bad_size.to_string().into()),
            }
        }
        frames.consumed()
    }

    fn request<S: Service>(&mut self, id: ConnectionId, frame: &[u8], turn: &mut Turn<'_, S>) {
        turn.requests += 1;
        self.turn_requests += 1;
        let replies = replies(&mut self.held, &mut self.output, turn.pool);
        let before = replies.len();
        match turn.service.request(id, &mut self.session, frame, replies) {
            Verdict::Answered => {}
            Verdict::Parked => {
                debug_assert_eq!(replies.len(), before, "a parked request is answered later");
                self.is_parked = true;
            }
            Verdict::Durable(position) => self.hold(before, position, id, turn),
            Verdict::Close(reason) => self.fail(reason),
        }
        self.choke();
    }

    /// The reply that begins at `from` waits for the journal.
    fn hold<S>(&mut self, from: usize, position: JournalPosition, id: ConnectionId, turn: &mut Turn<'_, S>) {
        if position <= turn.durable {
            return;
        }
        match &mut self.held {
            Some(held) => held.marks.push_back((from, position)),
            None => {
                let mut held = turn.pool.take_held();
                if from == 0 {
                    std::mem::swap(&mut self.output, &mut held.bytes);
                } else {
                    held.bytes.extend(self.output.drain(from..));
                }
                held.marks.push_back((0, position));
                self.held = Some(held);
            }
        }
        turn.waits.push(position, id);
    }

    fn fail(&mut self, reason: Cow<'static, str>) {
        self.failure = Some(Box::new(reason));
        self.stop();
    }

    fn choke(&mut self) {
        self.is_choked |= self.unsent_bytes() > limits::CONNECTION_OUTPUT_MAX_BYTES;
    }

    fn return_empty_output(&mut self, pool: &mut Pool) {
        if self.output.is_empty() && self.output.capacity() > 0 {
            pool.give_back(std::mem::take(&mut self.output));
        }
    }
}

/// Where the next reply goes: behind those that wait, if any do.
fn replies<'a>(held: &'a mut Option<Box<Held>>, output: &'a mut Vec<u8>, pool: &mut Pool) -> &'a mut Vec<u8> {
    match held {
        Some(held) => &mut held.bytes,
        None => {
            if output.capacity() == 0 {
                *output = pool.take();
            }
            output
        }
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;

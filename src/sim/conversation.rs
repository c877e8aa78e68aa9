//! One connection as a core sees it: whole frames in, whole replies out, in the order that `net` keeps. A parked request
//! stops what comes behind it; a reply that waits for the journal stops the replies behind it and nothing else.

use std::collections::VecDeque;

use crate::shard::service::{JournalPosition, Session};

/// Which request of its connection.
pub(super) type Place = u64;

#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) session: Session,
    /// Frames that were not executed yet.
    pub(super) waiting: VecDeque<Vec<u8>>,
    /// The request that is parked.
    pub(super) parked: Option<Place>,
    /// Replies that have not left, in order.
    replies: VecDeque<Reply>,
    next: Place,
    /// Nothing more is executed.
    pub(super) is_over: bool,
}

#[derive(Debug)]
struct Reply {
    place: Place,
    bytes: Vec<u8>,
    wanted: JournalPosition,
}

impl Conversation {
    pub(super) fn new(session: Session) -> Conversation {
        Conversation {
            session,
            waiting: VecDeque::new(),
            parked: None,
            replies: VecDeque::new(),
            next: 0,
            is_over: false,
        }
    }

    /// The next frame to execute, if nothing stops it.
    pub(super) fn take_frame(&mut self) -> Option<(Place, Vec<u8>)> {
        if self.is_over || self.parked.is_some() {
            return None;
        }
        let frame = self.waiting.pop_front()?;
        let place = self.next;
        self.next += 1;
        Some((place, frame))
    }

    pub(super) fn can_go_on(&self) -> bool {
        !self.is_over && self.parked.is_none() && !self.waiting.is_empty()
    }

    /// A reply that may leave once the journal is durable up to `wanted`.
    pub(super) fn push(&mut self, place: Place, bytes: Vec<u8>, wanted: JournalPosition) {
        self.replies.push_back(Reply { place, bytes, wanted });
    }

    /// The next reply that may leave.
    pub(super) fn take_reply(&mut self, durable: JournalPosition) -> Option<(Place, Vec<u8>)> {
        let reply = self.replies.pop_front_if(|reply| reply.wanted <= durable)?;
        Some((reply.place, reply.bytes))
    }

    /// Breaks the order of the last two replies.
    pub(super) fn swap_last(&mut self) {
        if let [.., last_but_one, last] = self.replies.make_contiguous() {
            std::mem::swap(last_but_one, last);
        }
    }

    /// Answers the last request again.
    pub(super) fn double_last(&mut self) {
        if let Some(Reply { place, bytes, wanted }) = self.replies.back() {
            let (place, bytes, wanted) = (*place, bytes.clone(), *wanted);
            self.push(place, bytes, wanted);
        }
    }

    /// Whether it may be closed: nothing more will be executed, and every reply has left.
    pub(super) fn is_finished(&self) -> bool {
        self.is_over && self.replies.is_empty()
    }

    /// Executes nothing more.
    pub(super) fn stop(&mut self) {
        self.is_over = true;
        self.parked = None;
        self.waiting.clear();
    }
}

//! Conversations against a model: any frames in any pieces, with answers, syncs and sends in between.

use std::net::{Ipv4Addr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::clock::Now;
use crate::limits::{CONNECTION_BACKLOG_MAX_BYTES, CONNECTION_OUTPUT_MAX_BYTES, CONNECTION_REQUESTS_PER_TURN};
use crate::shard::service::{ListenerIndex, Network, WriteFailure};

const ID: ConnectionId = ConnectionId(7);
const FRAME_MAX_BYTES: usize = 1 << 20;

/// Does what the first byte of a frame says and checks that it may.
#[derive(Default)]
struct Model {
    executed: Vec<Vec<u8>>,
    is_parked: bool,
    /// Replies in request order: their bytes, and the position that they wait for.
    replies: Vec<(Vec<u8>, u64)>,
}

impl Service for Model {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, id: ConnectionId, _: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        assert_eq!(id, ID);
        assert!(!self.is_parked, "a frame was executed behind a parked one");
        self.executed.push(frame.to_vec());
        match frame[0] {
            b'p' => {
                self.is_parked = true;
                return Verdict::Parked;
            }
            b'n' => return Verdict::Answered,
            _ => replies.extend_from_slice(frame),
        }
        let position = if frame[0] == b'd' { u64::from(frame[1]) } else { 0 };
        self.replies.push((frame.to_vec(), position));
        if position > 0 { Verdict::Durable(JournalPosition(position)) } else { Verdict::Answered }
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, _: Now, _: &mut dyn Network) -> std::io::Result<()> {
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

struct World {
    conversation: Conversation,
    model: Model,
    pool: Pool,
    waits: Waits,
    durable: u64,
    turn_number: u32,
    sending: Vec<u8>,
    out: Vec<u8>,
}

impl World {
    fn new() -> World {
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        World {
            conversation: Conversation::new(Session { listener: ListenerIndex(0), peer }),
            model: Model::default(),
            pool: Pool::default(),
            waits: Waits::default(),
            durable: 0,
            turn_number: 1,
            sending: Vec::new(),
            out: Vec::new(),
        }
    }

    fn turn<R>(&mut self, act: impl FnOnce(&mut Conversation, &mut Turn<'_, Model>) -> R) -> R {
        let mut turn = Turn {
            service: &mut self.model,
            pool: &mut self.pool,
            durable: JournalPosition(self.durable),
            waits: &mut self.waits,
            request_max_bytes: FRAME_MAX_BYTES,
            number: self.turn_number,
            share: CONNECTION_REQUESTS_PER_TURN,
            requests: 0,
        };
        act(&mut self.conversation, &mut turn)
    }

    fn feed(&mut self, data: &[u8]) {
        self.turn(|conversation, turn| conversation.feed(ID, data, turn));
        self.resume();
    }

    fn resume(&mut self) {
        while self.conversation.can_resume(FRAME_MAX_BYTES) {
            self.turn_number += 1;
            self.turn(|conversation, turn| conversation.resume(ID, turn));
        }
    }

    fn answer(&mut self) {
        if std::mem::take(&mut self.model.is_parked) {
            self.model.replies.push((b"answer".to_vec(), 0));
            assert!(self.conversation.answer(&mut self.pool, &mut |replies| replies.extend_from_slice(b"answer")));
            self.resume();
        } else {
            assert!(!self.conversation.answer(&mut self.pool, &mut |_| unreachable!("nothing is parked")));
        }
    }

    fn sync(&mut self, position: u64) {
        self.durable = self.durable.max(position);
        self.conversation.release(JournalPosition(self.durable), &mut self.pool);
    }

    /// Sends up to `bytes` of what may leave.
    fn send(&mut self, bytes: usize) {
        if self.sending.is_empty() {
            self.sending = self.conversation.take_output().unwrap_or_default();
        }
        let rest = self.sending.split_off(bytes.min(self.sending.len()));
        self.conversation.sent(self.sending.len());
        self.out.append(&mut self.sending);
        self.sending = rest;
        self.resume();
    }

    /// Exactly those replies have left or may leave that no reply before or at them must wait for.
    fn check(&self) {
        let free = self.model.replies.iter().take_while(|(_, position)| *position <= self.durable);
        let expected: Vec<u8> = free.flat_map(|(bytes, _)| bytes.clone()).collect();
        let actual = [self.out.as_slice(), &self.sending, &self.conversation.output].concat();
        assert_eq!(actual, expected);
    }
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let kind = prop_oneof![4 => Just(b'a'), 1 => Just(b'p'), 2 => Just(b'd'), 1 => Just(b'n')];
    let frame = (kind, 1..20u8, prop::collection::vec(any::<u8>(), 0..60))
        .prop_map(|(kind, position, rest)| [vec![kind, position], rest].concat());
    prop::collection::vec(frame, 1..40)
}

fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().flat_map(|frame| [&(frame.len() as i32).to_be_bytes()[..], frame].concat()).collect()
}

proptest! {
    #[test]
    fn effects_and_replies_keep_their_order(frames in frames(), acts in prop::collection::vec((0..4u8, 1..200usize), 0..200)) {
        let bytes = stream(&frames);
        let (mut world, mut fed) = (World::new(), 0);
        for (act, size) in acts {
            match act {
                0 => {
                    let end = bytes.len().min(fed + size);
                    world.feed(&bytes[fed..end]);
                    fed = end;
                }
                1 => world.answer(),
                2 => world.sync(size as u64 % 24),
                _ => world.send(size),
            }
            world.check();
        }
        world.feed(&bytes[fed..]);
        while world.model.is_parked {
            world.answer();
        }
        world.sync(100);
        world.check();
        while world.conversation.has_output() || !world.sending.is_empty() {
            world.send(1 << 20);
        }
        prop_assert_eq!(&world.model.executed, &frames);
        prop_assert!(world.conversation.pending.is_empty() && world.conversation.held.is_none());
        prop_assert_eq!(world.conversation.output.capacity(), 0, "an idle conversation holds no buffer");
        world.conversation.end();
        prop_assert!(world.conversation.is_finished(FRAME_MAX_BYTES));
    }
}

#[test]
fn reply_bytes_are_bounded_to_the_byte() {
    for (reply, is_read) in [(CONNECTION_OUTPUT_MAX_BYTES, true), (CONNECTION_OUTPUT_MAX_BYTES + 1, false)] {
        let mut world = World::new();
        let reply = vec![b'a'; reply];
        // Larger than one request may be here, so it comes as an answer.
        world.feed(&stream(&[b"p".to_vec(), b"a1".to_vec()]));
        assert!(world.conversation.answer(&mut world.pool, &mut |replies| replies.extend_from_slice(&reply)));
        world.model.is_parked = false;
        assert_eq!(world.conversation.wants_bytes(FRAME_MAX_BYTES), is_read);
        world.resume();
        assert_eq!(world.model.executed.len() == 2, is_read, "what is not read is not executed either");
        world.send(usize::MAX);
        assert_eq!(world.model.executed.len(), 2);
        assert!(world.conversation.wants_bytes(FRAME_MAX_BYTES));
    }
}

#[test]
fn a_reply_weighs_what_it_takes_until_the_last_byte_of_it_is_out() {
    let mut world = World::new();
    world.feed(&stream(&[b"p".to_vec()]));
    let length = 3 * CONNECTION_OUTPUT_MAX_BYTES;
    world.conversation.answer(&mut world.pool, &mut |replies| replies.resize(length, b'a'));
    world.send(length - 1);
    assert!(world.sending.capacity() <= length, "the buffer has no room for more");
    assert_eq!(world.conversation.reply_bytes(), length, "it is all there");
    assert!(world.conversation.wants_bytes(FRAME_MAX_BYTES), "but a byte of it is no reason not to read");
    world.send(1);
    assert_eq!(world.conversation.reply_bytes(), 0);
}

#[test]
fn bytes_behind_a_parked_request_are_bounded_to_the_byte() {
    let mut world = World::new();
    world.feed(&stream(&[b"p".to_vec()]));
    world.feed(&vec![1; CONNECTION_BACKLOG_MAX_BYTES - 1]);
    assert!(world.conversation.wants_bytes(FRAME_MAX_BYTES));
    world.feed(&[1]);
    assert!(!world.conversation.wants_bytes(FRAME_MAX_BYTES));
}

#[test]
fn the_rest_of_a_large_frame_is_always_welcome() {
    let mut world = World::new();
    world.feed(&(FRAME_MAX_BYTES as i32).to_be_bytes());
    world.feed(&vec![b'a'; FRAME_MAX_BYTES - 1]);
    assert!(world.conversation.wants_bytes(FRAME_MAX_BYTES));
    assert!(world.model.executed.is_empty());
    world.feed(b"a");
    assert_eq!(world.model.executed.len(), 1);
    assert!(world.conversation.pending.is_empty());
}

#[test]
fn a_turn_executes_so_many_requests_and_the_rest_waits_for_the_next() {
    let share = CONNECTION_REQUESTS_PER_TURN as usize;
    let mut world = World::new();
    world.turn(|conversation, turn| conversation.feed(ID, &small(share), turn));
    assert_eq!((world.model.executed.len(), world.conversation.kept_bytes()), (share, 0));
    world.turn_number += 1;
    world.turn(|conversation, turn| conversation.feed(ID, &small(2 * share + 1), turn));
    assert_eq!(world.model.executed.len(), 2 * share);
    world.turn(|conversation, turn| {
        assert!(!conversation.resume(ID, turn), "its share of this turn is used");
        conversation.feed(ID, &small(1), turn);
    });
    assert_eq!(world.model.executed.len(), 2 * share);
    assert!(world.conversation.can_resume(FRAME_MAX_BYTES));
    world.resume();
    assert_eq!((world.model.executed.len(), world.conversation.kept_bytes()), (3 * share + 2, 0));
    assert_eq!(world.turn_number, 2 + 2, "in two more turns");
}

#[test]
fn an_answer_of_nothing_ends_the_conversation() {
    let mut world = World::new();
    world.feed(&stream(&[b"a before".to_vec(), b"p".to_vec()]));
    let mut pool = Pool::default();
    assert!(world.conversation.answer(&mut pool, &mut |_| {}));
    assert!(world.conversation.take_failure().is_some_and(|reason| reason.starts_with("oversized reply")));
    assert!(world.conversation.has_output() && !world.conversation.is_finished(FRAME_MAX_BYTES));
}

fn small(count: usize) -> Vec<u8> {
    stream(&vec![b"a1".to_vec(); count])
}

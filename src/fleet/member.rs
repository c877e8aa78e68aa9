//! One consumer's side of the classic group protocol, as Kafka's Java client behaves: it finds its coordinator, joins,
//! assigns if it leads, fetches offsets, heartbeats, commits what it pretends to consume, and starts over after errors. No
//! I/O and no clock in here. Four verbs:
//!
//! - *inputs*: [`Member::received`], [`Member::disconnected`], [`Member::reconfigure`], [`Member::stop`];
//! - [`Member::advance`] for what time brings;
//! - [`Member::next_deadline_ms`];
//! - [`Member::poll_output`], to be called after each of the others until it gives nothing.
//!
//! Two connections at most: one to any node, one to the coordinator. The owner opens them when there is something to send.
//! What requests look like is in [`requests`], what replies do in [`replies`], who gets what in [`assignor`].

mod assignor;
mod replies;
mod requests;
mod settings;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::wire::{Malformed, Uuid};

pub use settings::{MemberSettings, Versions};

/// A connection of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// To any node.
    Bootstrap,
    /// To the node of [`Member::coordinator`].
    Coordinator,
}

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its id.
    pub node_id: i32,
    /// Name or address.
    pub host: Box<str>,
    /// TCP port.
    pub port: i32,
}

/// What a member wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send the frame, on a new connection if there is none.
    Send(Channel),
    /// Close the connection, if there is one; it is not reported by [`Member::disconnected`].
    Close(Channel),
    /// Nothing to do; something happened.
    Event(Event),
}

/// What happened to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has a place in a generation.
    Assigned {
        /// Which generation.
        generation_id: i32,
        /// How many partitions it got.
        partitions: usize,
    },
    /// A commit was acknowledged.
    Committed,
    /// It gave up; a client would raise this to the application.
    Failed(ErrorCode),
    /// It has left, or has ended without.
    Left,
}

/// A reply that no client could make sense of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unexpected {
    /// Nothing was asked.
    #[error("a reply without a request")]
    NotAsked,
    /// Of another request.
    #[error("correlation id {found}, {wanted} is due")]
    CorrelationId {
        /// In the reply.
        found: i32,
        /// Of the oldest request that waits.
        wanted: i32,
    },
    /// The bytes do not parse, or are too many.
    #[error("{0}")]
    Malformed(#[from] Malformed),
}

/// A member of a group.
#[derive(Clone, Debug)]
pub struct Member {
    settings: Arc<MemberSettings>,
    group_instance_id: Option<Box<str>>,
    member_id: Box<str>,
    /// -1: in none.
    generation_id: i32,
    protocol_type: Option<Box<str>>,
    protocol_name: Option<Box<str>>,
    coordinator: Option<Endpoint>,
    /// In the order of the settings; empty until Metadata has told them all.
    topics: Vec<Topic>,
    positions: Vec<Position>,
    /// What the leader hands in: member ids and assignments.
    assignments: Vec<(Box<str>, Vec<u8>)>,
    phase: Phase,
    /// What follows once metadata and coordinator are known.
    resume: Phase,
    /// When the request of the phase is sent, if it does not wait for its reply.
    send_at_ms: u64,
    heartbeat_at_ms: u64,
    commit_at_ms: u64,
    in_flight: [VecDeque<InFlight>; 2],
    outgoing: VecDeque<Outgoing>,
    next_correlation_id: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Topic {
    id: Uuid,
    partitions: i32,
}

/// How far a partition is consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// Place in the settings' topics.
    topic: u16,
    partition: i32,
    /// Of the next record; -1: not known yet.
    offset: i64,
}

/// What a member is about to do; all but the last three have a request that belongs to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Metadata,
    FindCoordinator,
    Join,
    Sync,
    FetchOffsets,
    Stable,
    Leaving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Metadata,
    FindCoordinator,
    Join,
    Sync,
    FetchOffsets,
    Heartbeat,
    Commit,
    Leave,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    correlation_id: i32,
    kind: Kind,
    version: i16,
    /// When it was sent.
    generation_id: i32,
    deadline_ms: u64,
    /// The member has been reconfigured since.
    is_outdated: bool,
}

#[derive(Clone, Debug)]
enum Outgoing {
    Request { kind: Kind, version: i16, correlation_id: i32 },
    Close(Channel),
    Event(Event),
}

impl Kind {
    fn channel(self) -> Channel {
        match self {
            Kind::Metadata | Kind::FindCoordinator => Channel::Bootstrap,
            _ => Channel::Coordinator,
        }
    }
}

impl Phase {
    fn request(self) -> Option<Kind> {
        match self {
            Phase::Metadata => Some(Kind::Metadata),
            Phase::FindCoordinator => Some(Kind::FindCoordinator),
            Phase::Join => Some(Kind::Join),
            Phase::Sync => Some(Kind::Sync),
            Phase::FetchOffsets => Some(Kind::FetchOffsets),
            Phase::Stable | Phase::Leaving | Phase::Ended => None,
        }
    }

    /// Whether the member has been told a generation, so that it heartbeats.
    fn is_in_generation(self) -> bool {
        matches!(self, Phase::Sync | Phase::FetchOffsets | Phase::Stable)
    }
}

/// What a JoinGroup may last longer than the rebalance time-out, as in Kafka's client.
const JOIN_GRACE_MS: u64 = 5_000;

impl Member {
    /// A member that has done nothing yet; [`Member::advance`] makes it begin. `group_instance_id` makes it static.
    pub fn new(settings: Arc<MemberSettings>, group_instance_id: Option<&str>, now: Now) -> Member {
        Member {
            settings,
            group_instance_id: group_instance_id.map(Into::into),
            member_id: "".into(),
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            coordinator: None,
            topics: Vec::new(),
            positions: Vec::new(),
            assignments: Vec::new(),
            phase: Phase::Metadata,
            resume: Phase::Join,
            send_at_ms: now.monotonic_ms,
            heartbeat_at_ms: 0,
            commit_at_ms: 0,
            in_flight: Default::default(),
            outgoing: VecDeque::new(),
            next_correlation_id: 0,
        }
    }

    /// The node that coordinates the group, if it is known.
    pub fn coordinator(&self) -> Option<&Endpoint> {
        self.coordinator.as_ref()
    }

    /// The id that the coordinator has given; empty if none.
    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    /// The generation that the member is in, or -1.
    pub fn generation_id(&self) -> i32 {
        self.generation_id
    }

    /// Whether it has an assignment and no reason to rejoin.
    pub fn is_stable(&self) -> bool {
        self.phase == Phase::Stable
    }

    /// Whether it is through, by its own wish or not.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// A reply frame, without its size, has come in.
    ///
    /// # Errors
    /// A reply that makes no sense; the connection should be closed.
    pub fn received(&mut self, channel: Channel, frame: &[u8], now: Now) -> Result<(), Unexpected> {
        let asked = self.in_flight[channel as usize].pop_front().ok_or(Unexpected::NotAsked)?;
        self.reply(asked, frame, now)
    }

    /// A connection is gone that the member did not ask to close.
    pub fn disconnected(&mut self, channel: Channel, now: Now) {
        self.lose(channel, now);
    }

    /// Changes what the member subscribes to and proposes; it rejoins for it, once a join under way is answered.
    pub fn reconfigure(&mut self, settings: Arc<MemberSettings>, now: Now) {
        let has_other_topics = settings.topics != self.settings.topics;
        self.settings = settings;
        if has_other_topics {
            (self.topics, self.positions) = (Vec::new(), Vec::new());
        }
        self.in_flight.iter_mut().flatten().for_each(|asked| asked.is_outdated = true);
        match self.phase {
            Phase::Leaving | Phase::Ended | Phase::Metadata => {}
            _ if has_other_topics => {
                self.resume = Phase::Join;
                self.go(Phase::Metadata, 0, now);
            }
            phase if phase.is_in_generation() => self.rejoin(0, now),
            _ => self.resume = Phase::Join,
        }
    }

    /// Ends the member; if `leaves`, the coordinator is told.
    pub fn stop(&mut self, leaves: bool, now: Now) {
        if self.has_ended() {
            return;
        }
        if leaves && self.coordinator.is_some() && !self.member_id.is_empty() {
            self.phase = Phase::Leaving;
            self.send(Kind::Leave, now);
        } else {
            self.end(Event::Left);
        }
    }

    /// Does what has come due.
    pub fn advance(&mut self, now: Now) {
        for channel in [Channel::Bootstrap, Channel::Coordinator] {
            let late = |asked: &InFlight| asked.deadline_ms <= now.monotonic_ms;
            if self.in_flight[channel as usize].front().is_some_and(late) {
                self.outgoing.push_back(Outgoing::Close(channel));
                self.lose(channel, now);
            }
        }
        if let Some(kind) = self.phase.request()
            && self.send_at_ms <= now.monotonic_ms
            && !self.is_in_flight(kind)
        {
            self.send(kind, now);
        }
        if self.may_heartbeat() && self.heartbeat_at_ms <= now.monotonic_ms {
            self.heartbeat_at_ms = now.monotonic_ms + self.settings.heartbeat_interval_ms;
            self.send(Kind::Heartbeat, now);
        }
        if self.may_commit() && self.commit_at_ms <= now.monotonic_ms {
            self.commit(now);
        }
    }

    /// When [`Member::advance`] must be called at the latest, on the monotonic clock.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let request = self.phase.request().filter(|kind| !self.is_in_flight(*kind)).map(|_| self.send_at_ms);
        let heartbeat = self.may_heartbeat().then_some(self.heartbeat_at_ms);
        let commit = self.may_commit().then_some(self.commit_at_ms);
        let replies = self.in_flight.iter().filter_map(|asked| asked.front()).map(|asked| asked.deadline_ms);
        replies.chain([request, heartbeat, commit].into_iter().flatten()).min()
    }

    /// The next thing to do. The frame of a [`Output::Send`] is appended to `frame`, its size in front.
    pub fn poll_output(&mut self, frame: &mut Vec<u8>) -> Option<Output> {
        Some(match self.outgoing.pop_front()? {
            Outgoing::Request { kind, version, correlation_id } => {
                self.write(kind, version, correlation_id, frame);
                Output::Send(kind.channel())
            }
            Outgoing::Close(channel) => Output::Close(channel),
            Outgoing::Event(event) => Output::Event(event),
        })
    }

    fn is_in_flight(&self, kind: Kind) -> bool {
        self.in_flight[kind.channel() as usize].iter().any(|asked| asked.kind == kind)
    }

    fn may_heartbeat(&self) -> bool {
        self.phase.is_in_generation() && self.coordinator.is_some() && !self.is_in_flight(Kind::Heartbeat)
    }

    fn may_commit(&self) -> bool {
        self.phase == Phase::Stable
            && self.settings.commit_interval_ms.is_some()
            && !self.positions.is_empty()
            && self.coordinator.is_some()
            && !self.is_in_flight(Kind::Commit)
    }

    fn commit(&mut self, now: Now) {
        let Some(interval_ms) = self.settings.commit_interval_ms else { return };
        self.commit_at_ms = now.monotonic_ms + interval_ms;
        for position in &mut self.positions {
            position.offset += self.settings.records_per_commit;
        }
        self.send(Kind::Commit, now);
    }

    fn send(&mut self, kind: Kind, now: Now) {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        let timeout_ms = match kind {
            Kind::Join => u64::try_from(self.settings.rebalance_timeout_ms).unwrap_or(0) + JOIN_GRACE_MS,
            _ => self.settings.request_timeout_ms,
        };
        let deadline_ms = now.monotonic_ms + timeout_ms;
        let version = self.version_of(kind);
        let generation_id = self.generation_id;
        let asked = InFlight { correlation_id, kind, version, generation_id, deadline_ms, is_outdated: false };
        self.in_flight[kind.channel() as usize].push_back(asked);
        self.outgoing.push_back(Outgoing::Request { kind, version, correlation_id });
    }

    fn go(&mut self, phase: Phase, after_ms: u64, now: Now) {
        self.phase = phase;
        self.send_at_ms = now.monotonic_ms + after_ms;
    }

    fn backoff_ms(&self) -> u64 {
        self.settings.retry_backoff_ms
    }

    /// Tries the request of this phase again, later.
    fn retry(&mut self, now: Now) {
        self.send_at_ms = now.monotonic_ms + self.backoff_ms();
    }

    /// Joins again; what is consumed and not committed yet is committed on the way.
    fn rejoin(&mut self, after_ms: u64, now: Now) {
        if self.may_commit() {
            self.commit(now);
        }
        self.go(Phase::Join, after_ms, now);
    }

    /// Joins again as nobody, or as itself without a generation.
    fn start_over(&mut self, forgets_id: bool, now: Now) {
        self.generation_id = -1;
        if forgets_id {
            self.member_id = "".into();
        }
        self.go(Phase::Join, self.backoff_ms(), now);
    }

    /// The node is not the coordinator, or cannot be one now.
    fn lose_coordinator(&mut self, now: Now) {
        if self.coordinator.is_some() {
            self.outgoing.push_back(Outgoing::Close(Channel::Coordinator));
            self.lose(Channel::Coordinator, now);
        }
    }

    /// A connection is gone, and with it what was under way on it.
    fn lose(&mut self, channel: Channel, now: Now) {
        self.in_flight[channel as usize].clear();
        self.outgoing
            .retain(|outgoing| !matches!(outgoing, Outgoing::Request { kind, .. } if kind.channel() == channel));
        match (channel, self.phase) {
            (_, Phase::Ended) => {}
            (Channel::Bootstrap, Phase::Metadata | Phase::FindCoordinator) => self.retry(now),
            (Channel::Bootstrap, _) => {}
            (Channel::Coordinator, Phase::Leaving) => self.end(Event::Left),
            (Channel::Coordinator, phase) => {
                self.coordinator = None;
                match phase {
                    Phase::Metadata | Phase::FindCoordinator => return,
                    // Whether the coordinator has taken the request is not known: it is asked again from the beginning.
                    Phase::Join | Phase::Sync => self.resume = Phase::Join,
                    other => self.resume = other,
                }
                self.go(Phase::FindCoordinator, self.backoff_ms(), now);
            }
        }
    }

    fn end(&mut self, event: Event) {
        self.phase = Phase::Ended;
        self.in_flight = Default::default();
        self.outgoing.retain(|outgoing| !matches!(outgoing, Outgoing::Request { .. }));
        self.outgoing.extend([Outgoing::Close(Channel::Bootstrap), Outgoing::Close(Channel::Coordinator)]);
        self.outgoing.push_back(Outgoing::Event(event));
    }
}

#[cfg(test)]
mod reconfigure_tests;

//! What one core's network consists of, and what the service may ask of it.

use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use super::clock;
use super::connection::key_of;
use super::holdings::Holdings;
use super::listener::ListeningSocket;
use super::pool::Pool;
use super::quota::Quota;
use super::table::Table;
use super::trim::Tide;
use super::waits::Waits;
use super::wheel::Wheel;
use crate::clock::Now;
use crate::limits;
use crate::metrics::CoreMetrics;
use crate::ring::{Completion, Key, Ring};
use crate::shard::service::{ConnectionId, FileWrite, JournalPosition, ListenerIndex, Network};

/// What peers may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// `socket.request.max.bytes`: the largest request frame.
    pub request_max_bytes: usize,
    /// `queued.max.request.bytes`: received and not executed, over all connections; a core has its share of it.
    pub queued_requests_max_bytes: usize,
    /// Replies that are not out, over all connections of one core.
    pub unread_replies_max_bytes: usize,
    /// `max.connections`, over all cores.
    pub max_connections: usize,
    /// `max.connections.per.ip`, over all cores.
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`; `None`: never.
    pub connections_max_idle_ms: Option<u64>,
    /// A reply that makes no progress for this long ends its connection.
    pub send_stall_max_ms: u64,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        NetworkLimits {
            request_max_bytes: limits::REQUEST_MAX_BYTES,
            queued_requests_max_bytes: limits::QUEUED_REQUESTS_MAX_BYTES,
            unread_replies_max_bytes: limits::UNREAD_REPLIES_MAX_BYTES,
            max_connections: usize::MAX,
            max_connections_per_ip: usize::MAX,
            connections_max_idle_ms: Some(600_000),
            send_stall_max_ms: limits::SEND_STALL_MAX_MS,
        }
    }
}

/// Who may be idle for so long, a year, may be idle for ever.
const NEVER_MS: u64 = 365 * 24 * 60 * 60 * 1_000;

/// A listening socket of the core.
pub(super) struct Listening {
    pub(super) socket: ListeningSocket,
    pub(super) index: ListenerIndex,
    /// A multishot accept is armed.
    pub(super) is_armed: bool,
}

/// One core's ring, connections, and what is to be done for them in this turn.
pub(super) struct Core {
    pub(super) ring: Ring,
    pub(super) table: Table,
    pub(super) listeners: Vec<Listening>,
    pub(super) limits: NetworkLimits,
    /// Descriptors from here on are the reserve.
    pub(super) descriptor_ceiling: RawFd,
    pub(super) quota: Arc<Quota>,
    pub(super) counters: Arc<CoreMetrics>,
    /// Requests of this core's connections that are parked.
    pub(super) parked: u64,
    /// When this turn began, on the monotonic clock in microseconds.
    turn_began_us: u64,
    pub(super) now: Now,
    pub(super) pool: Pool,
    /// What all connections hold.
    pub(super) holdings: Holdings,
    tide: Tide,
    /// Which turn this is.
    pub(super) turn_number: u32,
    /// Requests that each connection may have executed in it.
    pub(super) turn_share: u32,
    /// Connections that were accepted and are not taken up yet, by listener.
    pub(super) arrivals: VecDeque<(usize, OwnedFd)>,
    /// Connections that have something to send.
    pub(super) dirty: Vec<Key>,
    /// Connections whose kept frames may go on.
    pub(super) resuming: VecDeque<Key>,
    /// Connections whose receive ended for want of a buffer, in the order in which they are armed again.
    pub(super) starved: VecDeque<Key>,
    /// Connections that the service has not been told are gone.
    pub(super) gone: Vec<ConnectionId>,
    /// Who waits for which position of the journal.
    pub(super) waits: Waits,
    pub(super) durable: JournalPosition,
    pub(super) idle: Option<Wheel>,
    pub(super) stalls: Wheel,
    /// When accepting is tried again.
    pub(super) accept_again_ms: Option<u64>,
    /// When stopping must be over.
    pub(super) stop_by_ms: Option<u64>,
    pub(super) log: LogBudget,
}

impl Core {
    pub(super) fn new(
        ring: Ring,
        listeners: Vec<(ListenerIndex, ListeningSocket)>,
        limits: NetworkLimits,
        quota: Arc<Quota>,
        counters: Arc<CoreMetrics>,
        tide: Tide,
    ) -> Core {
        let listening = |(index, socket)| Listening { socket, index, is_armed: false };
        let connections_max_idle_ms = limits.connections_max_idle_ms.filter(|idle_ms| *idle_ms < NEVER_MS);
        let limits = NetworkLimits { connections_max_idle_ms, ..limits };
        Core {
            ring,
            table: Table::default(),
            listeners: listeners.into_iter().map(listening).collect(),
            descriptor_ceiling: crate::preflight::descriptor_ceiling(),
            quota,
            counters,
            parked: 0,
            turn_began_us: 0,
            now: clock::now(),
            pool: Pool::default(),
            holdings: Holdings::default(),
            tide,
            turn_number: 0,
            turn_share: share_of_turn(0),
            arrivals: VecDeque::new(),
            dirty: Vec::new(),
            resuming: VecDeque::new(),
            starved: VecDeque::new(),
            gone: Vec::new(),
            waits: Waits::default(),
            durable: JournalPosition::default(),
            idle: limits.connections_max_idle_ms.map(Wheel::new),
            stalls: Wheel::new(limits.send_stall_max_ms),
            accept_again_ms: None,
            stop_by_ms: None,
            log: LogBudget::default(),
            limits,
        }
    }

    /// When the core must turn at the latest for its own sake.
    pub(super) fn deadline_ms(&mut self) -> Option<u64> {
        let wheels = [self.idle.as_mut().and_then(Wheel::next_ms), self.stalls.next_ms()];
        wheels.into_iter().chain([self.accept_again_ms, self.stop_deadline_ms()]).flatten().min()
    }

    /// Begins a turn: looks at the clock.
    pub(super) fn begin_turn(&mut self) {
        (self.now, self.turn_began_us) = clock::now_and_us();
        self.counters.pulse.turning(self.now.monotonic_ms);
        self.counters.turns.add(1);
    }

    /// Finishes a turn: sends go out with the next enter, receives that lacked a buffer are armed again behind the buffers
    /// that were given back. `service_bytes` is what the service holds. True if there are sends.
    pub(super) fn finish_turn(&mut self, service_deadline_ms: Option<u64>, service_bytes: usize) -> bool {
        let sends = self.send_all();
        let table = &mut self.table;
        self.waits.tidy(|connection| table.get_mut(key_of(connection)).is_some());
        self.ring.publish_buffers();
        self.rearm_starved();
        let is_unfinished = !self.resuming.is_empty()
            || !self.arrivals.is_empty()
            || !self.dirty.is_empty()
            || !self.starved.is_empty();
        let at_once_ms = is_unfinished.then_some(self.now.monotonic_ms);
        let Holdings { kept_bytes, unsent_bytes } = self.holdings;
        let trim_ms = self.tide.stands_at(service_bytes + kept_bytes + unsent_bytes, self.now.monotonic_ms);
        let deadlines_ms = [self.deadline_ms(), service_deadline_ms, at_once_ms, trim_ms];
        let deadline_ms = deadlines_ms.into_iter().flatten().min();
        self.ring.set_deadline(deadline_ms);
        self.counters.connections_open.set(self.table.len() as u64);
        self.counters.requests_parked.set(self.parked);
        self.counters.pulse.sleeping(deadline_ms);
        sends
    }

    /// The turn is over: what it had to send is out.
    pub(super) fn turn_is_over(&mut self) {
        self.counters.turn_seconds.count(clock::monotonic_us().saturating_sub(self.turn_began_us));
    }

    /// Takes the completions of the ring, those of sockets to the end of `completions`.
    pub(super) fn collect(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        let was_woken = self.ring.collect(completions);
        self.keep_reserve(&mut completions[before..]);
        self.counters.wakes.add(u64::from(was_woken));
        self.turn_number = self.turn_number.wrapping_add(1);
        self.turn_share = share_of_turn(self.resuming.len());
        self.counters.completions.add((completions.len() - before) as u64);
    }

    /// Whether the turn has time to take in more of what has come.
    pub(super) fn has_time_to_receive(&self) -> bool {
        is_within(limits::RECEIVE_BUDGET_US, self.turn_began_us, clock::monotonic_us())
    }
}

/// Whether a turn that began then has not used up its budget now.
fn is_within(budget_us: u64, began_us: u64, now_us: u64) -> bool {
    now_us < began_us + budget_us
}

/// How many requests each connection may have executed in a turn, if so many have some left from the turn before.
fn share_of_turn(unfinished: usize) -> u32 {
    let each = limits::UNFINISHED_REQUESTS_PER_TURN / u32::try_from(unfinished).unwrap_or(u32::MAX).max(1);
    each.clamp(limits::CONNECTION_REQUESTS_PER_TURN_MIN, limits::CONNECTION_REQUESTS_PER_TURN)
}

impl Network for Core {
    fn answer(&mut self, connection: ConnectionId, write: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        let key = key_of(connection);
        let Some(found) = self.table.get_mut(key) else { return false };
        let is_answered = found.conversation.answer(&mut self.pool, write);
        if is_answered {
            self.settle(key);
        }
        is_answered
    }

    fn durable(&mut self, position: JournalPosition) {
        self.durable = self.durable.max(position);
        while let Some((_, connection)) = self.waits.pop(self.durable) {
            let key = key_of(connection);
            if let Some(found) = self.table.get_mut(key) {
                found.conversation.release(self.durable, &mut self.pool);
                self.settle(key);
            }
        }
    }

    fn failed(&mut self, after: JournalPosition, through: JournalPosition) {
        while let Some((wanted, connection)) = self.waits.pop(through) {
            assert!(wanted > after, "what is durable was released before");
            self.close_for(key_of(connection), "journal: the record of a reply could not be kept");
        }
    }

    fn has_time(&self) -> bool {
        is_within(limits::TURN_BUDGET_US, self.turn_began_us, clock::monotonic_us())
    }

    fn write(&mut self, write: FileWrite) {
        let FileWrite { file, offset, data, sync, token } = write;
        self.ring.write(file, offset, data, sync, token);
    }
}

/// How many log lines about peers a core may still write: a peer must not be able to fill the disk.
#[derive(Default)]
pub(super) struct LogBudget {
    window: u64,
    lines: u32,
    suppressed: u64,
}

impl LogBudget {
    const LINES_PER_WINDOW: u32 = 20;
    const WINDOW_MS: u64 = 1_000;

    /// Whether a line may be written now, and how many were not written since the last one.
    pub(super) fn allows(&mut self, now_ms: u64) -> Option<u64> {
        let window = now_ms / Self::WINDOW_MS;
        if window != self.window {
            (self.window, self.lines) = (window, 0);
        }
        if self.lines == Self::LINES_PER_WINDOW {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::trim::Trimmer;
    use crate::ring::{RingSettings, Waker};

    #[test]
    fn a_turn_is_shared_by_those_who_were_not_done() {
        use limits::{CONNECTION_REQUESTS_PER_TURN, CONNECTION_REQUESTS_PER_TURN_MIN, UNFINISHED_REQUESTS_PER_TURN};
        assert_eq!([0, 1].map(share_of_turn), [CONNECTION_REQUESTS_PER_TURN; 2]);
        let few = (UNFINISHED_REQUESTS_PER_TURN / CONNECTION_REQUESTS_PER_TURN) as usize;
        assert_eq!(share_of_turn(few), CONNECTION_REQUESTS_PER_TURN);
        assert!(share_of_turn(few + 1) < CONNECTION_REQUESTS_PER_TURN);
        let many = (UNFINISHED_REQUESTS_PER_TURN / CONNECTION_REQUESTS_PER_TURN_MIN) as usize;
        assert!(share_of_turn(many - 60) > CONNECTION_REQUESTS_PER_TURN_MIN);
        assert_eq!([many, many + 1, 15_000].map(share_of_turn), [CONNECTION_REQUESTS_PER_TURN_MIN; 3]);
    }

    /// A core without connections, and a way to wake it.
    fn core() -> (Core, Waker) {
        let waker = Waker::new().expect("a descriptor");
        let settings = RingSettings { submissions: 8, completions: 16, buffers: 4, buffer_bytes: 64 };
        let ring = Ring::new(settings, waker.clone()).expect("io_uring is allowed");
        let (quota, tide) = (Arc::new(Quota::new(10, 10)), Tide::new(Trimmer::start().expect("a thread")));
        (Core::new(ring, Vec::new(), NetworkLimits::default(), quota, Arc::default(), tide), waker)
    }

    #[test]
    fn a_core_does_not_sleep_while_receives_wait_for_a_buffer() {
        let (mut core, waker) = core();
        // Those in front are gone, and nothing will complete for them.
        let count = core.ring.buffer_count() as u32 + 1;
        core.starved.extend((0..count).map(|slot| Key { slot, generation: 0 }));
        core.begin_turn();
        core.finish_turn(None, 0);
        assert_eq!(core.starved.len(), 1);
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(500));
            waker.wake();
        });
        core.ring.enter(1).expect("the ring works");
        assert!(!core.ring.collect(&mut Vec::new()), "it slept until somebody else woke it");
        core.finish_turn(None, 0);
        assert!(core.starved.is_empty());
    }

    #[test]
    fn a_turn_has_time_until_its_budget_is_used() {
        for budget_us in [limits::TURN_BUDGET_US, limits::RECEIVE_BUDGET_US] {
            assert!(is_within(budget_us, 7, 7 + budget_us - 1));
            assert!(!is_within(budget_us, 7, 7 + budget_us));
        }
    }

    #[test]
    fn lines_are_bounded_per_second_and_the_rest_is_counted() {
        let mut budget = LogBudget::default();
        let allowed = (0..25).filter(|_| budget.allows(500).is_some()).count();
        assert_eq!(allowed as u32, LogBudget::LINES_PER_WINDOW);
        assert_eq!(budget.allows(1_500), Some(5));
        assert_eq!(budget.allows(1_501), Some(0));
    }
}

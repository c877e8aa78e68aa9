//! Requests at even intervals, or bursts of them, whatever the server does: the connections take turns, and a request that finds
//! its connection full waits, and all behind it, with their latency counting from when they were due; what was due before the end
//! is asked after it. A server that stalls cannot hide it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::engine::Engine;
use crate::lanes::{LATENCY_MAX_NS, Lanes};

/// How long a load sleeps at least: at higher rates a few requests go out together.
const SLEEP_MIN: Duration = Duration::from_micros(200);

/// When requests are due, and how many have been asked.
pub(crate) struct Pace {
    interval: Duration,
    start: Instant,
    /// What is due from then on is never asked.
    pub(crate) end: Option<Instant>,
    asked: u64,
    /// So many are due at once, on one connection.
    burst: u64,
    connection: usize,
    /// How long after they were due requests were asked, in nanoseconds: the load was busy, or connections were full.
    pub(crate) lateness: Histogram<u64>,
}

impl Pace {
    /// `rate` requests a second from `start` on, `burst` of them at once.
    pub(crate) fn new(rate: u32, burst: u16, start: Instant) -> Pace {
        let lateness = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("these bounds are valid");
        let interval = Duration::from_secs(1) / rate;
        Pace { interval, start, end: None, asked: 0, burst: burst.into(), connection: 0, lateness }
    }

    /// Begins anew: what came due before `start` and was not asked is not asked any more.
    pub(crate) fn restart(&mut self, start: Instant) {
        (self.start, self.asked) = (start, 0);
        self.lateness.reset();
    }

    /// Asks what is due at `now`; how long there is nothing to do then, unless an answer comes.
    pub(crate) fn ask_what_is_due(&mut self, lanes: &mut Lanes, engine: &mut Engine, now: Instant) -> Duration {
        while self.due() <= now && !self.is_over() && !lanes.is_full(self.connection) {
            let due = self.due();
            lanes.ask_as_of(due, self.connection, engine.output(self.connection));
            self.lateness.saturating_record((now - due).as_nanos() as u64);
            self.asked += 1;
            if self.asked.is_multiple_of(self.burst) {
                self.connection = (self.connection + 1) % lanes.connections();
            }
        }
        self.due().saturating_duration_since(now).max(SLEEP_MIN)
    }

    /// Whether all that was due before the end has been asked.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.due() >= end)
    }

    fn due(&self) -> Instant {
        let of_its_burst = self.asked - self.asked % self.burst;
        self.start + Duration::from_nanos(self.interval.as_nanos() as u64 * of_its_burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineOptions;
    use crate::lanes::{Judge, Kind};
    use crate::messages;

    fn two_connections(pipelined: usize) -> (Lanes, Engine, Vec<std::os::unix::net::UnixStream>) {
        let judge = Judge { kind: Kind::Heartbeat, version: 0, is_floor: true };
        let requests = (0..2).map(|_| messages::heartbeat(0, "group", 1, "id")).collect();
        let mut engine = Engine::new(EngineOptions::default()).expect("a ring");
        let far = (0..2).map(|_| {
            let (near, far) = std::os::unix::net::UnixStream::pair().expect("sockets");
            engine.add(near.into());
            far
        });
        let far = far.collect();
        (Lanes::new(judge, requests, 2, pipelined), engine, far)
    }

    #[test]
    fn what_is_due_is_asked_and_a_full_connection_holds_up_the_rest() {
        let (mut lanes, mut engine, _far) = two_connections(1);
        let start = Instant::now();
        let mut pace = Pace::new(1_000, 1, start);
        assert_eq!(pace.ask_what_is_due(&mut lanes, &mut engine, start), Duration::from_millis(1));
        assert_eq!(pace.asked, 1);
        let later = start + Duration::from_millis(10);
        assert_eq!(pace.ask_what_is_due(&mut lanes, &mut engine, later), SLEEP_MIN, "overdue");
        assert_eq!((pace.asked, pace.connection), (2, 0), "both connections are full");
        assert!(lanes.is_full(0) && lanes.is_full(1));
        assert_eq!(pace.due(), start + Duration::from_millis(2));
        assert_eq!((pace.lateness.len(), pace.lateness.max() / 1_000_000), (2, 9), "the second was 9 ms late");
        pace.restart(later);
        assert_eq!((pace.due(), pace.lateness.len()), (later, 0), "what was missed is forgotten");
    }

    #[test]
    fn what_was_due_before_the_end_is_asked_after_it_and_nothing_else() {
        let (mut lanes, mut engine, _far) = two_connections(4);
        let start = Instant::now();
        let mut pace = Pace::new(1_000, 1, start);
        pace.end = Some(start + Duration::from_millis(3));
        pace.ask_what_is_due(&mut lanes, &mut engine, start);
        assert!(!pace.is_over());
        pace.ask_what_is_due(&mut lanes, &mut engine, start + Duration::from_millis(10));
        assert!(pace.is_over());
        assert_eq!((pace.asked, pace.lateness.max() / 1_000_000), (3, 9));
    }

    #[test]
    fn a_burst_is_due_at_once_on_one_connection() {
        let (mut lanes, mut engine, _far) = two_connections(4);
        let start = Instant::now();
        let mut pace = Pace::new(1_000, 4, start);
        for (burst, connection) in [(1, 1), (2, 0)] {
            let moment = start + Duration::from_millis(4 * (burst - 1));
            assert_eq!(pace.ask_what_is_due(&mut lanes, &mut engine, moment), Duration::from_millis(4));
            assert_eq!((pace.asked, pace.connection), (4 * burst, connection));
        }
        assert!(lanes.is_full(0) && lanes.is_full(1));
        assert_eq!(pace.lateness.max(), 0, "each was asked when it was due");
    }
}

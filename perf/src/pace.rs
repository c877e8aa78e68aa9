//! Requests at even intervals, whatever the server does: the connections take turns, and a request that finds its connection
//! full waits, and all behind it, with their latency counting from when they were due. A server that stalls cannot hide it.

use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::lanes::Lanes;

/// How long a load sleeps at least: at higher rates a few requests go out together.
const SLEEP_MIN: Duration = Duration::from_micros(200);

/// When requests are due, and how many have been asked.
pub(crate) struct Pace {
    interval: Duration,
    start: Instant,
    asked: u64,
    connection: usize,
}

impl Pace {
    /// `rate` requests a second from `start` on.
    pub(crate) fn new(rate: u32, start: Instant) -> Pace {
        Pace { interval: Duration::from_secs(1) / rate, start, asked: 0, connection: 0 }
    }

    /// Asks what is due at `now`; how long there is nothing to do then, unless an answer comes.
    pub(crate) fn ask_what_is_due(&mut self, lanes: &mut Lanes, engine: &mut Engine, now: Instant) -> Duration {
        while self.due() <= now && !lanes.is_full(self.connection) {
            lanes.ask_as_of(self.due(), self.connection, engine.output(self.connection));
            self.asked += 1;
            self.connection = (self.connection + 1) % lanes.connections();
        }
        self.due().saturating_duration_since(now).max(SLEEP_MIN)
    }

    fn due(&self) -> Instant {
        self.start + Duration::from_nanos(self.interval.as_nanos() as u64 * self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineOptions;
    use crate::lanes::{Judge, Kind};
    use crate::messages;

    #[test]
    fn what_is_due_is_asked_and_a_full_connection_holds_up_the_rest() {
        let judge = Judge { kind: Kind::Heartbeat, version: 0, is_floor: true };
        let requests = (0..2).map(|_| messages::heartbeat(0, "group", 1, "id")).collect();
        let mut lanes = Lanes::new(judge, requests, 2, 1);
        let mut engine = Engine::new(EngineOptions::default()).expect("a ring");
        let files = [(); 2].map(|()| std::os::unix::net::UnixStream::pair().expect("sockets"));
        for (near, _) in &files {
            engine.add(near.try_clone().expect("a descriptor").into());
        }
        let start = Instant::now();
        let mut pace = Pace::new(1_000, start);
        assert_eq!(pace.ask_what_is_due(&mut lanes, &mut engine, start), Duration::from_millis(1));
        assert_eq!(pace.asked, 1);
        let later = start + Duration::from_millis(10);
        assert_eq!(pace.ask_what_is_due(&mut lanes, &mut engine, later), SLEEP_MIN, "overdue");
        assert_eq!((pace.asked, pace.connection), (2, 0), "both connections are full");
        assert!(lanes.is_full(0) && lanes.is_full(1));
        assert_eq!(pace.due(), start + Duration::from_millis(2));
    }
}

//! The closed loop itself: what is in flight on each connection, and the check of every answer.

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::engine::Handler;
use crate::{messages, wire};

/// What OffsetFetch must find.
pub(crate) const COMMITTED_OFFSET: i64 = 42;
/// Longer latencies are counted as this.
pub(crate) const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    FindCoordinator,
    Heartbeat,
    OffsetCommit,
    OffsetFetch,
}

/// A request and the answer that it must get, correlation ids apart; the answer is learnt (and judged) once.
struct Template {
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// What is in flight on a connection.
struct Lane {
    asked: i32,
    answered: i32,
    next: usize,
    awaited: usize,
    written: Box<[Instant]>,
}

/// All connections' lanes, the templates they go through, and what was measured.
pub(crate) struct Lanes {
    judge: Judge,
    templates: Vec<Template>,
    lanes: Vec<Lane>,
    /// 1: a lane goes through the templates; 0: it stays with its own.
    step: usize,
    pub(crate) now: Instant,
    /// An answer is followed by the next request.
    pub(crate) goes_on: bool,
    pub(crate) answered: u64,
    pub(crate) changed_answers: u64,
    pub(crate) histogram: Histogram<u64>,
    same: (u64, u64),
}

/// Says what a right answer is.
#[derive(Clone, Copy)]
pub(crate) struct Judge {
    pub(crate) kind: Kind,
    pub(crate) version: i16,
    /// Only sizes and correlation ids are looked at.
    pub(crate) is_floor: bool,
}

impl Judge {
    /// Whether an answer is what it must be: error code 0 and the value expected.
    fn judge(self, answer: &[u8]) -> Result<(), String> {
        let error_code = match self.kind {
            _ if self.is_floor => 0,
            Kind::FindCoordinator => match messages::read_find_coordinator(self.version, answer)?.as_slice() {
                [one] if one.port > 0 && !one.host.is_empty() => one.error_code,
                other => return Err(format!("{other:?}")),
            },
            Kind::Heartbeat => messages::read_heartbeat(self.version, answer)?,
            Kind::OffsetCommit => messages::read_offset_commit(self.version, answer)?,
            Kind::OffsetFetch => match messages::read_offset_fetch(self.version, answer)? {
                (0, COMMITTED_OFFSET) => 0,
                (0, offset) => return Err(format!("offset {offset} where {COMMITTED_OFFSET} was committed")),
                (error_code, _) => error_code,
            },
        };
        if error_code == 0 { Ok(()) } else { Err(format!("error code {error_code}")) }
    }
}

impl Lanes {
    /// Requests in the order in which lanes go through them (FindCoordinator), or one a connection.
    pub(crate) fn new(judge: Judge, requests: Vec<Vec<u8>>, connections: usize, pipelined: usize) -> Lanes {
        let templates: Vec<Template> =
            requests.into_iter().map(|request| Template { request, answer: Vec::new() }).collect();
        let now = Instant::now();
        let lane = |connection: usize| {
            let next = connection % templates.len();
            let written = vec![now; pipelined].into();
            Lane { asked: 0, answered: 0, next, awaited: next, written }
        };
        Lanes {
            judge,
            lanes: (0..connections).map(lane).collect(),
            step: usize::from(judge.kind == Kind::FindCoordinator),
            templates,
            now,
            goes_on: true,
            answered: 0,
            changed_answers: 0,
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("these bounds are valid"),
            same: (0, 0),
        }
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a connection has as many requests in flight as it may have.
    pub(crate) fn is_full(&self, connection: usize) -> bool {
        let lane = &self.lanes[connection];
        (lane.asked.wrapping_sub(lane.answered) & i32::MAX) as usize == lane.written.len()
    }

    /// Writes one more request of a connection.
    pub(crate) fn ask(&mut self, connection: usize, output: &mut Vec<u8>) {
        self.ask_as_of(self.now, connection, output);
    }

    /// The same, of a request whose latency counts from another moment.
    pub(crate) fn ask_as_of(&mut self, moment: Instant, connection: usize, output: &mut Vec<u8>) {
        let lane = &mut self.lanes[connection];
        let start = output.len();
        output.extend_from_slice(&self.templates[lane.next].request);
        wire::stamp(&mut output[start..], lane.asked);
        let slots = lane.written.len();
        lane.written[lane.asked as usize % slots] = moment;
        lane.asked = lane.asked.wrapping_add(1) & i32::MAX;
        lane.next = (lane.next + self.step) % self.templates.len();
    }

    /// Most answers of a batch have the same latency: counted together.
    fn record(&mut self, latency_ns: u64) {
        if self.same.0 != latency_ns {
            self.flush();
            self.same = (latency_ns, 0);
        }
        self.same.1 += 1;
    }

    /// Brings the histogram up to date.
    pub(crate) fn flush(&mut self) {
        if self.same.1 > 0 {
            self.histogram.saturating_record_n(self.same.0.max(1), self.same.1);
        }
        self.same = (0, 0);
    }

    /// Forgets what was measured so far.
    pub(crate) fn reset(&mut self) {
        self.flush();
        self.histogram.reset();
        self.answered = 0;
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.lanes.iter().any(|lane| lane.asked != lane.answered)
    }

    /// Sizes of a whole request and of its answer.
    pub(crate) fn frame_bytes(&self) -> (usize, usize) {
        (self.templates[0].request.len(), 8 + self.templates[0].answer.len())
    }

    fn learn(&mut self, connection: usize, frame: &[u8]) -> Result<(), String> {
        let awaited = self.lanes[connection].awaited;
        let template = &mut self.templates[awaited];
        let judged = self
            .judge
            .judge(frame)
            .map_err(|error| format!("{:?} on connection {connection}: {error}; answer {frame:02x?}", self.judge.kind));
        judged?;
        self.changed_answers += u64::from(!template.answer.is_empty());
        template.answer = frame[8..].to_vec();
        Ok(())
    }
}

impl Handler for Lanes {
    fn batch(&mut self) {
        self.now = Instant::now();
    }

    fn frame(&mut self, connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String> {
        let lane = &self.lanes[connection];
        let (correlation_id, slots) = (lane.answered, lane.written.len());
        if lane.asked == correlation_id || frame.get(4..8) != Some(&correlation_id.to_be_bytes()) {
            return Err(format!(
                "connection {connection}: correlation id {correlation_id} is due, answer {frame:02x?}"
            ));
        }
        let latency = self.now - lane.written[correlation_id as usize % slots];
        let answer = &self.templates[lane.awaited].answer;
        if answer.is_empty() || frame[8..] != **answer {
            self.learn(connection, frame)?;
        }
        self.record(latency.as_nanos() as u64);
        self.answered += 1;
        let lane = &mut self.lanes[connection];
        lane.answered = correlation_id.wrapping_add(1) & i32::MAX;
        lane.awaited = (lane.awaited + self.step) % self.templates.len();
        if self.goes_on {
            self.ask(connection, output);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a Heartbeat v0.
    fn answer(correlation_id: i32, error_code: i16) -> Vec<u8> {
        [&[0, 0, 0, 6][..], &correlation_id.to_be_bytes(), &error_code.to_be_bytes()].concat()
    }

    fn one_lane(pipelined: usize) -> (Lanes, Vec<u8>) {
        let judge = Judge { kind: Kind::Heartbeat, version: 0, is_floor: false };
        let mut lanes = Lanes::new(judge, vec![messages::heartbeat(0, "group-1", 7, "perf-1")], 1, pipelined);
        let mut output = Vec::new();
        for _ in 0..pipelined {
            lanes.ask(0, &mut output);
        }
        (lanes, output)
    }

    #[test]
    fn every_answer_is_followed_by_the_next_request() {
        let (mut lanes, mut output) = one_lane(2);
        for correlation_id in 0..5 {
            output.clear();
            lanes.frame(0, &answer(correlation_id, 0), &mut output).expect("the answer that is due");
            assert_eq!(output[8..12], (correlation_id + 2).to_be_bytes());
        }
        lanes.flush();
        assert_eq!((lanes.answered, lanes.histogram.len(), lanes.changed_answers), (5, 5, 0));
        lanes.goes_on = false;
        for correlation_id in 5..7 {
            lanes.frame(0, &answer(correlation_id, 0), &mut output).expect("the answer that is due");
        }
        assert!(!lanes.in_flight());
        assert!(lanes.frame(0, &answer(7, 0), &mut output).is_err(), "nothing was asked");
    }

    #[test]
    fn a_wrong_answer_fails_the_run_at_once() {
        for wrong in [answer(1, 0), answer(0, 25), answer(0, 0)[..9].to_vec(), [answer(0, 0), vec![0]].concat()] {
            let (mut lanes, mut output) = one_lane(2);
            assert!(lanes.frame(0, &wrong, &mut output).is_err(), "{wrong:?}");
        }
        let (mut lanes, mut output) = one_lane(2);
        lanes.frame(0, &answer(0, 0), &mut output).expect("the answer that is due");
        assert!(lanes.frame(0, &answer(1, 16), &mut output).is_err(), "also after a right one");
    }
}

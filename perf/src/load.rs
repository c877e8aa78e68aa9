//! The closed-loop load: CONNECTIONS x PIPELINED requests in flight, each answer checked and followed by the next
//! request. Latency counts from the turn that wrote a request to the turn that read its answer.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::crew::{Crew, Plan};
use crate::engine::{Engine, EngineOptions, Handler};
use crate::messages;
use crate::peer::Target;
use crate::process::{CpuMeter, need_open_files, pin};
use crate::report::Report;
use crate::wire;

/// A server that answers nothing for so long has failed the run.
const STALL_LIMIT: Duration = Duration::from_secs(10);
const RUN_UP_LIMIT: Duration = Duration::from_secs(120);
const SETUP_LIMIT: Duration = Duration::from_secs(120);
const COMMITTED_OFFSET: i64 = 42;
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    FindCoordinator,
    Heartbeat,
    OffsetCommit,
    OffsetFetch,
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to ask
    #[arg(value_enum)]
    kind: Kind,
    #[command(flatten)]
    target: Target,
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=15_000))]
    connections: u16,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pipelined: u16,
    /// How long to measure
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Requests before the measurement begins
    #[arg(long, default_value_t = 20_000, value_name = "REQUESTS")]
    run_up: u64,
    /// Version to ask in: FindCoordinator 0-6, Heartbeat 0-4, OffsetCommit 2-9, OffsetFetch 1-9; the newest if not given
    #[arg(long, value_name = "VERSION")]
    api_version: Option<i16>,
    /// Group names that FindCoordinator asks for in turn
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    groups: u32,
    /// Topic that is committed to; it must exist or be created by Metadata
    #[arg(long, default_value = "demo")]
    topic: String,
    /// Port of the core that all groups shall belong to; the first group's if not given
    #[arg(long, value_name = "PORT")]
    coordinator_port: Option<u16>,
    /// The server is the floor: no set-up, and only sizes and correlation ids are checked
    #[arg(long)]
    floor: bool,
    #[command(flatten)]
    engine: EngineOptions,
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

struct Load {
    judge: Judge,
    templates: Vec<Template>,
    lanes: Vec<Lane>,
    /// 1: a lane goes through the templates; 0: it stays with its own.
    step: usize,
    now: Instant,
    is_stopping: bool,
    answered: u64,
    changed_answers: u64,
    histogram: Histogram<u64>,
    same: (u64, u64),
}

#[derive(Clone, Copy)]
struct Judge {
    kind: Kind,
    version: i16,
    is_floor: bool,
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

impl Load {
    fn new(judge: Judge, requests: Vec<Vec<u8>>, options: &Options) -> Load {
        let templates: Vec<Template> =
            requests.into_iter().map(|request| Template { request, answer: Vec::new() }).collect();
        let now = Instant::now();
        let lane = |connection: usize| {
            let next = connection % templates.len();
            let written = vec![now; usize::from(options.pipelined)].into();
            Lane { asked: 0, answered: 0, next, awaited: next, written }
        };
        Load {
            judge,
            lanes: (0..usize::from(options.connections)).map(lane).collect(),
            step: usize::from(judge.kind == Kind::FindCoordinator),
            templates,
            now,
            is_stopping: false,
            answered: 0,
            changed_answers: 0,
            histogram: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("these bounds are valid"),
            same: (0, 0),
        }
    }

    fn ask(&mut self, connection: usize, output: &mut Vec<u8>) {
        let lane = &mut self.lanes[connection];
        let start = output.len();
        output.extend_from_slice(&self.templates[lane.next].request);
        wire::stamp(&mut output[start..], lane.asked);
        let slots = lane.written.len();
        lane.written[lane.asked as usize % slots] = self.now;
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

    fn flush(&mut self) {
        if self.same.1 > 0 {
            self.histogram.saturating_record_n(self.same.0.max(1), self.same.1);
        }
        self.same = (0, 0);
    }

    fn reset(&mut self) {
        self.flush();
        self.histogram.reset();
        self.answered = 0;
    }

    fn in_flight(&self) -> bool {
        self.lanes.iter().any(|lane| lane.asked != lane.answered)
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

impl Handler for Load {
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
        if !self.is_stopping {
            self.ask(connection, output);
        }
        Ok(())
    }
}

/// Sets up, runs up, measures, prints.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let newest = match options.kind {
        Kind::FindCoordinator => 0..=6,
        Kind::Heartbeat => 0..=4,
        Kind::OffsetCommit => 2..=9,
        Kind::OffsetFetch => 1..=9,
    };
    let version = options.api_version.unwrap_or(*newest.end());
    if !newest.contains(&version) || !(0.05..=600.0).contains(&options.seconds) {
        return Err("--api-version or --seconds is out of range; see --help".into());
    }
    need_open_files(usize::from(options.connections) + 64)?;
    pin(options.target.cpu)?;
    let judge = Judge { kind: options.kind, version, is_floor: options.floor };
    let mut engine = Engine::new(options.engine)?;
    let (peer, requests, mut crew) = set_up(options, judge, &mut engine)?;
    if crew.is_none() {
        connect(options, peer, &mut engine)?;
    }
    let mut load = Load::new(judge, requests, options);
    let report = measure(options, &mut load, &mut engine)?;
    if let Some(crew) = &mut crew {
        let connections = crew.connections();
        for connection in 0..connections {
            crew.leave(connection, engine.output(connection));
        }
        crew.drive(&mut engine, SETUP_LIMIT, |crew| crew.left == connections)?;
    }
    report.print(options.target.json);
    Ok(())
}

fn connect(options: &Options, peer: std::net::SocketAddr, engine: &mut Engine) -> Result<(), String> {
    for number in 0..usize::from(options.connections) {
        engine.add(options.target.connect(peer, number)?.into());
    }
    Ok(())
}

/// The address to ask, the requests (one a group), and the members on the engine's connections if there are some.
fn set_up(
    options: &Options,
    judge: Judge,
    engine: &mut Engine,
) -> Result<(std::net::SocketAddr, Vec<Vec<u8>>, Option<Crew>), String> {
    let (target, connections, version) = (&options.target, usize::from(options.connections), judge.version);
    if options.kind == Kind::FindCoordinator {
        let names: Vec<String> = (0..options.groups).map(|number| format!("perf-{number:015}")).collect();
        if !options.floor {
            target.coordinators(&names[..1])?;
        }
        let requests = names.iter().map(|name| messages::find_coordinator(version, &[name])).collect();
        return Ok((target.address, requests, None));
    }
    if options.floor {
        let id = format!("{}-{:036}", messages::CLIENT_ID, 0); // the length of Kafka's member ids
        let request = |number| request_of(judge, &options.topic, &format!("perf-{number:015}"), 1, &id);
        return Ok((target.address, (0..connections).map(request).collect(), None));
    }
    let (peer, names) = target.groups_of_one_core(connections, options.coordinator_port)?;
    if options.kind != Kind::Heartbeat {
        target.topic(&options.topic)?;
    }
    connect(options, peer, engine)?;
    let plan = Plan {
        session_timeout_ms: 300_000,
        metadata: messages::subscription(&options.topic, 100),
        assignment: messages::assignment(&options.topic, 100),
        whole: 1,
        joins_at_once: true,
    };
    let mut crew = Crew::new(plan, names.into_iter(), connections);
    for connection in 0..connections {
        crew.ask_id(connection, engine.output(connection));
    }
    crew.drive(engine, SETUP_LIMIT, |crew| crew.settled == connections)?;
    if options.kind == Kind::OffsetFetch {
        let mut stream = target.connect(peer, 0)?;
        for member in &crew.members {
            let commit = messages::offset_commit(
                9,
                &member.group,
                member.generation,
                &member.id,
                &options.topic,
                COMMITTED_OFFSET,
            );
            match messages::read_offset_commit(9, &crate::peer::ask(&mut stream, commit)?)? {
                0 => {}
                error_code => return Err(format!("OffsetCommit of {}: error code {error_code}", member.group)),
            }
        }
    }
    let of_member =
        |member: &crate::crew::Member| request_of(judge, &options.topic, &member.group, member.generation, &member.id);
    Ok((peer, crew.members.iter().map(of_member).collect(), Some(crew)))
}

fn request_of(judge: Judge, topic: &str, group: &str, generation: i32, id: &str) -> Vec<u8> {
    match judge.kind {
        Kind::FindCoordinator => messages::find_coordinator(judge.version, &[group]),
        Kind::Heartbeat => messages::heartbeat(judge.version, group, generation, id),
        Kind::OffsetCommit => messages::offset_commit(judge.version, group, generation, id, topic, COMMITTED_OFFSET),
        Kind::OffsetFetch => messages::offset_fetch(judge.version, group, topic),
    }
}

fn measure(options: &Options, load: &mut Load, engine: &mut Engine) -> Result<Report, String> {
    load.batch();
    for connection in 0..load.lanes.len() {
        for _ in 0..options.pipelined {
            load.ask(connection, engine.output(connection));
        }
    }
    let start = Instant::now();
    while load.answered < options.run_up {
        turn(load, engine)?;
        if start.elapsed() > RUN_UP_LIMIT {
            return Err(format!("the run-up took more than {RUN_UP_LIMIT:?}"));
        }
    }
    let server = options.target.meter()?;
    let own = CpuMeter::new(std::process::id())?;
    load.reset();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(options.seconds);
    while load.now < end {
        turn(load, engine)?;
    }
    let (elapsed, requests) = (start.elapsed(), load.answered);
    let (server, own) = (server.used()?, own.used()?);
    load.flush();
    let mut report = Report::default();
    let elapsed_ns = elapsed.as_nanos() as f64;
    report.text("kind", format!("{:?}", options.kind));
    report.whole("version", load.judge.version);
    report.text("shape", format!("{}x{}", options.connections, options.pipelined));
    report.real("requests_per_s", requests as f64 * 1e9 / elapsed_ns, 0);
    report.real("server_cpu_us_per_request", server.running_ns as f64 / 1e3 / requests as f64, 3);
    report.real("server_cpu_share", server.running_ns as f64 / elapsed_ns, 2);
    report.real("server_wait_share", server.waiting_ns as f64 / elapsed_ns, 2);
    report.real("load_cpu_share", own.running_ns as f64 / elapsed_ns, 2);
    report.real("load_wait_share", own.waiting_ns as f64 / elapsed_ns, 2);
    for (name, quantile) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)] {
        report.real(name, load.histogram.value_at_quantile(quantile) as f64 / 1e3, 1);
    }
    report.whole("requests", requests);
    report.real("seconds", elapsed.as_secs_f64(), 2);
    report.whole("request_bytes", load.templates[0].request.len());
    report.whole("reply_bytes", 8 + load.templates[0].answer.len());
    report.whole("changed_answers", load.changed_answers);
    load.is_stopping = true;
    while load.in_flight() {
        turn(load, engine)?;
    }
    Ok(report)
}

fn turn(load: &mut Load, engine: &mut Engine) -> Result<(), String> {
    match engine.turn(load, Some(STALL_LIMIT))? {
        true => Ok(()),
        false => Err(format!("no answer came for {STALL_LIMIT:?}")),
    }
}

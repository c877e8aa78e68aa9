//! The load: CONNECTIONS x PIPELINED requests in flight, each answer checked and followed by the next request; latency counts
//! from the turn that wrote a request to the turn that read its answer. With a rate instead requests are due at fixed moments
//! ([`crate::pace`]), and latency counts from these.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::crew::{Crew, Plan};
use crate::engine::{Engine, EngineOptions, Handler};
use crate::lanes::{COMMITTED_OFFSET, Judge, Kind, Lanes};
use crate::messages;
use crate::pace::Pace;
use crate::peer::Target;
use crate::process::{CpuMeter, need_open_files, pin};
use crate::report::Report;

/// A server that answers nothing for so long has failed the run.
const STALL_LIMIT: Duration = Duration::from_secs(10);
const RUN_UP_LIMIT: Duration = Duration::from_secs(120);
/// How long what is left at the end is waited for.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
const SETUP_LIMIT: Duration = Duration::from_secs(120);

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
    /// Requests a second, due at even intervals whatever the server does, at most PIPELINED of a connection in flight;
    /// latency counts from the moment that a request was due. Without it: as fast as answers come
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    rate: Option<u32>,
    /// With a rate: requests that are due at once on one connection, as many bursts a second as make the rate
    #[arg(long, value_name = "REQUESTS", default_value_t = 1, requires = "rate", value_parser = clap::value_parser!(u16).range(1..=1024))]
    burst: u16,
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
    if options.burst > options.pipelined {
        return Err("--burst is more than --pipelined lets a connection have in flight; see --help".into());
    }
    need_open_files(usize::from(options.connections) + 64)?;
    pin(options.target.cpu)?;
    let judge = Judge { kind: options.kind, version, is_floor: options.floor };
    let mut engine = Engine::new(options.engine)?;
    let SetUp { peer, requests, mut crew } = set_up(options, judge, &mut engine)?;
    if crew.is_none() {
        connect(options, peer, &mut engine)?;
    }
    let mut lanes = Lanes::new(judge, requests, options.connections.into(), options.pipelined.into());
    let report = measure(options, version, &mut lanes, &mut engine)?;
    if let Some(crew) = &mut crew {
        let connections = crew.members.len();
        for connection in 0..connections {
            crew.leave(connection, engine.output(connection));
        }
        crew.drive(&mut engine, SETUP_LIMIT, |crew| crew.left == connections)?;
    }
    report.print(options.target.json);
    Ok(())
}

fn connect(options: &Options, peer: SocketAddr, engine: &mut Engine) -> Result<(), String> {
    for number in 0..usize::from(options.connections) {
        engine.add(options.target.connect(peer, number)?.into());
    }
    Ok(())
}

/// Whom to ask what: requests one a group, and the members on the engine's connections if there are some.
struct SetUp {
    peer: SocketAddr,
    requests: Vec<Vec<u8>>,
    crew: Option<Crew>,
}

fn set_up(options: &Options, judge: Judge, engine: &mut Engine) -> Result<SetUp, String> {
    let (target, connections, version) = (&options.target, usize::from(options.connections), judge.version);
    if options.kind == Kind::FindCoordinator {
        let names: Vec<String> = (0..options.groups).map(|number| format!("perf-{number:015}")).collect();
        if !options.floor {
            target.coordinators(&names[..1])?;
        }
        let requests = names.iter().map(|name| messages::find_coordinator(version, &[name])).collect();
        return Ok(SetUp { peer: target.address, requests, crew: None });
    }
    if options.floor {
        let id = format!("{}-{:036}", messages::CLIENT_ID, 0); // the length of Kafka's member ids
        let request = |number| request_of(judge, &options.topic, &format!("perf-{number:015}"), 1, &id);
        let requests = (0..connections).map(request).collect();
        return Ok(SetUp { peer: target.address, requests, crew: None });
    }
    let (peer, names) = target.groups_of_one_core('l', connections, options.coordinator_port)?;
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
    let mut crew = Crew::new(plan, names.into_iter());
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
    let requests = crew.members.iter().map(of_member).collect();
    Ok(SetUp { peer, requests, crew: Some(crew) })
}

fn request_of(judge: Judge, topic: &str, group: &str, generation: i32, id: &str) -> Vec<u8> {
    match judge.kind {
        Kind::FindCoordinator => messages::find_coordinator(judge.version, &[group]),
        Kind::Heartbeat => messages::heartbeat(judge.version, group, generation, id),
        Kind::OffsetCommit => messages::offset_commit(judge.version, group, generation, id, topic, COMMITTED_OFFSET),
        Kind::OffsetFetch => messages::offset_fetch(judge.version, group, topic),
    }
}

fn measure(options: &Options, version: i16, lanes: &mut Lanes, engine: &mut Engine) -> Result<Report, String> {
    lanes.batch();
    let mut pace = options.rate.map(|rate| Pace::new(rate, options.burst, Instant::now()));
    lanes.goes_on = pace.is_none();
    for connection in 0..usize::from(options.connections) {
        for _ in 0..if pace.is_none() { options.pipelined } else { 0 } {
            lanes.ask(connection, engine.output(connection));
        }
    }
    // Looking for it takes a while, in which requests would come due.
    let server_pid = options.target.pid()?;
    let start = Instant::now();
    // At a rate, no longer than a second.
    let run_up = options.rate.map_or(options.run_up, |rate| options.run_up.min(rate.into()));
    while lanes.answered < run_up {
        turn(lanes, engine, pace.as_mut())?;
        if start.elapsed() > RUN_UP_LIMIT {
            return Err(format!("the run-up took more than {RUN_UP_LIMIT:?}"));
        }
    }
    let server = CpuMeter::new(server_pid)?;
    let own = CpuMeter::new(std::process::id())?;
    if let Some(pace) = &mut pace {
        pace.restart(Instant::now());
    }
    // What was answered meanwhile waited for this program.
    turn(lanes, engine, pace.as_mut())?;
    lanes.reset();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(options.seconds);
    if let Some(pace) = &mut pace {
        pace.end = Some(end);
    }
    while Instant::now() < end {
        turn(lanes, engine, pace.as_mut())?;
    }
    let (elapsed, requests) = (start.elapsed(), lanes.answered);
    let (server, own) = (server.used()?, own.used()?);
    drain(lanes, engine, pace.as_mut(), DRAIN_LIMIT)?;
    let mut report = Report::default();
    let elapsed_ns = elapsed.as_nanos() as f64;
    report.text("kind", format!("{:?}", options.kind));
    report.whole("version", version);
    report.text("shape", format!("{}x{}", options.connections, options.pipelined));
    if let Some(rate) = options.rate {
        report.whole("rate", rate);
        report.whole("burst", options.burst);
    }
    report.real("requests_per_s", requests as f64 * 1e9 / elapsed_ns, 0);
    report.real("server_cpu_us_per_request", server.running_ns as f64 / 1e3 / requests as f64, 3);
    report.real("server_cpu_share", server.running_ns as f64 / elapsed_ns, 2);
    report.real("server_wait_share", server.waiting_ns as f64 / elapsed_ns, 2);
    report.real("load_cpu_share", own.running_ns as f64 / elapsed_ns, 2);
    report.real("load_wait_share", own.waiting_ns as f64 / elapsed_ns, 2);
    quantiles(&mut report, lanes, pace.as_ref());
    report.whole("requests", requests);
    report.whole("answered_after_the_end", lanes.answered - requests);
    report.real("seconds", elapsed.as_secs_f64(), 2);
    let (request_bytes, reply_bytes) = lanes.frame_bytes();
    report.whole("request_bytes", request_bytes);
    report.whole("reply_bytes", reply_bytes);
    report.whole("changed_answers", lanes.changed_answers);
    Ok(report)
}

/// Waits for what was in flight or due when the time was up: a stall at the end has its latencies there.
fn drain(lanes: &mut Lanes, engine: &mut Engine, mut pace: Option<&mut Pace>, limit: Duration) -> Result<(), String> {
    let start = Instant::now();
    lanes.goes_on = false;
    while lanes.in_flight() || pace.as_ref().is_some_and(|pace| !pace.is_over()) {
        turn(lanes, engine, pace.as_deref_mut())?;
        if start.elapsed() > limit {
            return Err(format!("{limit:?} after the end, requests of the run are not answered"));
        }
    }
    lanes.flush();
    Ok(())
}

fn quantiles(report: &mut Report, lanes: &Lanes, pace: Option<&Pace>) {
    for (name, quantile) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)] {
        report.real(name, lanes.histogram.value_at_quantile(quantile) as f64 / 1e3, 1);
    }
    for (name, quantile) in [("late_p50_us", 0.5), ("late_p99_us", 0.99)] {
        if let Some(pace) = pace {
            report.real(name, pace.lateness.value_at_quantile(quantile) as f64 / 1e3, 1);
        }
    }
}

fn turn(lanes: &mut Lanes, engine: &mut Engine, pace: Option<&mut Pace>) -> Result<(), String> {
    let wait = match pace {
        Some(pace) => pace.ask_what_is_due(lanes, engine, Instant::now()),
        None => STALL_LIMIT,
    };
    if engine.turn(lanes, Some(wait))? || !lanes.in_flight() || lanes.now.elapsed() < STALL_LIMIT {
        return Ok(());
    }
    Err(format!("no answer came for {STALL_LIMIT:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answers_no_more_fails_the_run() {
        let judge = Judge { kind: Kind::Heartbeat, version: 0, is_floor: true };
        let mut lanes = Lanes::new(judge, vec![messages::heartbeat(0, "group", 1, "id")], 1, 2);
        let mut engine = Engine::new(EngineOptions::default()).expect("a ring");
        let (near, _far) = std::os::unix::net::UnixStream::pair().expect("sockets");
        engine.add(near.into());
        let start = Instant::now();
        let mut pace = Pace::new(1_000, 1, start);
        pace.end = Some(start + Duration::from_millis(10));
        let drained = drain(&mut lanes, &mut engine, Some(&mut pace), Duration::from_millis(50));
        assert!(drained.is_err() && lanes.in_flight(), "{drained:?}");
    }
}

//! Many connections: what idle ones cost the server in memory, and how long a storm of connects takes.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use socket2::SockAddr;

use crate::engine::{Engine, EngineOptions, Handler};
use crate::messages;
use crate::peer::{Target, ask};
use crate::process::{Memory, need_open_files, pin};
use crate::report::Report;
use crate::wire;

#[derive(clap::Args)]
pub(crate) struct IdleOptions {
    #[command(flatten)]
    target: Target,
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Do not send an ApiVersions on each connection first
    #[arg(long)]
    silent: bool,
    /// Stay connected for so many seconds before the last look
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// Server memory before, with and after many idle connections.
pub(crate) fn idle(options: &IdleOptions) -> Result<(), String> {
    let (target, count) = (&options.target, options.connections as usize);
    need_open_files(count + 64)?;
    pin(target.cpu)?;
    let pid = target.pid()?;
    drop(target.connect(target.address, 0)?); // what a server makes for its first connection is not counted
    std::thread::sleep(Duration::from_millis(200));
    let before = Memory::of(pid)?;
    let mut streams = Vec::new();
    for number in 0..count {
        let mut stream = target.connect(target.address, number)?;
        if !options.silent {
            match messages::read_api_versions(&ask(&mut stream, messages::api_versions())?)? {
                0 => {}
                error_code => return Err(format!("ApiVersions on connection {number}: error code {error_code}")),
            }
        }
        streams.push(stream);
    }
    std::thread::sleep(Duration::from_secs_f64(options.seconds.clamp(0.0, 600.0)));
    let with = Memory::of(pid)?;
    let meter = target.meter()?;
    std::thread::sleep(Duration::from_secs(1));
    let idle_ns = meter.used()?.running_ns;
    drop(streams);
    std::thread::sleep(Duration::from_secs(1));
    let after = Memory::of(pid)?;

    let mut report = Report::default();
    let per = |before: i64, with: i64| (with - before) as f64 / count as f64;
    report.text("kind", if options.silent { "IdleSilent" } else { "Idle" });
    report.whole("connections", count);
    report.real("rss_bytes_each", per(before.rss_bytes, with.rss_bytes), 0);
    report.real("pss_bytes_each", per(before.pss_bytes, with.pss_bytes), 0);
    report.real("anonymous_bytes_each", per(before.anonymous_bytes, with.anonymous_bytes), 0);
    report.whole("rss_kib_before", before.rss_bytes >> 10);
    report.whole("rss_kib_with", with.rss_bytes >> 10);
    report.whole("rss_kib_closed", after.rss_bytes >> 10);
    report.real("idle_server_cpu_ms_per_s", idle_ns as f64 / 1e6, 3);
    report.print(target.json);
    Ok(())
}

#[derive(clap::Args)]
pub(crate) struct StormOptions {
    #[command(flatten)]
    target: Target,
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Give up after so many seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    limit: u32,
    /// When all have been answered, all ask again at once (15,000 senders at once)
    #[arg(long)]
    again: bool,
}

struct Storm {
    start: Instant,
    now: Instant,
    greeting: Vec<u8>,
    round: i32,
    opened: usize,
    answered: usize,
    open_ns: Histogram<u64>,
    answer_ns: Histogram<u64>,
}

impl Handler for Storm {
    fn batch(&mut self) {
        self.now = Instant::now();
    }

    fn opened(&mut self, _connection: usize, output: &mut Vec<u8>) {
        self.opened += 1;
        self.open_ns.saturating_record((self.now - self.start).as_nanos() as u64);
        output.extend_from_slice(&self.greeting);
    }

    fn frame(&mut self, connection: usize, frame: &[u8], _output: &mut Vec<u8>) -> Result<(), String> {
        let error_code = messages::read_api_versions(frame)?;
        if frame[4..8] != self.round.to_be_bytes() || error_code != 0 {
            return Err(format!(
                "ApiVersions on connection {connection}: error code {error_code}, {:02x?}",
                &frame[..8]
            ));
        }
        self.answered += 1;
        self.answer_ns.saturating_record((self.now - self.start).as_nanos() as u64);
        Ok(())
    }
}

/// All connect at once; each asks ApiVersions as soon as it stands.
pub(crate) fn storm(options: &StormOptions) -> Result<(), String> {
    let (target, count) = (&options.target, options.connections as usize);
    need_open_files(count + 64)?;
    pin(target.cpu)?;
    let mut sockets = Vec::new();
    for number in 0..count {
        sockets.push(target.socket(target.address, number)?);
    }
    let histogram = || Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("these bounds are valid");
    let now = Instant::now();
    let mut storm = Storm {
        start: now,
        now,
        greeting: messages::api_versions(),
        round: 0,
        opened: 0,
        answered: 0,
        open_ns: histogram(),
        answer_ns: histogram(),
    };
    let mut engine = Engine::new(EngineOptions::default())?;
    let meter = target.meter()?;
    let peer = SockAddr::from(target.address);
    storm.start = Instant::now();
    for socket in sockets {
        engine.connect(socket.into(), &peer);
    }
    drive(&mut storm, &mut engine, count, options.limit)?;
    let mut report = Report::default();
    report.text("kind", "ConnectStorm");
    report.whole("connections", count);
    let ms = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
    report.real("connected_p50_ms", ms(&storm.open_ns, 0.5), 1);
    report.real("connected_all_ms", ms(&storm.open_ns, 1.0), 1);
    report.real("answered_p50_ms", ms(&storm.answer_ns, 0.5), 1);
    report.real("answered_all_ms", ms(&storm.answer_ns, 1.0), 1);
    report.real("server_cpu_ms", meter.used()?.running_ns as f64 / 1e6, 1);
    if options.again {
        storm.answer_ns.reset();
        (storm.answered, storm.round, storm.start) = (0, 1, Instant::now());
        wire::stamp(&mut storm.greeting, storm.round);
        for connection in 0..count {
            engine.output(connection).extend_from_slice(&storm.greeting);
        }
        drive(&mut storm, &mut engine, count, options.limit)?;
        report.real("asked_again_p50_ms", ms(&storm.answer_ns, 0.5), 1);
        report.real("asked_again_all_ms", ms(&storm.answer_ns, 1.0), 1);
    }
    report.print(target.json);
    Ok(())
}

fn drive(storm: &mut Storm, engine: &mut Engine, count: usize, limit_seconds: u32) -> Result<(), String> {
    let limit = Duration::from_secs(limit_seconds.into());
    while storm.answered < count {
        engine.turn(storm, Some(Duration::from_millis(100)))?;
        if storm.start.elapsed() > limit {
            let (opened, answered) = (storm.opened, storm.answered);
            return Err(format!("after {limit:?} only {opened} of {count} are connected and {answered} answered"));
        }
    }
    Ok(())
}

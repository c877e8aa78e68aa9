//! Groups at scale: one group of many members on a socket each, and many groups of one member on shared sockets.

use std::time::{Duration, Instant};

use crate::crew::{Crew, Plan};
use crate::engine::{Engine, EngineOptions};
use crate::groups::Groups;
use crate::messages;
use crate::peer::Target;
use crate::process::{CpuMeter, Memory, need_open_files, pin};
use crate::report::Report;

const TOPIC: &str = "demo";

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: Target,
    /// Members of the one group, a socket each; 0: leave this part out
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    members: u32,
    /// Groups of one member; 0: leave this part out
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(0..=5_000_000))]
    groups: u32,
    /// Sockets that the groups of one member share; a socket has at most one parked request
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=15_000))]
    sockets: u16,
    /// Groups that a socket takes at a time: all ids asked for at once, a SyncGroup sent with the next group's JoinGroup.
    /// 1: each request waits for the answer before it, as if the member had the socket for itself
    #[arg(long, default_value_t = 1, value_name = "GROUPS", value_parser = clap::value_parser!(u16).range(1..=512))]
    batch: u16,
    #[arg(long, default_value_t = 100, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(32..=100_000))]
    metadata_bytes: u32,
    #[arg(long, default_value_t = 100, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(32..=100_000))]
    assignment_bytes: u32,
    #[arg(long, default_value_t = 300_000, value_name = "MS")]
    session_timeout_ms: i32,
    /// Give up after so many seconds in any phase
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    limit: u32,
    /// The members of the one group leave at the end
    #[arg(long)]
    leave: bool,
}

impl Options {
    fn plan(&self, whole: usize, joins_at_once: bool) -> Plan {
        Plan {
            session_timeout_ms: self.session_timeout_ms,
            metadata: messages::subscription(TOPIC, self.metadata_bytes as usize),
            assignment: messages::assignment(TOPIC, self.assignment_bytes as usize),
            whole,
            joins_at_once,
        }
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(self.limit.into())
    }
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    need_open_files(options.members.max(options.sockets.into()) as usize + 64)?;
    pin(options.target.cpu)?;
    if options.members > 0 {
        one_group(options)?;
    }
    if options.groups > 0 {
        many_groups(options)?;
    }
    Ok(())
}

/// Cold start of one group, then one more member.
fn one_group(options: &Options) -> Result<(), String> {
    let (target, members, limit) = (&options.target, options.members as usize, options.limit());
    let (peer, names) = target.groups_of_one_core('a', 1, None)?;
    let mut engine = Engine::new(EngineOptions::default())?;
    for number in 0..=members {
        engine.add(target.connect(peer, number)?.into());
    }
    let before = Memory::of(target.pid()?)?;
    let all_in_it = std::iter::repeat_n(names[0].clone(), members);
    let mut crew = Crew::new(options.plan(members, false), all_in_it);

    let asked = Instant::now();
    for connection in 0..members {
        crew.ask_id(connection, engine.output(connection));
    }
    crew.drive(&mut engine, limit, |crew| crew.with_id == members)?;
    let ids = asked.elapsed();

    let server = target.meter()?;
    let own = CpuMeter::new(std::process::id())?;
    let joined = Instant::now();
    for connection in 0..members {
        crew.join(connection, engine.output(connection));
    }
    crew.drive(&mut engine, limit, |crew| crew.settled == members)?;
    let cold = crew.last_sync - joined;
    let (server_cold, own_cold) = (server.used()?, own.used()?);
    let after = Memory::of(target.pid()?)?;
    let first_generation = crew.members[0].generation;

    let server = target.meter()?;
    crew.grow();
    let grown = Instant::now();
    crew.ask_id(members, engine.output(members));
    crew.drive(&mut engine, limit, |crew| crew.with_id == members + 1)?;
    crew.join(members, engine.output(members));
    crew.drive(&mut engine, limit, |crew| crew.settled == members + 1)?;
    let server_grown = server.used()?;

    let mut report = Report::default();
    report.text("kind", "OneGroup");
    report.whole("members", members);
    report.real("ids_ms", ids.as_secs_f64() * 1e3, 1);
    report.real("first_join_to_last_sync_ms", cold.as_secs_f64() * 1e3, 1);
    report.real("server_cpu_ms", server_cold.running_ns as f64 / 1e6, 1);
    report.real("load_cpu_ms", own_cold.running_ns as f64 / 1e6, 1);
    report.whole("generation", first_generation);
    report.real("last_rejoin_to_last_sync_ms", (crew.last_sync - crew.last_join).as_secs_f64() * 1e3, 1);
    report.real("one_more_ms", (crew.last_sync - grown).as_secs_f64() * 1e3, 1);
    report.real("one_more_server_cpu_ms", server_grown.running_ns as f64 / 1e6, 1);
    memory_per(&mut report, members, before, after);
    if options.leave {
        for connection in 0..=members {
            crew.leave(connection, engine.output(connection));
        }
        crew.drive(&mut engine, limit, |crew| crew.left > members)?;
    }
    report.print(target.json);
    Ok(())
}

/// Each socket takes one group after the other through id, join and sync.
fn many_groups(options: &Options) -> Result<(), String> {
    let (target, groups) = (&options.target, options.groups as usize);
    let (peer, names) = target.groups_of_one_core('b', groups, None)?;
    let mut engine = Engine::new(EngineOptions::default())?;
    let sockets = usize::from(options.sockets).min(groups);
    for number in 0..sockets {
        engine.add(target.connect(peer, number)?.into());
    }
    let mut all = Groups::new(options.plan(1, true), names, sockets, options.batch.into());
    let before = Memory::of(target.pid()?)?;
    let server = target.meter()?;
    let own = CpuMeter::new(std::process::id())?;
    let elapsed = all.drive(&mut engine, options.limit())?;
    let (server, own) = (server.used()?, own.used()?);
    let after = Memory::of(target.pid()?)?;

    let mut report = Report::default();
    report.text("kind", "ManyGroups");
    report.whole("groups", groups);
    report.whole("sockets", sockets);
    report.whole("batch", options.batch);
    report.real("groups_per_s", groups as f64 / elapsed.as_secs_f64(), 0);
    report.real("groups_per_server_cpu_s", groups as f64 * 1e9 / server.running_ns as f64, 0);
    report.real("server_cpu_us_per_group", server.running_ns as f64 / 1e3 / groups as f64, 2);
    report.real("load_cpu_share", own.running_ns as f64 / elapsed.as_nanos() as f64, 2);
    memory_per(&mut report, groups, before, after);
    report.print(target.json);
    Ok(())
}

/// What each of `count` members or groups added to the server's memory.
fn memory_per(report: &mut Report, count: usize, before: Memory, after: Memory) {
    let per = |before: i64, after: i64| (after - before) as f64 / count as f64;
    report.whole("rss_mib_after", after.rss_bytes >> 20);
    report.real("rss_bytes_each", per(before.rss_bytes, after.rss_bytes), 0);
    report.real("anonymous_bytes_each", per(before.anonymous_bytes, after.anonymous_bytes), 0);
}

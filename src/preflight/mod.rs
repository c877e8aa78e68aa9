//! Looks whether a server could run here, before anything is started, and says what to do if not.
//!
//! The judgements are in [`judge`], and are given what was read; this file reads it.
#![allow(clippy::disallowed_methods, reason = "before the cores start, nothing waits for it")]

mod judge;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Settings;
use crate::config::ports::PortTable;
use crate::control::file;
use crate::ring::{Ring, RingSettings, Waker};

/// Files that no connection may have: the journal, listeners and rings need some at any time.
const FILES_RESERVED: u64 = 128;

/// How a finding bears on the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// All is well.
    Fine,
    /// A server can run, but not as well as it might.
    Warning,
    /// No server can run.
    Failure,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub subject: &'static str,
    /// How it bears on the start.
    pub severity: Severity,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing stands in the way of a server.
    pub fn can_serve(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Failure)
    }

    /// What stands in the way and what to do about it, one a line.
    pub fn failures(&self) -> String {
        let failures = self.findings.iter().filter(|finding| finding.severity == Severity::Failure);
        let lines = failures.map(|Finding { subject, found, remedy, .. }| format!("{subject}: {found}. {remedy}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Writes warnings and failures to the log.
    pub fn log(&self) {
        for Finding { subject, severity, found, remedy } in &self.findings {
            match severity {
                Severity::Fine => tracing::debug!("{subject}: {found}"),
                Severity::Warning => tracing::warn!("{subject}: {found}. {remedy}"),
                Severity::Failure => tracing::error!("{subject}: {found}. {remedy}"),
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { subject, severity, found, remedy } in &self.findings {
            let mark = match severity {
                Severity::Fine => "ok",
                Severity::Warning => "WARNING",
                Severity::Failure => "FAILURE",
            };
            writeln!(f, "{mark:<8}{subject}: {found}")?;
            if !remedy.is_empty() {
                writeln!(f, "        {remedy}")?;
            }
        }
        let verdict = if self.can_serve() { "A server can run here." } else { "No server can run here yet." };
        write!(f, "{verdict}")
    }
}

/// Looks at everything that a server with these settings needs. Binds its ports and locks its data directory for a moment;
/// changes nothing else.
pub fn examine(settings: &Settings) -> Report {
    let mut report = examine_for_start(settings);
    report.findings.extend(file::examine(settings).err().map(|error| judge::data_dir_is_refused(&error)));
    report.findings.extend(ports(settings));
    report
}

/// As [`examine`], but for what a start does itself: it opens the data directory and binds the ports, and waits for those of a
/// server that has just ended.
pub fn examine_for_start(settings: &Settings) -> Report {
    let mut report = examine_machine(settings.cores, settings.max_connections);
    report.findings.push(data_dir(&settings.data_dir));
    if let Ok(table) = PortTable::of(settings) {
        let outgoing = read("/proc/sys/net/ipv4/ip_local_port_range");
        let reserved = read("/proc/sys/net/ipv4/ip_local_reserved_ports");
        let all: Vec<u16> =
            (0..settings.listeners.len()).flat_map(|listener| bound(settings, &table, listener)).collect();
        report.findings.extend(judge::ports_of_outgoing_connections(&outgoing, &reserved, &all));
    }
    report
}

/// What any server needs, whatever it serves. Raises the soft limits of this process to its hard ones.
pub fn examine_machine(cores: usize, max_connections: usize) -> Report {
    let findings = vec![
        judge::kernel(&read("/proc/sys/kernel/osrelease")),
        judge::locked_memory(raise(Resource::Memlock)),
        judge::io_uring(read("/proc/sys/kernel/io_uring_disabled").trim(), try_ring()),
        judge::open_files(raise(Resource::Nofile), max_connections),
        judge::processors(cores, allowed_cpus().len()),
    ];
    Report { findings }
}

/// The CPUs that this process may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let mut cpus: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|cpu| cpu.id).collect();
    cpus.sort_unstable();
    cpus
}

/// The first file descriptor that no connection may have.
pub fn descriptor_ceiling() -> i32 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    i32::try_from(limit.saturating_sub(FILES_RESERVED)).unwrap_or(i32::MAX)
}

/// What cannot be read is judged as empty.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Raises the soft limit to the hard one; the limit then in force.
fn raise(resource: Resource) -> Option<u64> {
    let limit = getrlimit(resource);
    // Every process may; should it be refused, what is in force is what counts.
    let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    getrlimit(resource).current
}

/// Makes a ring as a core does.
fn try_ring() -> io::Result<()> {
    let small = RingSettings { submissions: 8, completions: 16, buffers: 2, buffer_bytes: 4096 };
    Ring::new(small, Waker::new()?).map(drop)
}

fn ports(settings: &Settings) -> Vec<Finding> {
    let table = match PortTable::of(settings) {
        Ok(table) => table,
        Err(error) => return vec![judge::no_ports(&error)],
    };
    let mut findings = Vec::new();
    // A port is not free for two: what is bound stays so until all are.
    let mut held = Vec::new();
    let mut hold = |host: &str, port: u16| match try_port(host, port) {
        Ok(socket) => {
            held.push(socket);
            None
        }
        Err(error) => Some((port, error)),
    };
    for (index, listener) in settings.listeners.iter().enumerate() {
        let ports = bound(settings, &table, index);
        let problem = ports.iter().find_map(|&port| hold(&listener.bind_host, port));
        findings.push(judge::ports(&listener.name, &listener.bind_host, &ports, problem.as_ref()));
    }
    if let Some((host, port)) = &settings.metrics {
        let problem = hold(host, *port);
        findings.push(judge::ports("metrics", host, &[*port], problem.as_ref()));
    }
    findings
}

/// The ports that are bound for a listener: its own, then those of the cores.
fn bound(settings: &Settings, table: &PortTable, listener: usize) -> Vec<u16> {
    let own = (0..settings.cores).filter_map(|core| table.own_port(listener, core));
    std::iter::once(settings.listeners[listener].bind_port).chain(own).collect()
}

/// Binds the one address that the server would bind: the first of a name. The standard library sets SO_REUSEADDR, as the server does: what is left
/// of closed connections does not count, another listener does.
fn try_port(host: &str, port: u16) -> io::Result<TcpListener> {
    let first = (host, port).to_socket_addrs()?.next().ok_or(ErrorKind::AddrNotAvailable)?;
    TcpListener::bind(first)
}

/// A directory that is there must take a file; one that is not must have a parent that would take it.
fn data_dir(dir: &Path) -> Finding {
    let there = dir.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    let nearest = there.into_iter().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let probe = nearest.join(".rallypoint-check");
    let result = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    judge::data_dir(dir, nearest == dir, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Listener;

    fn on_port(port: u16) -> Settings {
        let mut settings = Settings::default();
        let listener: &mut Listener = &mut settings.listeners[0];
        (listener.bind_port, listener.advertised_port) = (port, port);
        settings
    }

    #[test]
    fn a_port_in_use_is_a_failure_and_a_free_one_is_not() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = taken.local_addr().expect("bound").port();
        let found = ports(&on_port(port));
        assert_eq!(found[0].severity, Severity::Failure, "{found:?}");
        assert!(found[0].found.contains(&format!("127.0.0.1:{port}")), "{found:?}");
        drop(taken);
        assert_eq!(ports(&on_port(port))[0].severity, Severity::Fine);
    }

    #[test]
    fn a_port_that_the_server_would_bind_twice_is_a_failure() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let worst = |settings: &Settings| ports(settings).iter().map(|finding| finding.severity).max();
        let metrics = Some(("127.0.0.1".to_owned(), port));
        assert_eq!(worst(&Settings { metrics, ..on_port(port) }), Some(Severity::Failure));
        let mut twice = on_port(port);
        twice.listeners.push(Listener { bind_host: "0.0.0.0".into(), ..twice.listeners[0].clone() });
        assert_eq!(worst(&twice), Some(Severity::Failure));
    }

    #[test]
    fn a_data_directory_may_be_missing_but_not_impossible() {
        let scratch = tempfile::tempdir().expect("a directory");
        assert_eq!(data_dir(scratch.path()).severity, Severity::Fine);
        assert_eq!(data_dir(&scratch.path().join("a/b")).severity, Severity::Fine);
        assert!(!scratch.path().join("a").exists());
        std::fs::write(scratch.path().join("file"), b"").expect("written");
        assert_eq!(data_dir(&scratch.path().join("file/data")).severity, Severity::Failure);
    }

    #[test]
    fn the_report_fails_by_its_worst_finding() {
        let finding = |severity| Finding { subject: "x", severity, found: "y".into(), remedy: "z".into() };
        let mut report = Report { findings: vec![finding(Severity::Fine), finding(Severity::Warning)] };
        assert!(report.can_serve());
        assert!(report.to_string().ends_with("A server can run here."));
        report.findings.push(finding(Severity::Failure));
        assert!(!report.can_serve());
        assert_eq!(report.failures(), "x: y. z");
        assert_eq!(report.to_string().lines().filter(|line| line.starts_with("FAILURE x: y")).count(), 1);
    }
}

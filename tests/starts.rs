//! What stops a start, and what `rallypoint check` says of it: the command itself on a data directory.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "it runs the command and talks to it")]

mod command_support;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rallypoint::wire::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use rallypoint::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use rallypoint::wire::{ApiKey, Array, Cursor, Wire};

use command_support::ask;

const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    process: Child,
    /// What it logged until it was ready.
    log: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

fn command(verb: &str, data: &Path, port: u16, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rallypoint"));
    command.args([verb, "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(data).args(more);
    command
}

fn start(data: &Path, port: u16, more: &[&str]) -> Server {
    let mut process = command("serve", data, port, more).stderr(Stdio::piped()).spawn().expect("the command runs");
    let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
    let mut log = String::new();
    while !log.contains("ready: ") {
        assert!(stderr.read_line(&mut log).expect("text") > 0, "it ends: {log}");
    }
    // Who reads no more must not hold it up.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    Server { process, log }
}

/// What a command says that ends by itself.
fn said(verb: &str, data: &Path, port: u16, more: &[&str]) -> (bool, String) {
    let mut process = command(verb, data, port, more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let began = Instant::now();
    while process.try_wait().expect("a process").is_none() {
        if began.elapsed() > PATIENCE {
            let _ = process.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let Output { status, stdout, stderr } = process.wait_with_output().expect("its output");
    (status.success(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

/// Finds the coordinator of a group, which makes the offsets topic, and commits an offset.
fn commit(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it is ready");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let began = Instant::now();
    loop {
        let request = FindCoordinatorRequest { key: "g".into(), ..Default::default() };
        let answer = ask(&mut stream, ApiKey::FindCoordinator, 0, &request);
        let found = FindCoordinatorResponse::read(&mut Cursor::new(&answer), ApiKey::FindCoordinator.version(0));
        let found = found.expect("well formed");
        if found.error_code == 0 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "no coordinator: {}", found.error_code);
        std::thread::sleep(Duration::from_millis(20));
    }
    let partitions = [OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() }];
    let topics =
        [OffsetCommitRequestTopic { name: "demo".into(), partitions: Array::Items(&partitions), ..Default::default() }];
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: Array::Items(&topics),
        ..Default::default()
    };
    let answer = ask(&mut stream, ApiKey::OffsetCommit, 2, &request);
    let committed = OffsetCommitResponse::read(&mut Cursor::new(&answer), ApiKey::OffsetCommit.version(2));
    let committed = committed.expect("well formed");
    let codes = committed.topics.iter().flat_map(|topic| topic.partitions.iter()).map(|row| row.error_code);
    assert_eq!(codes.collect::<Vec<_>>(), [0]);
}

#[test]
fn a_journal_whose_control_log_is_gone_is_not_served() {
    let data = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let server = start(data.path(), port, &["--topic", "demo"]);
    commit(port);
    drop(server);
    let log = data.path().join("control.log");
    let kept = std::fs::read(&log).expect("the control log");
    std::fs::remove_file(&log).expect("removed");
    for verb in ["check", "serve", "serve"] {
        let (is_well, text) = said(verb, data.path(), port, &["--topic", "demo"]);
        assert!(!is_well && text.contains("move the whole directory away"), "{verb}: {text}");
    }
    std::fs::write(&log, kept).expect("put back");
    drop(start(data.path(), port, &[]));
}

#[test]
fn a_control_log_that_does_not_know_the_journals_partitions_is_not_served() {
    let data = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let server = start(data.path(), port, &["--topic", "demo"]);
    let without = std::fs::read(data.path().join("control.log")).expect("the control log");
    commit(port);
    drop(server);
    std::fs::write(data.path().join("control.log"), without).expect("an older one");
    let (is_well, text) = said("serve", data.path(), port, &[]);
    assert!(!is_well && text.contains("move the whole directory away"), "{text}");
}

#[test]
fn a_journal_of_partitions_that_the_control_log_does_not_know_is_not_served() {
    let (data, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let port = free_port();
    for (folder, partitions) in [(&other, "1"), (&data, "50")] {
        let set = format!("offsets.topic.num.partitions={partitions}");
        let _server = start(folder.path(), port, &["--topic", "demo", "--set", &set]);
        commit(port);
    }
    std::fs::copy(other.path().join("control.log"), data.path().join("control.log")).expect("another cluster's");
    let (is_well, text) = said("serve", data.path(), port, &[]);
    assert!(!is_well && text.contains("partition 3 of the offsets topic"), "{text}");
    assert!(text.contains("move the whole data directory away"), "{text}");
}

#[test]
fn a_server_that_is_there_and_one_that_was_are_found_by_the_check() {
    let data = tempfile::tempdir().expect("a folder");
    let (port, other_port) = (free_port(), free_port());
    let server = start(data.path(), port, &[]);
    let (is_well, text) = said("check", data.path(), other_port, &[]);
    assert!(!is_well && text.contains("another server uses this data directory"), "{text}");
    drop(server);
    let (is_well, text) = said("check", data.path(), port, &[]);
    assert!(is_well, "{text}");
    let (is_well, text) = said("check", data.path(), port, &["--set", "node.id=9"]);
    assert!(!is_well && text.contains("belongs to node.id 1, but node.id is 9"), "{text}");
    let log = data.path().join("control.log");
    let mut bytes = std::fs::read(&log).expect("the control log");
    bytes[3] ^= 1;
    std::fs::write(&log, &bytes).expect("damaged");
    let (is_well, text) = said("check", data.path(), port, &[]);
    assert!(!is_well && text.contains("control.log"), "{text}");
    assert_eq!(std::fs::read(&log).expect("the control log"), bytes, "a check changes nothing");
}

#[test]
fn each_declared_topic_that_cannot_be_created_is_named() {
    let data = tempfile::tempdir().expect("a folder");
    let names = ["one", "two", "three", "four"];
    let mut more = vec!["--set", "default.replication.factor=3"];
    names.iter().for_each(|name| more.extend(["--topic", name]));
    let server = start(data.path(), free_port(), &more);
    for name in names {
        let named = |line: &&str| line.contains("cannot be created") && line.contains(&format!("\"{name}\""));
        assert_eq!(server.log.lines().filter(named).count(), 1, "{name}: {}", server.log);
    }
}

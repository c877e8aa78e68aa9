//! The metrics of a whole server: its own command, asked through sockets.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "it runs the command and talks to it")]

mod command_support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rallypoint::wire::api_versions::ApiVersionsRequest;
use rallypoint::wire::find_coordinator::FindCoordinatorRequest;
use rallypoint::wire::heartbeat::HeartbeatRequest;
use rallypoint::wire::metadata::{MetadataRequest, MetadataRequestTopic};
use rallypoint::wire::{ApiKey, Array};

use command_support::ask;

const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    process: Child,
    port: u16,
    metrics_port: u16,
    _data: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Four ports in a row that are free now; a server of two cores uses three of them.
fn free_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        if (first..first.saturating_add(4)).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

fn start() -> Server {
    let data = tempfile::tempdir().expect("a folder");
    let port = free_ports();
    let metrics_port = port + 3;
    let process = Command::new(env!("CARGO_BIN_EXE_rallypoint"))
        .args(["serve", "--cores", "2", "--topic", "demo:2", "--listen", &format!("127.0.0.1:{port}")])
        .args(["--metrics", &format!("127.0.0.1:{metrics_port}")])
        .args(["--data-dir".as_ref(), data.path().as_os_str()])
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    Server { process, port, metrics_port, _data: data }
}

fn connect(port: u16) -> TcpStream {
    let began = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("set");
                return stream;
            }
            Err(error) => assert!(began.elapsed() < PATIENCE, "port {port}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn get(port: u16, path: &str) -> String {
    let mut stream = connect(port);
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Scrapes until the page has all these lines.
fn eventually(server: &Server, lines: &[&str]) {
    let began = Instant::now();
    loop {
        let page = get(server.metrics_port, "/metrics");
        let missing: Vec<_> = lines.iter().filter(|line| !page.lines().any(|found| found == **line)).collect();
        if missing.is_empty() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{missing:?} not in\n{page}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_tells_what_it_does() {
    let server = start();
    let mut stream = connect(server.port);
    ask(&mut stream, ApiKey::ApiVersions, 0, &ApiVersionsRequest::default());
    ask(&mut stream, ApiKey::FindCoordinator, 0, &FindCoordinatorRequest::default());
    let heartbeat = HeartbeatRequest { group_id: "g".into(), member_id: "m".into(), ..Default::default() };
    (0..3).for_each(|_| drop(ask(&mut stream, ApiKey::Heartbeat, 4, &heartbeat)));
    for name in ["nowhere", "no name", "demo"] {
        let topics = [MetadataRequestTopic { name: Some(name.into()), ..Default::default() }];
        ask(
            &mut stream,
            ApiKey::Metadata,
            9,
            &MetadataRequest { topics: Some(Array::Items(&topics)), ..Default::default() },
        );
    }
    let mut broken = connect(server.port);
    broken.write_all(&[0, 0, 0, 12, 0, 12, 0, 0, 0, 0, 0, 1, 255, 255, 0, 9]).expect("sent");
    assert_eq!(broken.read(&mut [0; 16]).expect("closed"), 0);
    eventually(
        &server,
        &[
            "rallypoint_connections_accepted_total 2",
            "rallypoint_connections_closed_total 1",
            "rallypoint_close_reasons_total{reason=\"malformed\"} 1",
            "rallypoint_malformed_total{reason=\"string is cut short\"} 1",
            "rallypoint_api_requests_total{api=\"ApiVersions\"} 1",
            "rallypoint_api_requests_total{api=\"FindCoordinator\"} 1",
            "rallypoint_api_requests_total{api=\"Heartbeat\"} 4",
            // Its first look-up creates the offsets topic, so it comes back empty-handed.
            "rallypoint_api_errors_total{code=\"COORDINATOR_NOT_AVAILABLE\"} 1",
            "rallypoint_api_errors_total{code=\"UNKNOWN_TOPIC_OR_PARTITION\"} 1",
            "rallypoint_api_errors_total{code=\"INVALID_TOPIC_EXCEPTION\"} 1",
            "rallypoint_groups{core=\"0\"} 0",
            "rallypoint_requests_parked{core=\"1\"} 0",
            "rallypoint_journal_state{core=\"0\"} 0",
            "rallypoint_journal_mode{core=\"0\"} 0",
            // Core 0 has made the offsets topic.
            "rallypoint_leadership_epoch{core=\"0\"} 2",
        ],
    );
    let page = get(server.metrics_port, "/metrics");
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {page}"));
        line.trim().parse().expect("a number")
    };
    assert!(value("process_resident_memory_bytes ") > 1e6);
    let turns = value("rallypoint_turns_total{core=\"0\"} ");
    let lengths = value("rallypoint_turn_seconds_count{core=\"0\"} ");
    assert!(lengths > 0.0 && turns - lengths <= 1.0, "{turns} turns, {lengths} of them over");
    // Idle cores sleep, and are well.
    assert!(get(server.metrics_port, "/healthz").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(get(server.metrics_port, "/").contains("/metrics"));
}

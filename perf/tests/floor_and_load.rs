//! The load against the floor, as processes: right answers pass, wrong ones fail the run.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output};
use std::time::Duration;

const PERF: &str = env!("CARGO_BIN_EXE_rallypoint-perf");

struct Floor(Child, String);

impl Floor {
    fn start(replies: &[&str]) -> Floor {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("bound").to_string();
        drop(free);
        let replies = replies.iter().flat_map(|reply| ["--reply", reply]);
        let floor = Command::new(PERF).args(["floor", &address, "--at-most", "60"]).args(replies).spawn();
        let floor = Floor(floor.expect("the floor starts"), address);
        for _ in 0..100 {
            if TcpStream::connect(&floor.1).is_ok() {
                return floor;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the floor does not listen");
    }

    fn load(&self, arguments: &str) -> Output {
        let arguments = arguments.replace("ADDRESS", &self.1);
        Command::new(PERF).args(arguments.split_whitespace()).output().expect("the load starts")
    }

    fn passes(&self, arguments: &str, expected: &str) {
        let output = self.load(arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expected), "{arguments}: {output:?}");
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_floor_answers_every_shape() {
    let floor = Floor::start(&["10:58", "12:16"]);
    let flags = "ADDRESS --floor --json --seconds 0.1 --run-up 100";
    for shape in ["--connections 1", "--connections 20", "--connections 3 --pipelined 64"] {
        floor.passes(&format!("load find-coordinator {flags} {shape}"), "\"reply_bytes\": 58");
        floor.passes(&format!("load heartbeat {flags} {shape}"), "\"reply_bytes\": 16");
    }
}

#[test]
fn answers_larger_than_a_buffer_are_put_together() {
    let floor = Floor::start(&["12:10000"]);
    let flags = "ADDRESS --floor --json --seconds 0.1 --run-up 100 --connections 3 --pipelined 7";
    floor.passes(&format!("load heartbeat {flags}"), "\"reply_bytes\": 10000");
}

#[test]
fn zeros_are_not_the_answers_of_a_coordinator() {
    let floor = Floor::start(&["10:58"]);
    let output = floor.load("load find-coordinator ADDRESS --seconds 0.1 --run-up 100");
    assert!(!output.status.success(), "{output:?}");
}

#[test]
fn crowds_come_and_go() {
    let floor = Floor::start(&["18:300"]);
    floor.passes("connect-storm ADDRESS --connections 200 --again --json", "\"connections\": 200");
    floor.passes("idle ADDRESS --connections 200 --seconds 0 --json", "\"connections\": 200");
}

/// Answers `before` heartbeats of one connection, nothing for the time of `stall`, then everything.
fn heartbeats_with_a_stall(mut stream: TcpStream, before: u32, stall: Duration) -> std::io::Result<()> {
    for number in 0.. {
        let mut head = [0; 12]; // size, api key, version, correlation id
        stream.read_exact(&mut head)?;
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        stream.read_exact(&mut vec![0; size as usize - 8])?;
        if number == before {
            std::thread::sleep(stall);
        }
        stream.write_all(&[&[0, 0, 0, 6], &head[8..], &[0, 0]].concat())?;
    }
    Ok(())
}

#[test]
fn a_server_that_stalls_at_the_end_of_a_run_cannot_hide_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the load connects");
        heartbeats_with_a_stall(stream, 400, Duration::from_millis(600))
    });
    let arguments = format!(
        "load heartbeat {address} --floor --json --connections 1 --pipelined 8 --rate 1000 --seconds 0.6 --run-up 0 \
         --api-version 0 --server-pid {}",
        std::process::id()
    );
    let output = Command::new(PERF).args(arguments.split_whitespace()).output().expect("the load starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let p90 = text.split("\"p90_us\": ").nth(1).and_then(|rest| rest.split(',').next()).expect("in the report");
    assert!(p90.parse::<f64>().expect("a number") > 300_000.0, "a third of the requests met the stall: {text}");
    server.join().expect("it ran").expect_err("the load closed the connection");
}

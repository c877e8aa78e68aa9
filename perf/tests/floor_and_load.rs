//! The load against the floor, as processes: right answers pass, wrong ones fail the run.

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

//! A process that runs out of descriptors. One test only: the limit is the whole process's.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, unbounded};
use net_support::{Client, Echo, PATIENCE, serve, stop};
use rallypoint::clock::Now;
use rallypoint::net::ServerSettings;
use rallypoint::shard::service::{ConnectionId, Network, Service, Session, Verdict, WriteFailure};
use rustix::process::{Resource, Rlimit, setrlimit};

const LIMIT: u64 = 400;

fn limit_descriptors() {
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    setrlimit(Resource::Nofile, limit).expect("a limit may be lowered");
}

/// Takes all descriptors but `left`.
fn exhaust(left: usize) -> Vec<File> {
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    files.truncate(files.len() - left);
    files
}

#[test]
fn accepting_rests_without_descriptors_and_keeps_a_reserve() {
    limit_descriptors();
    let server = serve(1, ServerSettings::default(), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    let mut first = Client::connect(address);
    assert_eq!(first.ask(b"a"), b"a");

    let files = exhaust(1);
    let mut waiting = Client::connect(address);
    waiting.send(b"later");
    let turns = server.counters(0).turns;
    std::thread::sleep(Duration::from_secs(1));
    let counters = server.counters(0);
    assert!(counters.accepts_suspended >= 2, "tried again by timer: {}", counters.accepts_suspended);
    assert!(counters.turns - turns < 20, "not at once: {} turns in a second", counters.turns - turns);
    assert_eq!(first.ask(b"b"), b"b", "who is there is served");
    drop(files);
    assert_eq!(waiting.receive(), b"later", "and who waits is, when there are descriptors again");

    let mut clients = Vec::new();
    let began = Instant::now();
    while server.counters(0).connections_refused.is_empty() {
        clients.push(Client::connect(address));
        assert_eq!(first.ask(b"c"), b"c");
        assert!(began.elapsed() < PATIENCE, "no connection is refused");
    }
    assert!(clients.last_mut().expect("at least one").is_ended());
    let reserve = exhaust(0).len();
    assert!(reserve >= 100, "{reserve} descriptors are left for files");
    drop(clients);
    stop(server);
    a_burst_leaves_the_reserve_too();
}

/// Connections that come while the core does something else are accepted all at once.
fn a_burst_leaves_the_reserve_too() {
    let (say, said) = unbounded();
    let (thaw, frozen) = unbounded::<()>();
    let server =
        serve(1, ServerSettings::default(), move |_| Busy { say: say.clone(), frozen: frozen.clone(), counts: false });
    let address = server.bootstrap_addresses()[0];
    let mut first = Client::connect(address);
    first.send(b"freeze");
    assert_eq!(said.recv_timeout(PATIENCE), Ok(0));
    // Each connection takes two: one of the client, one of the server.
    let room = exhaust(0).len();
    let clients: Vec<Client> = (0..room / 2 - 5).map(|_| Client::connect(address)).collect();
    first.send(b"count");
    drop(thaw);
    let reserve = said.recv_timeout(PATIENCE).expect("the core turns");
    assert!(reserve >= 100, "{reserve} descriptors are left for files, of {room}");
    drop(clients);
    stop(server);
}

/// Says how many descriptors are left, at the end of the turn in which it was asked.
struct Busy {
    say: Sender<usize>,
    frozen: Receiver<()>,
    counts: bool,
}

impl Service for Busy {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, _: ConnectionId, _: &mut Session, frame: &[u8], _: &mut Vec<u8>) -> Verdict {
        match frame {
            b"freeze" => {
                let _ = self.say.send(0);
                let _ = self.frozen.recv();
            }
            _ => self.counts = true,
        }
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, _: Now, _: &mut dyn Network) -> io::Result<()> {
        if std::mem::take(&mut self.counts) {
            let _ = self.say.send(exhaust(0).len());
        }
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

//! How much a core takes up in one turn.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io;
use std::time::{Duration, Instant};

use net_support::{Client, append, serve, stop};
use rallypoint::clock::Now;
use rallypoint::limits::{COMPLETIONS_BETWEEN_LOOKS, RECEIVE_BUDGET_US};
use rallypoint::net::ServerSettings;
use rallypoint::shard::service::{ConnectionId, Network, Service, Session, Verdict, WriteFailure};

/// Takes as many milliseconds for a request as its first byte says, and answers how many turns there were before.
#[derive(Default)]
struct Slow {
    turns: u32,
}

impl Service for Slow {
    fn begin(&mut self, _: Now) {
        self.turns += 1;
    }

    fn request(&mut self, _: ConnectionId, _: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(frame[0].into()) {}
        append(replies, &self.turns.to_be_bytes());
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, _: Now, _: &mut dyn Network) -> io::Result<()> {
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

#[test]
fn what_came_while_the_core_was_busy_is_taken_in_many_turns() {
    const { assert!(RECEIVE_BUDGET_US <= 1_000, "a request of a millisecond uses it up") };
    let count = 24 * COMPLETIONS_BETWEEN_LOOKS;
    let server = serve(1, ServerSettings::default(), |_| Slow::default());
    let address = server.bootstrap_addresses()[0];
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(address)).collect();
    clients.iter_mut().for_each(|client| _ = client.ask(&[0]));
    let mut first = Client::connect(address);
    // The core is busy while all others ask.
    first.send(&[200]);
    std::thread::sleep(Duration::from_millis(50));
    clients.iter_mut().for_each(|client| client.send(&[1]));
    first.receive();
    let mut turns: Vec<u32> = Vec::new();
    for client in &mut clients {
        turns.push(u32::from_be_bytes(client.receive().try_into().expect("four bytes")));
    }
    turns.sort_unstable();
    let most = turns.chunk_by(|one, next| one == next).map(<[u32]>::len).max();
    assert!(most <= Some(COMPLETIONS_BETWEEN_LOOKS), "{most:?} of {count} requests in one turn");
    stop(server);
}

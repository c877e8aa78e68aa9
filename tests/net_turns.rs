//! How much a core takes up in one turn.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use net_support::{Client, PATIENCE, append, framed, serve, stop};
use rallypoint::clock::Now;
use rallypoint::limits::{
    COMPLETIONS_BETWEEN_LOOKS, CONNECTION_REQUESTS_PER_TURN_MIN, CONNECTIONS_OF_A_LATE_TURN, RECEIVE_BUDGET_US,
};
use rallypoint::net::ServerSettings;
use rallypoint::shard::service::{ConnectionId, Network, Service, Session, Verdict, WriteFailure};

/// Takes as many milliseconds for a request as its first byte says, and answers how many turns there were before.
#[derive(Default)]
struct Slow {
    turns: u32,
    parked: Vec<ConnectionId>,
    answers_parked: bool,
}

/// Waits for [`ANSWER`].
const PARK: u8 = 255;

/// Lets all parked requests be answered when everything that came in is executed.
const ANSWER: u8 = 254;

impl Service for Slow {
    fn begin(&mut self, _: Now) {
        self.turns += 1;
    }

    fn request(&mut self, id: ConnectionId, _: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        match frame[0] {
            PARK => {
                self.parked.push(id);
                return Verdict::Parked;
            }
            ANSWER => self.answers_parked = true,
            _ => {}
        }
        let milliseconds = if frame[0] == ANSWER { 0 } else { frame[0] };
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(milliseconds.into()) {}
        append(replies, &self.turns.to_be_bytes());
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, _: Now, network: &mut dyn Network) -> io::Result<()> {
        if std::mem::take(&mut self.answers_parked) {
            for id in self.parked.drain(..) {
                network.answer(id, &mut |replies| append(replies, &self.turns.to_be_bytes()));
            }
        }
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

#[test]
fn what_waited_behind_answers_of_one_turn_is_executed_in_many() {
    const BEHIND: usize = 10;
    let server = serve(1, ServerSettings::default(), |_| Slow::default());
    let address = server.bootstrap_addresses()[0];
    let mut other = Client::connect(address);
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.0.set_read_timeout(Some(10 * PATIENCE)).expect("a time-out can be set");
        client.0.write_all(&[framed(&[PARK]), framed(&[1]).repeat(BEHIND)].concat()).expect("the server reads");
    }
    let bytes = (clients.len() * 5 * (1 + BEHIND)) as u64;
    let began = Instant::now();
    while server.counters(0).received_bytes < bytes {
        assert!(began.elapsed() < PATIENCE, "not all of them are parked");
        std::thread::sleep(Duration::from_millis(5));
    }
    let turn_of = |reply: Vec<u8>| u32::from_be_bytes(reply.try_into().expect("four bytes"));
    other.ask(&[ANSWER]);
    let asked = turn_of(other.ask(&[0]));
    let mut turns = Vec::new();
    for client in &mut clients {
        client.receive();
        turns.extend((0..BEHIND).map(|_| turn_of(client.receive())));
    }
    turns.sort_unstable();
    assert!(Some(&asked) < turns.last(), "{asked}: who asks meanwhile does not wait for all of them");
    let most = turns.chunk_by(|one, next| one == next).map(<[u32]>::len).max();
    // The first one may find time left, and uses it.
    let bound = BEHIND + CONNECTIONS_OF_A_LATE_TURN * CONNECTION_REQUESTS_PER_TURN_MIN as usize;
    assert!(most <= Some(bound), "{most:?} of {} requests in one turn", turns.len());
    stop(server);
}

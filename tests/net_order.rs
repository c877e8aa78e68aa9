//! The order of effects and replies: parked requests, durable replies, half-closed peers, slots used again.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use net_support::{Client, Command, Echo, Report, framed, serve, serve_scripted, stop};
use rallypoint::net::ServerSettings;

fn executed(frame: &[u8]) -> Report {
    Report::Executed(frame.to_vec())
}

#[test]
fn frames_behind_a_parked_one_wait_for_its_answer() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    let burst = [framed(b"a1"), framed(b"p2"), framed(b"a3"), framed(b"p4"), framed(b"a5")].concat();
    client.0.write_all(&burst).expect("the server reads");
    assert_eq!(client.receive(), b"a1");
    assert_eq!([script.next(), script.next()], [executed(b"a1"), executed(b"p2")]);
    client.send(b"a6");
    assert!(script.is_silent(), "nothing is executed behind a parked request");

    assert_eq!(script.answer_all(), 1);
    assert_eq!([client.receive(), client.receive()], [b"p2", b"a3"]);
    assert_eq!([script.next(), script.next()], [executed(b"a3"), executed(b"p4")]);
    assert!(script.is_silent(), "nothing is executed behind the second one either");
    assert_eq!(script.answer_all(), 1);
    assert_eq!([client.receive(), client.receive(), client.receive()], [b"p4", b"a5", b"a6"]);
    assert_eq!(client.ask(b"a7"), b"a7");
    stop(server);
}

#[test]
fn replies_behind_a_durable_one_wait_for_the_journal_but_effects_do_not() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    let frames: [&[u8]; 6] = [b"a1", b"d\x05", b"a2", b"d\x07", b"a3", b"d\x06"];
    for frame in frames {
        client.send(frame);
        assert_eq!(script.next(), executed(frame));
    }
    assert_eq!(client.receive(), b"a1");
    script.tell(Command::Durable(4));
    client.0.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out can be set");
    assert!(client.try_receive().is_err(), "nothing may leave before position 5");
    client.0.set_read_timeout(Some(net_support::PATIENCE)).expect("a time-out can be set");
    script.tell(Command::Durable(5));
    assert_eq!([client.receive(), client.receive()], [b"d\x05", b"a2"]);
    script.tell(Command::Durable(7));
    assert_eq!([client.receive(), client.receive(), client.receive()], [b"d\x07", b"a3", b"d\x06"]);
    assert_eq!(client.ask(b"d\x07"), b"d\x07", "what is durable already waits for nothing");
    stop(server);
}

#[test]
fn an_answer_behind_a_durable_reply_waits_for_it() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    client.0.write_all(&[framed(b"d\x01"), framed(b"p"), framed(b"a")].concat()).expect("the server reads");
    assert_eq!([script.next(), script.next()], [executed(b"d\x01"), executed(b"p")]);
    assert_eq!(script.answer_all(), 1);
    assert_eq!(script.next(), executed(b"a"));
    client.0.set_read_timeout(Some(Duration::from_millis(100))).expect("a time-out can be set");
    assert!(client.try_receive().is_err());
    client.0.set_read_timeout(Some(net_support::PATIENCE)).expect("a time-out can be set");
    script.tell(Command::Durable(1));
    assert_eq!(client.receive(), b"d\x01");
    assert_eq!([client.receive(), client.receive()], [b"p", b"a"]);
    stop(server);
}

#[test]
fn a_peer_that_has_said_everything_is_answered_and_then_closed() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    let said = [framed(b"a"), framed(b"p"), framed(b"d\x01"), framed(b"b")[..3].to_vec()].concat();
    client.0.write_all(&said).expect("the server reads");
    client.0.shutdown(Shutdown::Write).expect("the connection is open");
    assert_eq!(client.receive(), b"a");
    assert_eq!([script.next(), script.next()], [executed(b"a"), executed(b"p")]);
    assert!(script.is_silent());
    assert_eq!(script.answer_all(), 1);
    assert_eq!(client.receive(), b"p");
    assert_eq!(script.next(), executed(b"d\x01"));
    script.tell(Command::Durable(1));
    assert_eq!(client.receive(), b"d\x01");
    assert!(client.is_ended(), "the incomplete frame behind it is nobody's");
    assert_eq!(script.next(), Report::Closed);
    stop(server);
}

#[test]
fn earlier_replies_leave_before_a_close() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    client
        .0
        .write_all(&[framed(b"a"), framed(b"d\x01"), framed(b"c"), framed(b"a")].concat())
        .expect("the server reads");
    assert_eq!(client.receive(), b"a");
    assert_eq!([script.next(), script.next(), script.next()], [executed(b"a"), executed(b"d\x01"), executed(b"c")]);
    assert!(script.is_silent(), "nothing is executed behind it, and it waits for the journal");
    script.tell(Command::Durable(1));
    assert_eq!(client.receive(), b"d\x01");
    assert!(client.is_ended());
    assert_eq!(script.next(), Report::Closed);
    assert_eq!(server.counters(0).close_reasons, [("scripted".to_owned(), 1)]);
    stop(server);
}

#[test]
fn an_answer_for_a_connection_that_is_gone_never_meets_the_next_one() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let address = server.bootstrap_addresses()[0];
    for round in 0..50 {
        let mut gone = Client::connect(address);
        gone.send(b"p of the one that goes");
        assert_eq!(script.next(), executed(b"p of the one that goes"));
        // A reset: the server sees it at once, whatever is parked.
        socket2::SockRef::from(&gone.0).set_linger(Some(Duration::ZERO)).expect("an option can be set");
        drop(gone);
        assert_eq!(script.next(), Report::Closed);
        // The next connection has the slot, and a parked request of its own.
        let mut next = Client::connect(address);
        next.send(b"p of the next");
        assert_eq!(script.next(), executed(b"p of the next"));
        assert_eq!(script.answer_all(), 1, "round {round}: of two parked requests one has its connection");
        assert_eq!(next.receive(), b"p of the next", "round {round}");
        drop(next);
        assert_eq!(script.next(), Report::Closed);
    }
    stop(server);
}

#[test]
fn stopping_leaves_parked_requests_unanswered_but_sends_what_is_in_hand() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let address = server.bootstrap_addresses()[0];
    let (mut parked, mut durable) = (Client::connect(address), Client::connect(address));
    parked.0.write_all(&[framed(b"p"), framed(b"a")].concat()).expect("the server reads");
    assert_eq!(script.next(), executed(b"p"));
    durable.send(b"d\x01");
    assert_eq!(script.next(), executed(b"d\x01"));
    server.stop_signal().stop();
    assert!(parked.is_ended());
    assert_eq!(script.next(), Report::Closed);
    script.tell(Command::Durable(1));
    assert_eq!(durable.receive(), b"d\x01");
    assert!(durable.is_ended());
    stop(server);
}

#[test]
fn stopping_does_not_wait_for_a_journal_that_hangs() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    client.send(b"d\x01");
    assert_eq!(script.next(), executed(b"d\x01"));
    stop(server);
    assert!(client.try_receive().is_err());
}

#[test]
fn large_replies_go_out_in_parts_and_whole_and_small_ones_beside_them() {
    const LARGE: usize = 3 << 20;
    let server = serve(1, ServerSettings::default(), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    let large: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(address)).collect();
    clients.iter_mut().for_each(|client| client.send(&large));
    let mut small = Client::connect(address);
    (0..100).for_each(|_| assert_eq!(small.ask(b"small"), b"small"));
    for client in &mut clients {
        assert!(client.receive() == large, "a large reply came otherwise");
        assert_eq!(client.ask(b"next"), b"next");
    }
    stop(server);
}

#[test]
fn a_peer_that_goes_in_the_middle_of_a_large_reply_is_forgotten() {
    let server = serve(1, ServerSettings::default(), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    for _ in 0..20 {
        let mut client = Client::connect(address);
        client.send(&vec![1; 8 << 20]);
        drop(client);
    }
    let mut last = Client::connect(address);
    assert_eq!(last.ask(b"still there"), b"still there");
    let until = std::time::Instant::now() + net_support::PATIENCE;
    while server.counters(0).connections_open > 1 {
        assert!(std::time::Instant::now() < until, "{} are open", server.counters(0).connections_open);
        std::thread::sleep(Duration::from_millis(10));
    }
    stop(server);
}

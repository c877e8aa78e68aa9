//! Peers that ask for too much: too large, too many, too slow, too idle.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use net_support::{Client, Echo, PATIENCE, Report, framed, serve, serve_scripted, stop};
use rallypoint::limits;
use rallypoint::net::{NetworkLimits, ServerSettings};

fn settings(limits: NetworkLimits) -> ServerSettings {
    ServerSettings { limits, ..ServerSettings::default() }
}

/// Waits until something holds.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn frames_may_come_in_any_pieces() {
    let server = serve(1, ServerSettings::default(), |_| Echo);
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    let frames: [&[u8]; 4] = [b"one", b"2", &[3; 300], b"four"];
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
    for byte in &bytes {
        client.0.write_all(&[*byte]).expect("the server reads");
    }
    for frame in frames {
        assert_eq!(client.receive(), frame);
    }
    for cut in [1, 3, 4, 5, 7, 8, 9, 12, 200] {
        client.0.write_all(&bytes[..cut]).expect("the server reads");
        std::thread::sleep(Duration::from_millis(5));
        client.0.write_all(&bytes[cut..]).expect("the server reads");
        for frame in frames {
            assert_eq!(client.receive(), frame, "cut at {cut}");
        }
    }
    stop(server);
}

#[test]
fn frames_larger_than_a_buffer_are_put_together() {
    let limits = NetworkLimits { request_max_bytes: 3 << 20, ..NetworkLimits::default() };
    let server = serve(1, settings(limits), |_| Echo);
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    for size in [4092, 4093, 4096, 8192, 100_000, 3 << 20] {
        let frame: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
        let mut writer = client.0.try_clone().expect("a descriptor");
        let bytes = [framed(&frame), framed(b"behind")].concat();
        let writing = std::thread::spawn(move || writer.write_all(&bytes).expect("the server reads"));
        assert!(client.receive() == frame, "{size} bytes");
        assert_eq!(client.receive(), b"behind");
        writing.join().expect("the writer ends");
    }
    stop(server);
}

#[test]
fn limits_are_those_of_the_table_unless_others_are_set() {
    let limits = NetworkLimits::default();
    assert_eq!(limits.request_max_bytes, limits::REQUEST_MAX_BYTES);
    assert_eq!(limits.send_stall_max_ms, limits::SEND_STALL_MAX_MS);
}

#[test]
fn a_frame_at_the_limit_is_served_and_one_past_it_closes() {
    let limits = NetworkLimits { request_max_bytes: 1000, ..NetworkLimits::default() };
    let server = serve(1, settings(limits), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    assert_eq!(Client::connect(address).ask(&[7; 1000]), [7; 1000]);
    for size in [1001, i32::MAX, 0, -1, i32::MIN] {
        let mut client = Client::connect(address);
        client.0.write_all(&[framed(b"before"), size.to_be_bytes().to_vec()].concat()).expect("the server reads");
        assert_eq!(client.receive(), b"before", "{size}: earlier replies leave");
        assert!(client.is_ended(), "{size}: then a FIN");
    }
    let expected = [("oversized".to_owned(), 2), ("undersized".to_owned(), 3)];
    assert_eq!(server.counters(0).close_reasons, expected);
    stop(server);
}

#[test]
fn a_peer_that_does_not_read_is_not_read_and_harms_nobody() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let address = server.bootstrap_addresses()[0];
    let mut greedy = Client::connect(address);
    greedy.0.set_write_timeout(Some(Duration::from_millis(300))).expect("a time-out can be set");
    let request = framed(&[b'b'; 8000]);
    // 64 KiB of reply for each: far more than sockets and the bound hold.
    let batch = request.repeat(10);
    let mut written = 0;
    while let Ok(count) = greedy.0.write(&batch[written % batch.len()..]) {
        written += count;
        assert!(written < 64 << 20, "the server never stops reading");
    }
    eventually("suspension", || server.counters(0).receives_suspended > 0);
    let executed = script.reports.try_iter().count();
    // The reply bytes in the two sockets' buffers are the kernel's; 16 MiB is above what it lets grow.
    let bound = (limits::CONNECTION_OUTPUT_MAX_BYTES + (16 << 20)) / (64 << 10);
    assert!(executed < bound, "{executed} requests executed for a peer that reads nothing");

    let mut other = Client::connect(address);
    assert_eq!(other.ask(b"a"), b"a");

    let whole = written / request.len();
    for reply in 0..whole {
        let size = greedy.try_receive().map(|frame| frame.len());
        assert!(matches!(size, Ok(65_536)), "reply {reply} of {whole}: {size:?}, {:?}", server.counters(0));
    }
    stop(server);
}

#[test]
fn bytes_behind_a_parked_request_are_bounded() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    client.send(b"p");
    assert_eq!(script.next(), Report::Executed(b"p".to_vec()));
    client.0.set_write_timeout(Some(Duration::from_millis(300))).expect("a time-out can be set");
    let batch = framed(&[b'a'; 100]).repeat(1000);
    let mut written = 0;
    while let Ok(count) = client.0.write(&batch[written % batch.len()..]) {
        written += count;
        assert!(written < 64 << 20, "the server never stops reading");
    }
    let counters = server.counters(0);
    assert_eq!(counters.receives_suspended, 1);
    // What the kernel had handed over when the end was asked for comes on top: one batch of buffers.
    let bound = limits::CONNECTION_BACKLOG_MAX_BYTES + (256 << 10);
    assert!(counters.received_bytes < bound as u64, "{} bytes kept", counters.received_bytes);
    assert_eq!(script.answer_all(), 1);
    assert_eq!(client.receive(), b"p");
    for _ in 0..written / 104 {
        assert_eq!(client.receive(), [b'a'; 100]);
    }
    stop(server);
}

#[test]
fn a_reply_that_makes_no_progress_ends_its_connection() {
    let limits = NetworkLimits { send_stall_max_ms: 400, ..NetworkLimits::default() };
    let server = serve(1, settings(limits), |_| Echo);
    let mut client = Client::connect(server.bootstrap_addresses()[0]);
    client.0.set_write_timeout(Some(Duration::from_millis(50))).expect("a time-out can be set");
    let batch = framed(&[1; 100_000]);
    while client.0.write_all(&batch).is_ok() {}
    eventually("the close", || server.counters(0).connections_closed_stalled == 1);
    eventually("the release", || server.counters(0).connections_closed == 1);
    let mut rest = Vec::new();
    assert!(client.0.read_to_end(&mut rest).is_err(), "a reset: what was not taken is dropped");
    stop(server);
}

#[test]
fn idle_connections_are_closed_and_active_ones_are_not() {
    let limits = NetworkLimits { connections_max_idle_ms: Some(600), ..NetworkLimits::default() };
    let (server, _script) = serve_scripted(settings(limits));
    let address = server.bootstrap_addresses()[0];
    let (mut idle, mut parked, mut active) =
        (Client::connect(address), Client::connect(address), Client::connect(address));
    let began = Instant::now();
    parked.send(b"p");
    while began.elapsed() < Duration::from_millis(1_800) {
        assert_eq!(active.ask(b"a"), b"a");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.counters(0).connections_closed_idle, 2, "a parked request is not activity");
    assert!(idle.is_ended() && parked.is_ended());
    assert_eq!(active.ask(b"a"), b"a");
    stop(server);
}

#[test]
fn connections_are_counted_over_all_cores() {
    let limits = NetworkLimits { max_connections: 20, ..NetworkLimits::default() };
    let server = serve(2, settings(limits), |_| Echo);
    let mut clients: Vec<Client> = (0..20).map(|number| Client::connect(server.own_addresses(number % 2)[0])).collect();
    for client in &mut clients {
        assert_eq!(client.ask(b"a"), b"a");
    }
    for core in 0..2 {
        let mut refused = Client::connect(server.own_addresses(core)[0]);
        assert!(refused.is_ended(), "the one too many is accepted and closed");
        assert_eq!(server.counters(core).connections_refused, [("max.connections".to_owned(), 1)]);
    }
    drop(clients.pop());
    eventually("room", || (0..2).map(|core| server.counters(core).connections_closed).sum::<u64>() == 1);
    assert_eq!(Client::connect(server.bootstrap_addresses()[0]).ask(b"a"), b"a");
    stop(server);
}

#[test]
fn connections_are_counted_per_address() {
    let limits = NetworkLimits { max_connections_per_ip: 3, ..NetworkLimits::default() };
    let server = serve(2, settings(limits), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        assert_eq!(client.ask(b"a"), b"a");
    }
    assert!(Client::connect(address).is_ended());
    assert_eq!(Client::connect_from([127, 0, 0, 9], address).ask(b"a"), b"a", "another address has its own count");
    stop(server);
}

#[test]
fn what_all_connections_have_sent_and_is_not_executed_is_bounded() {
    // A core has room for two of the largest requests, however little is allowed.
    let limits = NetworkLimits { request_max_bytes: 1 << 20, queued_requests_max_bytes: 0, ..NetworkLimits::default() };
    let server = serve(1, settings(limits), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    let part = [(1i32 << 20).to_be_bytes().to_vec(), vec![7; 900_000]].concat();
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(address)).collect();
    for client in &mut clients {
        client.0.write_all(&part).expect("the server reads");
    }
    eventually("two parts", || server.counters(0).received_bytes == 2 * part.len() as u64);
    assert_eq!(server.counters(0).close_reasons, [], "they fit");
    let mut small = Client::connect(address);
    small.0.write_all(&part[..350_000]).expect("the server reads");
    eventually("the close", || server.counters(0).close_reasons == [("queued".to_owned(), 1)]);
    eventually("the release", || server.counters(0).connections_closed == 1);
    small.0.write_all(&part[350_000..]).expect("the server reads");
    small.0.write_all(&vec![7; (1 << 20) - 900_000]).expect("the server reads");
    assert_eq!(small.receive().len(), 1 << 20, "the small one was spared");
    stop(server);
}

#[test]
fn replies_that_all_connections_leave_unread_are_bounded() {
    let most = 8 << 20;
    let limits = NetworkLimits { unread_replies_max_bytes: most, ..NetworkLimits::default() };
    let (server, _script) = serve_scripted(settings(limits));
    let address = server.bootstrap_addresses()[0];
    let mut greedy: Vec<Client> = (0..20).map(|_| Client::connect(address)).collect();
    for client in &mut greedy {
        client.0.set_write_timeout(Some(Duration::from_millis(100))).expect("a time-out can be set");
        socket2::SockRef::from(&client.0).set_recv_buffer_size(4_096).expect("an option can be set");
    }
    let batch = framed(b"b").repeat(2_000);
    let began = Instant::now();
    while server.counters(0).close_reasons.is_empty() {
        assert!(began.elapsed() < 2 * PATIENCE, "no limit is met");
        for client in &mut greedy {
            let _ = client.0.write(&batch);
        }
    }
    let reasons = server.counters(0).close_reasons;
    assert_eq!((reasons.len(), &*reasons[0].0), (1, "unread"));
    assert!(reasons[0].1 < 20, "not all of them");
    assert_eq!(Client::connect(address).ask(b"a"), b"a");
    drop(greedy);
    stop(server);
}

#[test]
fn a_sender_without_end_has_its_share_of_each_turn() {
    let server = serve(1, ServerSettings::default(), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    let mut flood = Client::connect(address);
    let requests = 40_000;
    let mut reader = Client(flood.0.try_clone().expect("a descriptor"));
    let reading = std::thread::spawn(move || (0..requests).all(|_| reader.receive() == b"a"));
    let before = server.counters(0).turns;
    flood.0.write_all(&framed(b"a").repeat(requests)).expect("the server reads");
    assert!(reading.join().expect("replies"), "all are answered, in order");
    let turns = server.counters(0).turns - before;
    let least = requests as u64 / u64::from(limits::CONNECTION_REQUESTS_PER_TURN);
    assert!(turns >= least, "{turns} turns for {requests} requests of one connection");
    stop(server);
}

#[test]
fn connections_that_come_at_once_are_taken_up_in_turns() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let address = server.bootstrap_addresses()[0];
    let thaw = script.freeze();
    let before = server.counters(0).turns;
    let mut clients: Vec<Client> = (0..limits::ADMISSIONS_PER_TURN * 3 + 1).map(|_| Client::connect(address)).collect();
    drop(thaw);
    for client in &mut clients {
        assert_eq!(client.ask(b"a"), b"a");
    }
    assert!(server.counters(0).turns - before >= 4);
    stop(server);
}

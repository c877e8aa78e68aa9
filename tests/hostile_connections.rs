//! Peers that abuse their connections: the server beside them goes on, its memory is bounded, and each abuse ends at a limit
//! that is logged. What is printed (`--nocapture`) is the measurement; what is asserted holds on a busy machine too.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod hostile_support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::time::{Duration, Instant};

use hostile_support::{
    Client, MIB, Member, NONE, Server, compare, eventually, flood, frame, join_request, my_turn, read, scale,
};
use rallypoint::limits;
use rallypoint::wire::ApiKey;
use rallypoint::wire::api_versions::ApiVersionsRequest;
use rallypoint::wire::heartbeat::HeartbeatResponse;
use rallypoint::wire::join_group::JoinGroupResponse;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LOADED: Duration = Duration::from_millis(1_000);

fn api_versions() -> Vec<u8> {
    frame(ApiKey::ApiVersions, 0, &ApiVersionsRequest::default())
}

/// Whether a connection is served.
fn is_served(client: &mut Client) -> bool {
    client.0.write_all(&api_versions()).is_ok() && client.try_receive().is_ok()
}

/// The journal prepares its next segments while a test goes on.
const JOURNAL_FILES: usize = 8;

#[test]
fn peers_that_never_read() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let peers = 20 * scale();
    let batch = api_versions().repeat(500);
    let (clients, seen) = compare(&server, "asks on and never reads", || {
        let mut clients: Vec<Client> = (0..peers).map(|_| Client::connect(server.address)).collect();
        flood(&mut clients, &batch, 256 * MIB);
        clients
    });
    // By now the server reads them no more.
    compare(&server, "never reads", || std::thread::sleep(LOADED / 2));
    // What a peer may have unsent, the reply that passed it, its backlog, and buffers that grow by doubling.
    let each = 2 * (limits::CONNECTION_OUTPUT_MAX_BYTES + 2 * limits::CONNECTION_BACKLOG_MAX_BYTES);
    assert!(seen.rss_growth() < peers * each + 8 * MIB, "{} bytes for {peers} peers", seen.rss_growth());
    drop(clients);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn peers_that_send_a_byte_now_and_then() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let bytes = api_versions();
    compare(&server, "a byte now and then", || {
        let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(server.address)).collect();
        for byte in &bytes {
            clients.iter_mut().for_each(|client| client.send(&[*byte]));
            std::thread::sleep(Duration::from_millis(50));
        }
        for client in &mut clients {
            client.receive();
        }
    });
    server.is_well();
}

#[test]
fn peers_that_close_their_half() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let descriptors = server.descriptors();
    let mut first = Client::of_coordinator(server.address, "halves");
    Member::found(&mut first, "halves", 2_000);
    compare(&server, "half-closed", || {
        let began = Instant::now();
        while began.elapsed() < LOADED {
            let mut client = Client::connect(server.address);
            client.send(&api_versions());
            client.0.shutdown(Shutdown::Write).expect("it is connected");
            client.receive();
            assert!(client.is_ended(), "nothing more can come from a peer that has ended");
        }
        // One whose join waits for another member, which never comes back and loses its session.
        let mut parked = Client::connect(server.address);
        parked.send(&frame(ApiKey::JoinGroup, 3, &join_request("halves", 6_000).write()));
        parked.0.shutdown(Shutdown::Write).expect("it is connected");
        let reply = parked.receive();
        assert_eq!(read::<JoinGroupResponse<'_>>(&reply, ApiKey::JoinGroup, 3).error_code, NONE);
        assert!(parked.is_ended());
    });
    drop(first);
    eventually("the release", || server.descriptors() <= descriptors + JOURNAL_FILES);
    server.is_well();
}

/// As many as the limit of open files lets a client and a server have.
fn idle_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    allowed.saturating_sub(1_000).min(15_000) as usize
}

#[test]
fn very_many_idle_connections() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let count = idle_connections();
    let (clients, seen) = compare(&server, "idle connections", || {
        // From several addresses: one has not many more ports than these, and other tests use some.
        let source = |number: usize| Ipv4Addr::new(127, 0, 0, 2 + (number / 2_000) as u8);
        (0..count).map(|number| Client::connect_from(source(number), server.address)).collect::<Vec<_>>()
    });
    eventually("all of them", || server.descriptors() >= count);
    compare(&server, "idle connections, all there", || std::thread::sleep(LOADED / 2));
    let each = server.rss_bytes().saturating_sub(seen.rss_before) / count;
    println!("{count} connections, {each} bytes of RSS for each");
    assert!(each < 1_024, "{each} bytes of RSS for each idle connection");
    assert!(is_served(&mut Client::connect(server.address)));
    drop(clients);
    eventually("the release", || server.descriptors() < 200);
    server.is_well();
}

#[test]
fn peers_that_come_and_go() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let descriptors = server.descriptors();
    let bytes = api_versions();
    let (connects, seen) = compare(&server, "comes and goes", || {
        let began = Instant::now();
        let mut connects = 0;
        while began.elapsed() < LOADED * scale() as u32 {
            let mut client = Client::connect(server.address);
            match connects % 4 {
                0 => {}
                1 => client.send(&bytes[..7]),
                2 => client.send(&bytes),
                _ => {
                    client.send(&bytes.repeat(50));
                    // Unread replies make this a reset.
                    std::thread::yield_now();
                }
            }
            connects += 1;
        }
        connects
    });
    println!("{connects} connections came and went");
    eventually("the release", || server.descriptors() <= descriptors + JOURNAL_FILES);
    assert!(seen.rss_growth() < 32 * MIB, "{} bytes", seen.rss_growth());
    server.is_well();
}

#[test]
fn sizes_that_are_only_announced() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let (waiting, seen) = compare(&server, "announced", || {
        let mut refused = Client::connect(server.address);
        refused.send(&(1i32 << 30).to_be_bytes());
        assert!(refused.is_ended(), "1 GiB is above the limit");
        let announce = |size: usize| {
            let mut client = Client::connect(server.address);
            client.send(&(size as i32).to_be_bytes());
            client.send(&[0; 1_000]);
            client
        };
        assert!(announce(limits::REQUEST_MAX_BYTES + 1).is_ended());
        let waiting: Vec<Client> = (0..20 * scale()).map(|_| announce(limits::REQUEST_MAX_BYTES)).collect();
        std::thread::sleep(Duration::from_millis(500));
        waiting
    });
    assert!(server.has_logged("oversized frame: 1073741824 bytes announced, 104857600 allowed"), "{}", server.log());
    assert!(seen.rss_growth() < 8 * MIB, "{} bytes for nothing but announcements", seen.rss_growth());
    for client in &waiting {
        client.0.set_nonblocking(true).expect("an option can be set");
        let waits = (&client.0).read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(waits, "the rest of a frame at the limit is waited for");
    }
    server.is_well();
}

#[test]
fn requests_without_end_behind_a_parked_join() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let peers = 20 * scale();
    let mut founders = Client::of_coordinator(server.address, "any");
    let groups: Vec<String> = (0..peers).map(|number| format!("parked-{number}")).collect();
    let members: Vec<Member> = groups.iter().map(|group| Member::found(&mut founders, group, 60_000)).collect();
    let heartbeat = frame(ApiKey::Heartbeat, 3, &members[0].heartbeat());
    let (parked, seen) = compare(&server, "pipelined behind a parked join", || {
        let park = |group: &String| {
            let mut client = Client::connect(server.address);
            client.send(&frame(ApiKey::JoinGroup, 3, &join_request(group, 30_000).write()));
            client
        };
        let mut clients: Vec<Client> = groups.iter().map(park).collect();
        let written = flood(&mut clients, &heartbeat.repeat(100), 64 * MIB);
        clients.into_iter().zip(written).collect::<Vec<_>>()
    });
    // What the kernel had handed over when the end was asked for comes on top, and buffers grow by doubling.
    let each = 2 * (limits::CONNECTION_BACKLOG_MAX_BYTES + 256 * 1_024);
    assert!(seen.rss_growth() < peers * each + 8 * MIB, "{} bytes for {peers} peers", seen.rss_growth());
    // The founders leave: the joins are answered, and every request behind them is too.
    for ((mut client, written), founder) in parked.into_iter().zip(&members) {
        founder.leave(&mut founders);
        let reply = client.receive();
        assert_eq!(read::<JoinGroupResponse<'_>>(&reply, ApiKey::JoinGroup, 3).error_code, NONE);
        client.receive_many(written / heartbeat.len(), |reply| {
            read::<HeartbeatResponse>(reply, ApiKey::Heartbeat, 3);
        });
    }
    server.is_well();
}

#[test]
fn idle_connections_are_closed_with_a_line_in_the_log() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[("connections.max.idle.ms", "500")]);
    let mut client = Client::connect(server.address);
    assert!(client.is_ended());
    eventually("a line", || server.has_logged("reason=\"idle for 500 ms (connections.max.idle.ms)\""));
    // What is counted by reasons is what peers have done.
    assert_eq!(server.metric("rallypoint_close_reasons_total{"), 0.0);
    assert_eq!(server.metric("rallypoint_connections_closed_idle_total"), 1.0);
    server.is_well();
}

#[test]
fn more_connections_than_are_allowed() {
    let _turn = my_turn();
    let mut server = Server::start(2, &[("max.connections", "300")]);
    let ((), _) = compare(&server, "max.connections", || {
        let mut clients: Vec<Client> = (0..400).map(|_| Client::connect(server.address)).collect();
        let served = clients.iter_mut().map(is_served).filter(|is_served| *is_served).count();
        assert!((150..=300).contains(&served), "{served} are served beside 64 good ones and their bootstraps");
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            assert!(!is_served(&mut Client::connect(server.address)));
        }
        drop(clients);
        eventually("room", || is_served(&mut Client::connect(server.address)));
    });
    assert!(server.has_logged("a connection was refused limit=\"max.connections\""), "{}", server.log());
    server.is_well();
}

#[test]
fn more_connections_of_one_address_than_are_allowed() {
    let _turn = my_turn();
    let mut server = Server::start(2, &[("max.connections.per.ip", "200")]);
    let (clients, _) = compare(&server, "max.connections.per.ip", || {
        let mut clients: Vec<Client> = (0..300).map(|_| Client::connect(server.address)).collect();
        let served = clients.iter_mut().map(is_served).filter(|is_served| *is_served).count();
        assert!((50..=200 - 64).contains(&served), "{served} are served beside 64 good ones and their bootstraps");
        let began = Instant::now();
        while began.elapsed() < LOADED {
            assert!(Client::connect(server.address).is_ended());
        }
        clients
    });
    assert!(server.has_logged("a connection was refused limit=\"max.connections.per.ip\""), "{}", server.log());
    let lines = server.log().matches("a connection was refused").count();
    assert!(lines < 100, "{lines} lines in a second: a peer must not fill the log");
    drop(clients);
    eventually("room", || is_served(&mut Client::connect(server.address)));
    server.is_well();
}

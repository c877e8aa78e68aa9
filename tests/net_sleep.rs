//! How a core sleeps: for long when there is nothing to do; and what it writes to files.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use net_support::{Client, Command, Echo, Report, serve, serve_scripted, stop};
use rallypoint::net::ServerSettings;

#[test]
fn an_idle_core_sleeps() {
    let server = serve(2, ServerSettings::default(), |_| Echo);
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(server.bootstrap_addresses()[0])).collect();
    for client in &mut clients {
        assert_eq!(client.ask(b"a"), b"a");
    }
    std::thread::sleep(Duration::from_millis(100));
    let turns = || [0, 1].map(|core| server.counters(core).turns);
    let before = turns();
    std::thread::sleep(Duration::from_secs(1));
    for (core, (before, after)) in before.into_iter().zip(turns()).enumerate() {
        let turns = after - before;
        assert!(turns < 20, "core {core} turned {turns} times in a second with nothing to do");
    }
    assert_eq!(clients[0].ask(b"b"), b"b");
    stop(server);
}

#[test]
fn writes_are_synced_and_failures_told() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let mut file = tempfile::tempfile().expect("a file");
    let data: Vec<u8> = (0..3_000_000u32).map(|index| (index % 253) as u8).collect();
    script.tell(Command::Write(file.as_raw_fd(), 4096, data.clone(), 7));
    assert_eq!(script.next(), Report::Written(7, Ok(())));
    script.tell(Command::Write(file.as_raw_fd(), 0, vec![1; 4096], 8));
    assert_eq!(script.next(), Report::Written(8, Ok(())));
    let mut written = Vec::new();
    file.read_to_end(&mut written).expect("the file can be read");
    assert!(written[..4096] == [1; 4096] && written[4096..] == data);

    let read_only = std::fs::File::open("/dev/null").expect("it exists");
    script.tell(Command::Write(read_only.as_raw_fd(), 0, vec![1; 10], 9));
    assert!(matches!(script.next(), Report::Written(9, Err(_))));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it exists");
    script.tell(Command::Write(full.as_raw_fd(), 0, vec![1; 10], 10));
    assert_eq!(script.next(), Report::Written(10, Err(std::io::ErrorKind::StorageFull)));
    stop(server);
}

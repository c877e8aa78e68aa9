//! What connections cost in memory. One test only: the allocator counts for the whole process.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use net_support::{Client, PATIENCE, Report, framed, serve_scripted, stop};
use rallypoint::net::ServerSettings;

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live_bytes() -> usize {
    LIVE_BYTES.load(Ordering::Relaxed)
}

#[test]
fn idle_connections_are_cheap_and_announced_bytes_are_free() {
    const CONNECTIONS: usize = 3_000;
    let (server, script) = serve_scripted(ServerSettings::default());
    let address = server.bootstrap_addresses()[0];
    let mut clients = Vec::with_capacity(CONNECTIONS);
    // The core's own memory is there when it has answered something.
    assert_eq!(Client::connect(address).ask(b"hello"), b"hello");
    assert_eq!([script.next(), script.next()], [Report::Executed(b"hello".to_vec()), Report::Closed]);
    let before = live_bytes();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(address);
        assert_eq!(client.ask(b"hello"), b"hello");
        assert_eq!(script.next(), Report::Executed(b"hello".to_vec()));
        clients.push(client);
    }
    let each = (live_bytes() - before) / CONNECTIONS;
    println!("{each} bytes for each idle connection");
    assert!(each < 400, "{each} bytes for each idle connection");

    let before = live_bytes();
    for client in &mut clients {
        client.0.write_all(&100_000_000i32.to_be_bytes()).expect("the server reads");
        client.0.write_all(&[7; 100]).expect("the server reads");
    }
    let expected = 9 + (9 + 104) * CONNECTIONS as u64;
    let began = std::time::Instant::now();
    while server.counters(0).received_bytes < expected {
        assert!(began.elapsed() < PATIENCE, "not all bytes arrived");
        std::thread::sleep(Duration::from_millis(10));
    }
    let each = (live_bytes() - before) / CONNECTIONS;
    println!("{each} bytes for each connection that announced 100 MB and sent 104 bytes");
    assert!(each < 300, "{each} bytes for each connection that announced 100 MB and sent 104 bytes");

    let mut large = Client::connect(address);
    let before = live_bytes();
    let frame = framed(&vec![b'a'; 10 << 20]);
    large.0.write_all(&frame).expect("the server reads");
    assert_eq!(large.receive().len(), 10 << 20);
    drop((frame, script));
    let kept = live_bytes().saturating_sub(before);
    assert!(kept < 100_000, "{kept} bytes are kept after a large frame and its reply");
    drop(clients);
    stop(server);
}

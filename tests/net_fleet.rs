//! Very many connections at once.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use net_support::{Echo, framed, serve, serve_scripted, stop};
use rallypoint::net::ServerSettings;
use rallypoint::preflight;
use rallypoint::ring::RingSettings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

const SHORTLY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The tests want most of the descriptors that there are.
static DESCRIPTORS: Mutex<()> = Mutex::new(());

/// As many connections as `wanted`, or as the limit on open files lets one process have at both ends; 4,000 at least.
fn fleet_size(wanted: usize) -> usize {
    assert!(preflight::examine_machine(1, wanted).can_serve());
    let size = wanted.min((preflight::descriptor_ceiling() as usize - 300) / 2);
    assert!(size >= 4_000, "raise the limit on open files (ulimit -n 20000)");
    size
}

/// Connects `count` sockets at once, from many loopback addresses.
fn connect_all(count: usize, address: SocketAddr, within: Duration) -> Vec<Socket> {
    let by = Instant::now() + within;
    let sockets: Vec<Socket> = (0..count).map(|number| begin(number, address)).collect();
    when_ready(&sockets, PollFlags::OUT, by, |socket| {
        let error = socket.take_error().expect("an option can be read");
        assert!(error.is_none(), "{error:?}");
        true
    });
    sockets
}

/// Begins a connection without waiting for it.
fn begin(number: usize, address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a descriptor");
    socket.set_nonblocking(true).expect("an option can be set");
    let source = SocketAddr::from(([127, 0, 1, (number % 200) as u8], 0));
    socket.bind(&SockAddr::from(source)).expect("loopback is a whole network");
    if let Err(error) = socket.connect(&SockAddr::from(address)) {
        assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS), "{error}");
    }
    socket
}

/// Calls `each` for sockets that are ready, until it has said of all that they are done.
fn when_ready(sockets: &[Socket], events: PollFlags, by: Instant, mut each: impl FnMut(&Socket) -> bool) {
    let mut waiting: Vec<&Socket> = sockets.iter().collect();
    while !waiting.is_empty() {
        assert!(Instant::now() < by, "{} of {} sockets are not done in time", waiting.len(), sockets.len());
        let mut polled: Vec<PollFd<'_>> = waiting.iter().map(|socket| PollFd::new(*socket, events)).collect();
        poll(&mut polled, Some(&SHORTLY)).expect("sockets can be polled");
        let mut is_ready = polled.iter().map(|state| !state.revents().is_empty());
        waiting.retain(|socket| !(is_ready.next() == Some(true) && each(socket)));
    }
}

#[test]
fn ten_thousand_connects_at_once_succeed() {
    let _guard = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = fleet_size(10_000);
    let server = serve(2, ServerSettings::default(), |_| Echo);
    let began = Instant::now();
    let fleet = connect_all(count, server.bootstrap_addresses()[0], Duration::from_secs(5));
    println!("{count} connects in {:?}", began.elapsed());
    drop(fleet);
    stop(server);
}

#[test]
fn a_fleet_that_sends_at_once_is_answered_out_of_few_buffers() {
    let _guard = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    answer_fleet(fleet_size(15_000), 256);
}

#[test]
fn receives_that_find_no_buffer_are_armed_again_in_turn() {
    let _guard = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
    // Newer kernels run about 20 completions at a time, so that 256 buffers are never short.
    let starved = answer_fleet(4_000, 8);
    assert!(starved > 0, "8 buffers were enough: this test shows nothing");
}

/// Lets `count` connections send while the server sleeps, and then waits for all replies. How often a receive found no
/// buffer.
fn answer_fleet(count: usize, buffers: u16) -> u64 {
    let ring = RingSettings { buffers, ..RingSettings::default() };
    let (server, script) = serve_scripted(ServerSettings { ring, ..ServerSettings::default() });
    let fleet = connect_all(count, server.bootstrap_addresses()[0], Duration::from_secs(10));
    let began = Instant::now();
    while server.counters(0).connections_accepted < count as u64 {
        assert!(began.elapsed() < Duration::from_secs(5), "not all connections are accepted");
        std::thread::sleep(Duration::from_millis(10));
    }
    let thaw = script.freeze();
    let request = framed(b"a request of ordinary size, which an ordinary buffer holds");
    for socket in &fleet {
        assert_eq!(socket.send(&request).expect("the kernel takes it"), request.len());
    }
    drop(thaw);
    let began = Instant::now();
    when_ready(&fleet, PollFlags::IN, began + Duration::from_secs(5), |mut socket| {
        let mut reply = [0; 128];
        let size = socket.read(&mut reply).expect("a reply");
        assert_eq!(reply[..size], request);
        true
    });
    let counters = server.counters(0);
    println!("{count} replies in {:?}, receives starved: {}", began.elapsed(), counters.receives_starved);
    assert_eq!(counters.requests, count as u64);
    drop(fleet);
    stop(server);
    counters.receives_starved
}

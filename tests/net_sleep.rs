//! How a core sleeps: not at all when there is work, for long when there is none, and through glommio when glommio works.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam::channel::{Sender, unbounded};
use glommio::io::BufferedFile;
use net_support::{Client, Command, Echo, Report, framed, serve, serve_scripted, stop};
use rallypoint::net::ServerSettings;
use rallypoint::ring::outstanding;

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

/// Runs 50 timers of 1 ms and 20 writes with fdatasync as glommio tasks on the core; the medians come back.
fn measure(done: Sender<[Duration; 2]>) -> Command {
    Command::Run(Box::new(move || {
        let guard = outstanding::begin();
        let work = async move {
            let mut timers = Vec::new();
            for _ in 0..50 {
                let began = Instant::now();
                glommio::timer::sleep(Duration::from_millis(1)).await;
                timers.push(began.elapsed());
            }
            let path = std::env::temp_dir().join(format!("rallypoint-sleep-{}", std::process::id()));
            let file = BufferedFile::create(&path).await.expect("a file");
            let mut syncs = Vec::new();
            for round in 0..20 {
                let began = Instant::now();
                file.write_at(vec![1; 4096], round * 4096).await.expect("a write");
                file.fdatasync().await.expect("a sync");
                syncs.push(began.elapsed());
            }
            file.close().await.expect("a close");
            std::fs::remove_file(&path).expect("the file is there");
            let _ = done.send([timers, syncs].map(|mut times: Vec<Duration>| {
                times.sort();
                times[times.len() / 2]
            }));
            drop(guard);
        };
        glommio::spawn_local(work).detach();
    }))
}

#[test]
fn glommio_gets_its_turns_while_the_ring_is_saturated() {
    let (server, script) = serve_scripted(ServerSettings::default());
    let (done, times) = unbounded();
    script.tell(measure(done.clone()));
    let idle = times.recv_timeout(Duration::from_secs(5)).expect("glommio works on an idle core");

    let is_over = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..4)
        .map(|_| {
            let (mut client, is_over) = (Client::connect(server.bootstrap_addresses()[0]), is_over.clone());
            let batch = framed(&[b'a'; 60]).repeat(64);
            std::thread::spawn(move || {
                let mut replies = vec![0; batch.len()];
                while !is_over.load(Ordering::Relaxed) {
                    client.0.write_all(&batch).expect("the server reads");
                    client.0.read_exact(&mut replies).expect("the server answers");
                }
            })
        })
        .collect();
    while server.counters(0).requests < 10_000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = server.counters(0).requests;
    script.tell(measure(done));
    let busy = times.recv_timeout(Duration::from_secs(10)).expect("glommio works on a busy core");
    let requests = server.counters(0).requests - before;
    is_over.store(true, Ordering::Relaxed);
    loads.into_iter().for_each(|load| load.join().expect("a client ends"));
    println!("1 ms timer, write + fdatasync: idle {idle:?}, busy {busy:?} beside {requests} requests");
    for (idle, busy) in idle.into_iter().zip(busy) {
        // A disk of memory syncs in microseconds; the turns that glommio gets are half a millisecond apart.
        assert!(busy < idle.max(Duration::from_millis(1)) * 10, "{busy:?} on a busy core, {idle:?} on an idle one");
    }
    assert!(requests > 1_000, "the core was not busy");
    let turns = server.counters(0).turns;
    std::thread::sleep(Duration::from_millis(500));
    assert!(server.counters(0).turns - turns < 10, "the core sleeps in its own ring again");
    stop(server);
}

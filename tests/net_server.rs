//! Servers as a whole: starting, failing, restarting, addresses, deadlines.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net_support::{ANY, Client, Command, Echo, PATIENCE, append, framed, serve, serve_scripted, stop};
use rallypoint::clock::Now;
use rallypoint::net::{CoreFailure, CorePlan, ServerSettings, StartError, start};
use rallypoint::ring::{RingSettings, Waker};
use rallypoint::shard::service::{ConnectionId, Network, Service, Session, Verdict, WriteFailure};

/// Answers with what it knows of the peer, turns every 50 ms, and panics when asked to.
#[derive(Default)]
struct Nosy {
    deadline_ms: u64,
    turns_due: Arc<Mutex<Vec<u64>>>,
}

impl Service for Nosy {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, _: ConnectionId, session: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        assert_ne!(frame, b"panic", "as asked");
        append(replies, format!("{} {}", session.listener.0, session.peer).as_bytes());
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, now: Now, _: &mut dyn Network) -> io::Result<()> {
        if now.monotonic_ms >= self.deadline_ms {
            self.turns_due.lock().expect("nobody panics").push(now.monotonic_ms - self.deadline_ms);
            self.deadline_ms = now.monotonic_ms + 50;
        }
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        Some(self.deadline_ms)
    }
}

/// Has to write until then, and turns every 20 ms.
struct Writing {
    until: Option<Instant>,
    now_ms: u64,
}

impl Service for Writing {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, _: ConnectionId, _: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        append(replies, frame);
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, now: Now, _: &mut dyn Network) -> io::Result<()> {
        self.now_ms = now.monotonic_ms;
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        Some(self.now_ms + 20)
    }

    fn has_to_write(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

fn plan<F>(service: F) -> CorePlan<F> {
    CorePlan { cpu: None, own: Vec::new(), waker: Waker::new().expect("a descriptor"), service }
}

fn listening_on(address: SocketAddr) -> ServerSettings {
    ServerSettings { bootstrap: vec![address], ..ServerSettings::default() }
}

#[test]
fn a_second_server_is_refused_and_a_restart_is_not() {
    for cores in [1, 2] {
        let plans = || (0..cores).map(|_| plan(async |_| Ok(Echo))).collect();
        let first = start(listening_on(ANY), plans()).expect("a free port");
        let address = first.bootstrap_addresses()[0];
        let error = start(listening_on(address), plans()).expect_err("somebody listens there");
        assert!(
            matches!(error, StartError::Listen(_)) && error.to_string().contains("in use by another process"),
            "{error}"
        );
        let mut client = Client::connect(address);
        assert_eq!(client.ask(b"a"), b"a");
        // The server closes first: its end of the connection lingers in TIME_WAIT.
        stop(first);
        assert!(client.is_ended());
        let second = start(listening_on(address), plans()).expect("TIME_WAIT does not hold the port");
        assert_eq!(Client::connect(address).ask(b"b"), b"b");
        stop(second);
    }
}

#[test]
fn a_core_that_panics_takes_the_server_with_it() {
    let server = serve(2, ServerSettings::default(), |_| Nosy::default());
    let mut client = Client::connect(server.own_addresses(1)[0]);
    client.send(b"panic");
    assert!(client.try_receive().is_err());
    assert!(matches!(server.join(), Err(CoreFailure::Panicked(1))));
}

#[test]
fn a_service_that_cannot_be_made_takes_the_server_with_it() {
    let make = |context: rallypoint::net::CoreContext| async move {
        if context.core == 1 { Err(io::Error::other("no data")) } else { Ok(Echo) }
    };
    let server = start(listening_on(ANY), vec![plan(make), plan(make)]).expect("the ports are free");
    let error = server.join().expect_err("core 1 cannot run");
    assert_eq!(error.to_string(), "core 1 failed: no data");
}

/// Says when it goes whether its core still listens.
struct Failing(Option<SocketAddr>, crossbeam::channel::Sender<bool>);

impl Service for Failing {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, _: ConnectionId, _: &mut Session, frame: &[u8], _: &mut Vec<u8>) -> Verdict {
        self.0 = std::str::from_utf8(frame).expect("text").parse().ok();
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, _: Now, _: &mut dyn Network) -> io::Result<()> {
        if self.0.is_some() { Err(io::Error::other("as asked")) } else { Ok(()) }
    }

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.is_some_and(|address| std::net::TcpStream::connect(address).is_ok()));
    }
}

#[test]
fn a_service_that_fails_goes_after_the_ring_that_writes_its_files() {
    let (listens, told) = crossbeam::channel::unbounded();
    let server = serve(1, ServerSettings::default(), move |_| Failing(None, listens.clone()));
    let address = server.bootstrap_addresses()[0];
    Client::connect(address).send(address.to_string().as_bytes());
    assert_eq!(told.recv_timeout(PATIENCE), Ok(false), "what the core had is gone by then");
    assert_eq!(server.join().expect_err("the service failed").to_string(), "core 0 failed: as asked");
}

#[test]
fn a_stop_that_waits_for_a_write_sleeps() {
    let (server, script) = serve_scripted(ServerSettings::default());
    // Nobody reads it: the write does not end.
    let (_reader, writer) = io::pipe().expect("a pipe");
    script.tell(Command::Write(writer.as_raw_fd(), 0, vec![1; 1 << 20], 1));
    assert_eq!(Client::connect(server.bootstrap_addresses()[0]).ask(b"a"), b"a");
    let metrics = server.metrics();
    let before = metrics[0].snapshot().turns;
    stop(server);
    let turns = metrics[0].snapshot().turns - before;
    assert!(turns < 50, "{turns} turns of a core with nothing to do");
}

#[test]
fn peers_are_named_as_people_name_them() {
    if !std::path::Path::new("/proc/net/if_inet6").exists() {
        println!("this machine has no IPv6");
        return;
    }
    let any6: SocketAddr = "[::]:0".parse().expect("an address");
    let settings = ServerSettings { bootstrap: vec![ANY, any6], ..ServerSettings::default() };
    let server = start(settings, vec![plan(async |_| Ok(Nosy::default()))]).expect("the ports are free");
    let port = server.bootstrap_addresses()[1].port();
    for (target, index, shown) in [
        (server.bootstrap_addresses()[0], "0", "127.0.0.1:"),
        (SocketAddr::from(([127, 0, 0, 1], port)), "1", "127.0.0.1:"),
        (format!("[::1]:{port}").parse().expect("an address"), "1", "[::1]:"),
    ] {
        let mut client = Client::connect(target);
        let local = client.0.local_addr().expect("it is connected");
        let expected = format!("{index} {shown}{}", local.port());
        assert_eq!(String::from_utf8(client.ask(b"who")).expect("text"), expected);
    }
    stop(server);
}

#[test]
fn the_service_turns_when_it_is_due() {
    let late = Arc::new(Mutex::new(Vec::new()));
    let turns_due = late.clone();
    let make = async move |_| Ok(Nosy { deadline_ms: rallypoint::net::now().monotonic_ms, turns_due });
    let server = start(listening_on(ANY), vec![plan(make)]).expect("a free port");
    let began = Instant::now();
    while late.lock().expect("nobody panics").len() < 10 {
        assert!(began.elapsed() < PATIENCE, "ten turns of 50 ms took too long");
        std::thread::sleep(Duration::from_millis(20));
    }
    let turns = server.counters(0).turns;
    assert!(turns < 40, "{turns} turns for ten that were due");
    stop(server);
    let mut late = late.lock().expect("nobody panics").clone();
    late.sort_unstable();
    assert!(late[late.len() / 2] <= 20, "turns were late by {late:?} ms");
}

#[test]
fn a_ring_that_is_far_too_small_serves_all_the_same() {
    let ring = RingSettings { submissions: 8, completions: 16, buffers: 4, buffer_bytes: 32 };
    let (server, script) = serve_scripted(ServerSettings { ring, ..ServerSettings::default() });
    let address = server.bootstrap_addresses()[0];
    let mut clients: Vec<Client> = (0..300).map(|_| Client::connect(address)).collect();
    for round in 0..3u8 {
        let thaw = script.freeze();
        let frame = [round; 100];
        for client in &mut clients {
            client.0.set_nodelay(true).expect("an option can be set");
            io::Write::write_all(&mut client.0, &framed(&frame).repeat(3)).expect("the kernel takes it");
        }
        drop(thaw);
        for client in &mut clients {
            for _ in 0..3 {
                assert_eq!(client.receive(), frame);
            }
        }
    }
    stop(server);
}

#[test]
fn connections_that_come_and_go_get_their_own_replies_only() {
    let server = serve(2, ServerSettings::default(), |_| Echo);
    let address = server.bootstrap_addresses()[0];
    let threads: Vec<_> = (0..4u32)
        .map(|thread| {
            std::thread::spawn(move || {
                for round in 0..400u32 {
                    let frame = [thread.to_be_bytes(), round.to_be_bytes()].concat().repeat(10);
                    let mut client = Client::connect(address);
                    client.send(&frame);
                    if round % 3 == 0 {
                        continue;
                    }
                    assert_eq!(client.receive(), frame);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("its replies are its own"));
    let began = Instant::now();
    let open =
        || (0..2).map(|core| server.counters(core)).map(|c| c.connections_accepted - c.connections_closed).sum::<u64>();
    while open() > 0 {
        assert!(began.elapsed() < PATIENCE, "{} connections are not released", open());
        std::thread::sleep(Duration::from_millis(10));
    }
    stop(server);
}

#[test]
fn a_core_that_stops_goes_on_with_what_it_has_to_write_but_not_for_ever() {
    const STOP_MAX: Duration = Duration::from_secs(3);
    let began = Instant::now();
    let ends = Duration::from_secs(1);
    let server = serve(1, ServerSettings::default(), move |_| Writing { until: Some(began + ends), now_ms: 0 });
    stop(server);
    assert!((ends..STOP_MAX).contains(&began.elapsed()), "{:?}", began.elapsed());
    let server = serve(1, ServerSettings::default(), |_| Writing { until: None, now_ms: 0 });
    let began = Instant::now();
    stop(server);
    assert!((STOP_MAX..2 * STOP_MAX).contains(&began.elapsed()), "{:?}", began.elapsed());
}

//! The ring by itself, on real sockets and files.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::*;

const KEY: Key = Key { slot: 3, generation: 9 };
const SMALL: RingSettings = RingSettings { submissions: 8, completions: 16, buffers: 4, buffer_bytes: 64 };

fn ring() -> (Ring, Waker) {
    let waker = Waker::new().expect("a descriptor");
    (Ring::new(SMALL, waker.clone()).expect("io_uring is allowed"), waker)
}

fn now_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    (near, listener.accept().expect("one is waiting").0)
}

/// Turns the ring until `until` has something to say of a completion.
fn turn<R>(ring: &mut Ring, mut until: impl FnMut(&mut Ring, &Completion) -> Option<R>) -> R {
    let began = Instant::now();
    loop {
        ring.set_deadline(Some(now_ms() + 50));
        ring.enter(1).expect("the ring works");
        let mut completions = Vec::new();
        ring.collect(&mut completions);
        if let Some(found) = completions.iter().find_map(|completion| until(ring, completion)) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "it never completed");
    }
}

#[test]
fn a_deadline_wakes_in_time_and_an_earlier_one_overtakes_it() {
    let (mut ring, _waker) = ring();
    let began = now_ms();
    ring.set_deadline(Some(began + 10_000));
    ring.enter(0).expect("the ring works");
    ring.set_deadline(Some(began + 50));
    while now_ms() < began + 50 {
        ring.enter(1).expect("the ring works");
        ring.collect(&mut Vec::new());
    }
    assert!(now_ms() < began + 1_000, "the first deadline was not overtaken");
}

#[test]
fn wakes_come_from_any_thread_and_none_is_lost() {
    let (mut ring, waker) = ring();
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (waker, count) = (waker.clone(), count.clone());
            std::thread::spawn(move || {
                for _ in 0..20_000 {
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    let (mut seen, mut turns) = (0, 0);
    while seen < 40_000 {
        // Without a deadline: a wake that is lost hangs the test.
        ring.enter(1).expect("the ring works");
        ring.collect(&mut Vec::new());
        seen = count.load(std::sync::atomic::Ordering::Relaxed);
        turns += 1;
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    println!("40000 wakes took {turns} turns");
}

#[test]
fn bytes_go_through_buffers_that_come_back() {
    let (mut ring, _waker) = ring();
    let (mut near, far) = pair();
    ring.receive(KEY, far.as_raw_fd());
    let sent: Vec<u8> = (0..10_000u32).map(|index| (index % 241) as u8).collect();
    near.write_all(&sent).expect("the kernel takes it");
    let mut received = Vec::new();
    turn(&mut ring, |ring, completion| {
        assert_eq!((completion.kind, completion.key), (Kind::Receive, KEY));
        if let Some(buffer) = completion.buffer() {
            received.extend_from_slice(ring.bytes(buffer, completion.result as usize));
            ring.give_back(buffer);
        } else {
            assert_eq!(completion.result, -libc::ENOBUFS, "10,000 bytes do not fit four buffers of 64");
        }
        ring.publish_buffers();
        if !completion.has_more() && received.len() < sent.len() {
            ring.receive(KEY, far.as_raw_fd());
        }
        (received.len() == sent.len()).then_some(())
    });
    assert!(received == sent);
}

#[test]
fn a_send_comes_back_in_parts_when_the_peer_is_slow() {
    let (mut ring, _waker) = ring();
    let (mut near, far) = pair();
    let bytes: Vec<u8> = (0..20_000_000u32).map(|index| (index % 239) as u8).collect();
    ring.send(KEY, far.as_raw_fd(), bytes.clone());
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        let mut read = vec![0; 20_000_000];
        near.read_exact(&mut read).map(|()| read)
    });
    let mut parts = 0;
    let buffer = turn(&mut ring, |ring, completion| match ring.sent(completion) {
        Sent::All(buffer) => Some(buffer),
        Sent::Some => {
            parts += 1;
            ring.send_rest(KEY, far.as_raw_fd());
            None
        }
        Sent::Failed(_) => panic!("the connection is broken: {}", completion.result),
    });
    assert!(buffer.is_empty() && buffer.capacity() >= bytes.len(), "the buffer comes back for reuse");
    assert!(parts > 0, "20 MB do not fit the sockets");
    assert!(reader.join().expect("it does not panic").expect("all bytes come") == bytes);
}

#[test]
fn more_submissions_than_fit_follow_later() {
    let (mut ring, _waker) = ring();
    let pairs: Vec<_> = (0..50).map(|_| pair()).collect();
    for (slot, (_, far)) in pairs.iter().enumerate() {
        let key = Key { slot: slot as u32, generation: 0 };
        ring.send(key, far.as_raw_fd(), vec![slot as u8; 5]);
    }
    let mut ended = 0;
    turn(&mut ring, |ring, completion| {
        assert!(matches!(ring.sent(completion), Sent::All(_)));
        ended += 1;
        (ended == 50).then_some(())
    });
    for (slot, (mut near, _)) in pairs.into_iter().enumerate() {
        let mut bytes = [0; 5];
        near.read_exact(&mut bytes).expect("five bytes");
        assert_eq!(bytes, [slot as u8; 5]);
    }
}

#[test]
fn what_is_in_flight_ends_with_the_ring() {
    let (mut ring, _waker) = ring();
    let (mut near, far) = pair();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    ring.receive(KEY, far.as_raw_fd());
    ring.accept(Key::default(), listener.as_raw_fd());
    ring.send(Key { slot: 4, generation: 0 }, far.as_raw_fd(), vec![1; 50_000_000]);
    ring.set_deadline(Some(now_ms() + 100_000));
    ring.enter(0).expect("the ring works");
    let began = Instant::now();
    drop(ring);
    assert!(began.elapsed() < Duration::from_millis(900), "everything could be cancelled");
    drop(OwnedFd::from(far));
    near.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out can be set");
    let mut rest = Vec::new();
    near.read_to_end(&mut rest).expect("nothing holds the socket: a FIN comes");
}

/// A worker has the affinity of the thread that made its ring, unless it is told otherwise.
#[test]
fn workers_run_where_they_may_and_not_on_the_busy_cpu() {
    let cpus = core_affinity::get_core_ids().expect("the system knows its CPUs");
    let [busy, .., spare] = &cpus[..] else { return eprintln!("one CPU only: nothing to tell apart") };
    let (busy, spare) = (*busy, *spare);
    let on_a_thread_of_its_own = move || {
        assert!(core_affinity::set_for_current(busy));
        let (mut ring, _waker) = ring();
        ring.let_workers_run_on(&[]).expect("nothing is changed");
        ring.let_workers_run_on(&[spare.id, usize::MAX]).expect("the kernel knows this");
        let file = tempfile::tempfile().expect("a file");
        ring.write(file.as_raw_fd(), 0, Box::new(vec![1; 4096]), true, 7);
        while ring.is_writing() {
            ring.enter(1).expect("the ring works");
            ring.collect(&mut Vec::new());
        }
        // SAFETY: it only says who the thread is.
        let name = format!("iou-wrk-{}", unsafe { libc::gettid() });
        let mut workers = 0;
        for task in std::fs::read_dir("/proc/self/task").expect("it is there") {
            let path = task.expect("it is there").path();
            // Threads of other tests come and go.
            let Ok(comm) = std::fs::read_to_string(path.join("comm")) else { continue };
            if comm.trim() == name {
                let status = std::fs::read_to_string(path.join("status")).expect("the ring lives");
                let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
                assert_eq!(allowed.map(str::trim), Some(&*spare.id.to_string()));
                workers += 1;
            }
        }
        assert!(workers > 0, "a sync needs a worker");
    };
    std::thread::spawn(on_a_thread_of_its_own).join().expect("it holds");
}

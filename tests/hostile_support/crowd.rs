//! 64 connections that behave, and how long they wait for their answers.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rallypoint::wire::ApiKey;
use rallypoint::wire::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use rallypoint::wire::heartbeat::HeartbeatResponse;

use super::{Client, Member, NONE, Server, frame, read};

const CONNECTIONS: usize = 64;

/// Clients that each have one request in flight: look-ups, and heartbeats of a group of one.
pub struct Crowd {
    is_over: Arc<AtomicBool>,
    latencies: Arc<Mutex<Latencies>>,
    thread: std::thread::JoinHandle<()>,
}

/// How long requests took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Crowd {
    /// Connects, founds the groups, and begins.
    pub fn start(server: &Server) -> Crowd {
        // The members of an earlier crowd are still in their groups.
        static CROWDS: AtomicUsize = AtomicUsize::new(0);
        let crowd = CROWDS.fetch_add(1, Ordering::Relaxed);
        let address = server.address;
        let (is_over, latencies) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Latencies::default())));
        let (seen, into) = (is_over.clone(), latencies.clone());
        let mut clients: Vec<(Client, [Vec<u8>; 2])> = (0..CONNECTIONS)
            .map(|number| {
                let group_id = format!("good-{crowd}-{number}");
                let request = FindCoordinatorRequest { key: (&*group_id).into(), ..Default::default() };
                let mut client = Client::of_coordinator(address, &group_id);
                let member = Member::found(&mut client, &group_id, 60_000);
                let look_up = frame(ApiKey::FindCoordinator, 1, &request);
                (client, [look_up, frame(ApiKey::Heartbeat, 3, &member.heartbeat())])
            })
            .collect();
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                let round = round(&mut clients);
                into.lock().unwrap_or_else(PoisonError::into_inner).0.extend(round);
            }
        });
        Crowd { is_over, latencies, thread }
    }

    /// What was measured since the last call.
    pub fn take(&self) -> Latencies {
        std::mem::take(&mut *self.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends; the rest of what was measured.
    pub fn stop(self) -> Latencies {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the good clients are served");
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.clone()
    }
}

/// Each sends a look-up, and then each a heartbeat.
fn round(clients: &mut [(Client, [Vec<u8>; 2])]) -> Vec<Duration> {
    let mut latencies = Vec::with_capacity(2 * CONNECTIONS);
    for kind in 0..2 {
        let mut sent = Vec::with_capacity(CONNECTIONS);
        for (client, requests) in &mut *clients {
            sent.push(Instant::now());
            client.send(&requests[kind]);
        }
        for ((client, _), sent) in clients.iter_mut().zip(sent) {
            let reply = client.receive();
            latencies.push(sent.elapsed());
            let error_code = match kind {
                0 => read::<FindCoordinatorResponse<'_>>(&reply, ApiKey::FindCoordinator, 1).error_code,
                _ => read::<HeartbeatResponse>(&reply, ApiKey::Heartbeat, 3).error_code,
            };
            assert_eq!(error_code, NONE, "a good client is refused");
        }
    }
    std::thread::sleep(Duration::from_millis(1));
    latencies
}

impl Latencies {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn percentile(&self, percent: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
        sorted.get(at.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most, all] = [50.0, 99.0, 100.0].map(|percent| self.percentile(percent).as_secs_f64() * 1e3);
        write!(f, "p50 {half:.2} p99 {most:.2} max {all:.2} ms")
    }
}

//! A server process of its own, so that its memory is its alone; clients that behave; and the comparison of how they fare
//! with and without somebody who does not.
#![allow(dead_code, unreachable_pub)]

mod crowd;
mod requests;
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use crowd::{Crowd, Latencies};
pub use requests::*;
pub use server::Server;

/// How long anything may take, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const MIB: usize = 1 << 20;

/// One measurement at a time: they would disturb each other.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for this test's turn.
pub fn my_turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `scripts/hostile` sets how many times as much is done as in a test run.
pub fn scale() -> usize {
    std::env::var("HOSTILE_SCALE").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// How a server and its good clients fared while something hostile went on.
pub struct Comparison {
    pub quiet: Latencies,
    pub during: Latencies,
    pub rss_before: usize,
    pub rss_peak: usize,
}

/// Runs `hostile` while 64 good connections go on, after they have had the server for themselves; prints what it did to
/// them, and asserts what should hold even on a machine that is busy with other things.
pub fn compare<R>(server: &Server, name: &str, hostile: impl FnOnce() -> R) -> (R, Comparison) {
    let crowd = Crowd::start(server);
    std::thread::sleep(Duration::from_millis(100));
    crowd.take();
    std::thread::sleep(Duration::from_millis(300));
    let quiet = crowd.take();
    let (rss_before, turns_before) = (server.rss_bytes(), server.turns());
    let peak = PeakRss::start(server);
    let result = hostile();
    let during = crowd.stop();
    let comparison = Comparison { quiet, during, rss_before, rss_peak: peak.stop() };
    let Comparison { quiet, during, rss_before, rss_peak } = &comparison;
    let [turns, long, very_long] = server.turns();
    let [turns, long, very_long] = [turns - turns_before[0], long - turns_before[1], very_long - turns_before[2]];
    println!(
        "{name}: quiet {quiet}; during {during}; {long} of {turns} turns of the server above 10 ms, {very_long} above 50; \
         RSS {} MiB before, {} at its peak, {} after",
        rss_before / MIB,
        rss_peak / MIB,
        server.rss_bytes() / MIB
    );
    assert!(during.count() > 0, "{name}: the good clients were served");
    // A server that is not optimised, on a machine that is busy with other things, is slow to refuse a hundred thousand rows.
    let slack_ms = if server::is_optimised() { 500 } else { 2_000 };
    let bound = quiet.percentile(99.0) * 20 + Duration::from_millis(slack_ms);
    assert!(during.percentile(99.0) <= bound, "{name}: the good clients' p99 is above {bound:?}");
    (result, comparison)
}

impl Comparison {
    /// How much more memory there was than before, at the worst.
    pub fn rss_growth(&self) -> usize {
        self.rss_peak.saturating_sub(self.rss_before)
    }
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Watches the memory of a server.
struct PeakRss {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl PeakRss {
    fn start(server: &Server) -> PeakRss {
        let is_over = Arc::new(AtomicBool::new(false));
        let (pid, seen) = (server.pid(), is_over.clone());
        let thread = std::thread::spawn(move || {
            let mut peak = 0;
            while !seen.load(Ordering::Relaxed) {
                peak = peak.max(server::rss_bytes_of(pid));
                std::thread::sleep(Duration::from_millis(10));
            }
            peak.max(server::rss_bytes_of(pid))
        });
        PeakRss { is_over, thread }
    }

    fn stop(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only reads a file")
    }
}

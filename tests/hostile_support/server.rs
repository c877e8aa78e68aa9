//! The server, as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Comparison, PATIENCE};

/// What every test sets, unless it sets it otherwise.
const PROPERTIES: &[(&str, &str)] =
    &[("group.initial.rebalance.delay.ms", "0"), ("group.min.session.timeout.ms", "500")];

/// Whether it is not the one that is built along with the tests.
pub fn is_optimised() -> bool {
    std::env::var_os("RALLYPOINT_BIN").is_some()
}

pub struct Server {
    child: Child,
    /// Where all cores accept.
    pub address: SocketAddr,
    metrics: SocketAddr,
    log: Arc<Mutex<String>>,
    _data_dir: Option<TempDir>,
}

impl Server {
    /// Starts one on ports that are free.
    pub fn start(cores: usize, properties: &[(&str, &str)]) -> Server {
        for _ in 0..10 {
            let data_dir = tempfile::tempdir().expect("a directory");
            if let Ok(mut server) = Server::start_in(data_dir.path(), &[], cores, properties) {
                server._data_dir = Some(data_dir);
                return server;
            }
        }
        panic!("no server could be started");
    }

    /// Starts one with a data directory of the caller's, by a command that executes the one behind it. If it ends before it is
    /// ready: what it has logged.
    pub fn start_in(data_dir: &Path, by: &[&str], cores: usize, properties: &[(&str, &str)]) -> Result<Server, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port(cores)));
        let binary = std::env::var("RALLYPOINT_BIN").unwrap_or(env!("CARGO_BIN_EXE_rallypoint").to_owned());
        let mut words = by.iter().copied().chain([&*binary]);
        let mut command = Command::new(words.next().expect("one of them"));
        command.args(words).args([
            "serve",
            "--cores",
            &cores.to_string(),
            "--listen",
            &address.to_string(),
            "--data-dir",
        ]);
        command.arg(data_dir);
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port(0)));
        command.args(["--metrics", &metrics.to_string(), "--topic", "t:100"]);
        for (key, value) in PROPERTIES.iter().chain(properties) {
            command.args(["--set", &format!("{key}={value}")]);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let log = Arc::new(Mutex::new(String::new()));
        let lines = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut log = lines.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut server = Server { child, address, metrics, log, _data_dir: None };
        let began = Instant::now();
        while !server.has_logged("ready: ") {
            if server.child.try_wait().expect("it can be asked").is_some() {
                eprintln!("a server did not start:\n{}", server.log());
                return Err(server.last_words());
            }
            assert!(began.elapsed() < PATIENCE, "the server does not come up:\n{}", server.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// What it has logged, once it has ended and nothing more can come.
    fn last_words(&self) -> String {
        std::thread::sleep(Duration::from_millis(100));
        self.log()
    }

    /// Waits until it ends, which must not be in good order; what it has logged.
    pub fn fails(mut self) -> String {
        super::eventually("the end of the server", || self.child.try_wait().expect("it can be asked").is_some());
        assert!(!self.child.wait().expect("it has ended").success(), "{}", self.log());
        self.last_words()
    }

    /// Kills it, as a failure would.
    pub fn kill(mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it runs");
    }

    /// Stops it in good order.
    pub fn stop(mut self) {
        let status = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "it can be told");
        assert!(self.child.wait().expect("it ends").success(), "{}", self.log());
    }

    /// Lets it do nothing any more, until it is killed.
    pub fn freeze(&self) {
        let status = Command::new("kill").args(["-STOP", &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "it can be stopped");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The sum of all rows of its page of metrics that begin so.
    pub fn metric(&self, row: &str) -> f64 {
        let page = self.metrics_page();
        let rows = page.lines().filter(|line| line.starts_with(row));
        rows.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    fn metrics_page(&self) -> String {
        let mut stream = TcpStream::connect(self.metrics).expect("metrics are served");
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        page
    }

    /// How many turns its cores took; how many of more than 10 ms, and of more than 50.
    pub fn turns(&self) -> [u64; 3] {
        let page = self.metrics_page();
        let up_to = |bound: &str| {
            let is_it = |line: &&str| line.starts_with("rallypoint_turn_seconds_bucket") && line.contains(bound);
            let counts = page.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            counts.sum::<u64>()
        };
        let all = up_to("le=\"+Inf\"");
        [all, all - up_to("le=\"0.01\""), all - up_to("le=\"0.05\"")]
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn has_logged(&self, text: &str) -> bool {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).contains(text)
    }

    /// Its memory in bytes.
    pub fn rss_bytes(&self) -> usize {
        rss_bytes_of(self.pid())
    }

    /// Waits until most of the memory that it took during a comparison has come back.
    pub fn gives_back(&self, seen: &Comparison) {
        /// What the allocator may keep of what was freed: it is trimmed for 32 MiB, which buffers that grow by
        /// doubling make twice as much.
        const KEPT: usize = 64 * super::MIB;
        let growth = seen.rss_growth();
        let bound = seen.rss_before + KEPT + growth / 16;
        super::eventually(&format!("RSS below {} MiB", bound / super::MIB), || self.rss_bytes() < bound);
        println!(
            "{} MiB more at the peak, of which {} MiB are left",
            growth / super::MIB,
            self.rss_bytes().saturating_sub(seen.rss_before) / super::MIB
        );
    }

    /// Waits until all member ids that nobody joined with have timed out.
    pub fn forgets_member_ids(&self) {
        super::eventually("the end of all member ids", || self.metric("rallypoint_group_pending_members{") == 0.0);
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs").count()
    }

    /// That it is still there, and did not panic.
    pub fn is_well(&mut self) {
        assert!(self.child.try_wait().expect("it can be asked").is_none(), "the server has ended:\n{}", self.log());
        assert!(!self.has_logged("panicked"), "{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.lines().rev().take(30).collect::<Vec<_>>();
            eprintln!("the server's last words:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}

pub fn rss_bytes_of(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) << 10
}

/// A port that is free, and so are those of the cores behind it. Below the ports that the system gives to clients, which a
/// test leaves behind by the thousand.
fn free_port(cores: usize) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let cores = cores as u16;
    loop {
        let number =
            NEXT.fetch_add(1 + cores, Ordering::Relaxed).wrapping_add((std::process::id() as u16).wrapping_mul(32));
        let port = 10_000 + number % 20_000;
        if (port..=port + cores).all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()) {
            return port;
        }
    }
}

//! The server under load, seen from a plain blocking connection: how its sockets are made (loopback only, spread over
//! source addresses) and the questions that come before a measurement.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::messages;
use crate::process::{CpuMeter, listening_pid};

/// How long set-up questions are repeated while the coordinator is not available yet.
const SETUP_LIMIT: Duration = Duration::from_secs(60);
const KEYS_PER_QUESTION: usize = 1000;

/// Where the server is; the options that all loads have.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// The server, on loopback: HOST:PORT
    pub(crate) address: SocketAddr,
    /// The server's process; found by its port if not given
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// The CPU to run the load on; the last allowed one if not given
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
    /// Source addresses 127.0.0.2, .3, ... to spread connections over
    #[arg(long, default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=200))]
    pub(crate) sources: u8,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Target {
    pub(crate) fn pid(&self) -> Result<u32, String> {
        let found = self.server_pid.or_else(|| listening_pid(self.address.port()));
        found.ok_or_else(|| format!("no process of ours listens on {}; give --server-pid", self.address))
    }

    pub(crate) fn meter(&self) -> Result<CpuMeter, String> {
        CpuMeter::new(self.pid()?)
    }

    /// A blocking connection to `peer`, from the source address of its number.
    pub(crate) fn connect(&self, peer: SocketAddr, number: usize) -> Result<TcpStream, String> {
        let socket = self.socket(peer, number)?;
        socket.connect_timeout(&peer.into(), Duration::from_secs(10)).map_err(|error| format!("{peer}: {error}"))?;
        let stream = TcpStream::from(socket);
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(30))));
        set.map_err(|error| format!("{peer}: {error}"))?;
        Ok(stream)
    }

    /// A socket for `peer` that is bound to a source address, not connected.
    pub(crate) fn socket(&self, peer: SocketAddr, number: usize) -> Result<Socket, String> {
        if !peer.ip().is_loopback() {
            return Err(format!("{peer} is not on loopback; this load is for one machine only"));
        }
        let make = || {
            let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
            if peer.is_ipv4() {
                let last = 2 + (number % usize::from(self.sources)) as u8;
                let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0);
                socket.bind(&SockAddr::from(source))?;
            }
            Ok(socket)
        };
        make().map_err(|error: std::io::Error| format!("a socket for {peer}: {error}"))
    }

    /// The coordinators of groups, in their order. Asks again while the server creates its offsets topic.
    pub(crate) fn coordinators(&self, groups: &[String]) -> Result<Vec<SocketAddr>, String> {
        let mut stream = self.connect(self.address, 0)?;
        let start = Instant::now();
        let mut coordinators = Vec::new();
        for chunk in groups.chunks(KEYS_PER_QUESTION) {
            let keys: Vec<&str> = chunk.iter().map(String::as_str).collect();
            loop {
                let frame = ask(&mut stream, messages::find_coordinator(4, &keys))?;
                let answers = messages::read_find_coordinator(4, &frame)?;
                if answers.iter().any(|answer| matches!(answer.error_code, 14 | 15)) && start.elapsed() < SETUP_LIMIT {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
                for (answer, key) in answers.iter().zip(&keys) {
                    if answer.error_code != 0 || answer.key != *key {
                        return Err(format!("FindCoordinator of {key}: {answer:?}"));
                    }
                    let host = answer.host.parse::<IpAddr>().or(if answer.host == "localhost" {
                        Ok(IpAddr::V4(Ipv4Addr::LOCALHOST))
                    } else {
                        Err(format!("the coordinator's host {} is not an address", answer.host))
                    })?;
                    coordinators.push(SocketAddr::new(host, answer.port as u16));
                }
                break;
            }
        }
        if coordinators.len() == groups.len() { Ok(coordinators) } else { Err("FindCoordinator left keys out".into()) }
    }

    /// The first `count` group names that one coordinator owns (the one of the first name, or the one at `port`). Another
    /// process or another `series` gives other names.
    pub(crate) fn groups_of_one_core(
        &self,
        series: char,
        count: usize,
        port: Option<u16>,
    ) -> Result<(SocketAddr, Vec<String>), String> {
        let tag = std::process::id();
        let (mut owner, mut names, mut first) = (None, Vec::new(), 0);
        while names.len() < count && first < 200 * count.max(50) {
            let candidates: Vec<String> =
                (first..first + count.max(50)).map(|number| format!("perf-{tag:07}{series}{number:07}")).collect();
            first += candidates.len();
            for (candidate, at) in candidates.iter().zip(self.coordinators(&candidates)?) {
                let owner = *owner.get_or_insert(port.map_or(at, |port| SocketAddr::new(at.ip(), port)));
                if at == owner && names.len() < count {
                    names.push(candidate.clone());
                }
            }
        }
        match owner {
            Some(owner) if names.len() == count => Ok((owner, names)),
            _ => Err(format!("only {} of {count} groups found at one coordinator", names.len())),
        }
    }

    /// Makes sure that a topic exists (the server creates it through Metadata, or has it).
    pub(crate) fn topic(&self, name: &str) -> Result<(), String> {
        let mut stream = self.connect(self.address, 0)?;
        let start = Instant::now();
        loop {
            match messages::read_metadata(&ask(&mut stream, messages::metadata(name))?)? {
                0 => return Ok(()),
                3 | 5 if start.elapsed() < SETUP_LIMIT => std::thread::sleep(Duration::from_millis(100)),
                error_code => return Err(format!("topic {name}: error code {error_code}")),
            }
        }
    }
}

/// One question and its answer (a whole frame).
pub(crate) fn ask(stream: &mut TcpStream, request: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut exchange = || {
        stream.write_all(&request)?;
        let mut frame = vec![0; 4];
        stream.read_exact(&mut frame)?;
        let size = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        if size > 128 << 20 {
            return Err(std::io::Error::other(format!("an answer of {size} bytes")));
        }
        frame.resize(4 + size, 0);
        stream.read_exact(&mut frame[4..])?;
        Ok(frame)
    };
    exchange().map_err(|error: std::io::Error| {
        let (api_key, version) =
            (i16::from_be_bytes([request[4], request[5]]), i16::from_be_bytes([request[6], request[7]]));
        let why = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "the server closed the connection instead of answering".into(),
            _ => error.to_string(),
        };
        format!("api key {api_key} v{version}: {why}")
    })
}

//! Services and clients for the network's tests.
#![allow(dead_code, unreachable_pub)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rallypoint::clock::Now;
use rallypoint::net::{CoreContext, CorePlan, Server, ServerSettings, start};
use rallypoint::ring::Waker;
use rallypoint::shard::service::{ConnectionId, Network, Service, Session, Verdict};

pub const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Answers every frame with itself.
#[derive(Default)]
pub struct Echo;

impl Service for Echo {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, _: ConnectionId, _: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        append(replies, frame);
        Verdict::Answered
    }

    fn closed(&mut self, _: ConnectionId) {}

    fn synced(&mut self, _: u64, _: io::Result<()>) {}

    fn turn(&mut self, _: Now, _: &mut dyn Network) {}

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

/// Appends a frame with its size.
pub fn append(bytes: &mut Vec<u8>, frame: &[u8]) {
    bytes.extend((frame.len() as i32).to_be_bytes());
    bytes.extend(frame);
}

/// A frame with its size.
pub fn framed(frame: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, frame);
    bytes
}

/// Starts a server on a free port; `make` makes each core's service.
pub fn serve<S, F>(cores: usize, settings: ServerSettings, make: F) -> Server
where
    S: Service + 'static,
    F: Fn(CoreContext) -> S + Clone + Send + 'static,
{
    let settings = ServerSettings { bootstrap: vec![ANY], ..settings };
    let plan = |_| {
        let make = make.clone();
        let service = move |context| async move { Ok(make(context)) };
        CorePlan { cpu: None, own: vec![ANY], waker: Waker::new().expect("a descriptor"), service }
    };
    start(settings, (0..cores).map(plan).collect()).expect("the server starts")
}

/// Stops a server and waits for its end, which must come within five seconds.
pub fn stop(server: Server) {
    let began = std::time::Instant::now();
    server.stop_signal().stop();
    server.join().expect("no core fails");
    assert!(began.elapsed() < Duration::from_secs(5), "stopping took {:?}", began.elapsed());
}

/// A blocking client.
pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out can be set");
        stream.set_nodelay(true).expect("an option can be set");
        Client(stream)
    }

    pub fn send(&mut self, frame: &[u8]) {
        self.0.write_all(&framed(frame)).expect("the server reads");
    }

    pub fn receive(&mut self) -> Vec<u8> {
        self.try_receive().expect("a reply")
    }

    pub fn try_receive(&mut self) -> io::Result<Vec<u8>> {
        let mut size = [0; 4];
        self.0.read_exact(&mut size)?;
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame)
    }

    pub fn ask(&mut self, frame: &[u8]) -> Vec<u8> {
        self.send(frame);
        self.receive()
    }

    /// Whether the server has closed the connection in an orderly way and sent nothing more.
    pub fn is_ended(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 64]), Ok(0))
    }
}

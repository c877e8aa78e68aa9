//! Services and clients for the network's tests.
#![allow(dead_code, unreachable_pub)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};

use rallypoint::clock::Now;
use rallypoint::net::{CoreContext, CorePlan, Server, ServerSettings, start};
use rallypoint::ring::Waker;
use rallypoint::shard::service::{
    ConnectionId, FileWrite, JournalPosition, Network, Service, Session, Verdict, WriteFailure,
};

pub const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(5);

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

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>) {}

    fn turn(&mut self, _: Now, _: &mut dyn Network) -> io::Result<()> {
        Ok(())
    }

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
        Client::of(TcpStream::connect(address).expect("the server accepts"))
    }

    /// Connects from another loopback address.
    pub fn connect_from(source: [u8; 4], address: SocketAddr) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a descriptor");
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("loopback is a whole network");
        socket.connect(&address.into()).expect("the server accepts");
        Client::of(socket.into())
    }

    fn of(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
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

/// What a test tells a [`Scripted`] service to do in its next turn.
pub enum Command {
    /// Answers all parked requests, oldest first; their number comes back.
    AnswerAll(Sender<usize>),
    /// Replies up to the position may leave.
    Durable(u64),
    /// Writes and syncs.
    Write(RawFd, u64, Vec<u8>, u64),
    /// Runs something on the core's thread.
    Run(Box<dyn FnOnce() + Send>),
}

/// What a [`Scripted`] service tells the test.
#[derive(Debug, PartialEq, Eq)]
pub enum Report {
    Executed(Vec<u8>),
    Closed,
    Written(u64, Result<(), io::ErrorKind>),
}

/// A service whose frames say what is to become of them by their first byte: `p` parks, `d` and a byte is durable at that
/// position, `c` closes, `b` is answered with 64 KiB, everything else with itself.
pub struct Scripted {
    commands: Receiver<Command>,
    reports: Sender<Report>,
    parked: Vec<(ConnectionId, Vec<u8>)>,
}

/// The test's end of a [`Scripted`] service.
pub struct Script {
    commands: Sender<Command>,
    pub reports: Receiver<Report>,
    waker: Waker,
}

/// One core with a [`Scripted`] service.
pub fn serve_scripted(settings: ServerSettings) -> (Server, Script) {
    let (commands, commands_in) = unbounded();
    let (reports_out, reports) = unbounded();
    let waker = Waker::new().expect("a descriptor");
    let service =
        move |_| async move { Ok(Scripted { commands: commands_in, reports: reports_out, parked: Vec::new() }) };
    let plan = CorePlan { cpu: None, own: Vec::new(), waker: waker.clone(), service };
    let server = start(ServerSettings { bootstrap: vec![ANY], ..settings }, vec![plan]).expect("the server starts");
    (server, Script { commands, reports, waker })
}

impl Script {
    pub fn tell(&self, command: Command) {
        self.commands.send(command).expect("the service lives");
        self.waker.wake();
    }

    /// Answers what is parked; how many connections took their answer.
    pub fn answer_all(&self) -> usize {
        let (done, count) = unbounded();
        self.tell(Command::AnswerAll(done));
        count.recv_timeout(PATIENCE).expect("the service turns")
    }

    pub fn next(&self) -> Report {
        self.reports.recv_timeout(PATIENCE).expect("a report")
    }

    /// Whether nothing is reported for a while.
    pub fn is_silent(&self) -> bool {
        self.reports.recv_timeout(Duration::from_millis(100)).is_err()
    }

    /// Stops the core's thread until the result is dropped.
    pub fn freeze(&self) -> Sender<()> {
        let (thaw, frozen) = unbounded::<()>();
        let (begun, began) = unbounded();
        self.tell(Command::Run(Box::new(move || {
            let _ = begun.send(());
            let _ = frozen.recv();
        })));
        began.recv_timeout(PATIENCE).expect("the service turns");
        thaw
    }
}

impl Service for Scripted {
    fn begin(&mut self, _: Now) {}

    fn request(&mut self, id: ConnectionId, _: &mut Session, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        let _ = self.reports.send(Report::Executed(frame.to_vec()));
        match frame[0] {
            b'p' => {
                self.parked.push((id, frame.to_vec()));
                return Verdict::Parked;
            }
            b'c' => return Verdict::Close("scripted close".into()),
            b'b' => append(replies, &vec![b'b'; 64 << 10]),
            _ => append(replies, frame),
        }
        if frame[0] == b'd' { Verdict::Durable(JournalPosition(u64::from(frame[1]))) } else { Verdict::Answered }
    }

    fn closed(&mut self, id: ConnectionId) {
        let _ = self.reports.send(Report::Closed);
        // What a later answer does to another connection in the same slot is for a test to see.
        let _ = id;
    }

    fn written(&mut self, token: u64, result: Result<(), WriteFailure>) {
        let kind = |failure| match failure {
            WriteFailure::Write(error) | WriteFailure::Sync(error) => error.kind(),
        };
        let _ = self.reports.send(Report::Written(token, result.map_err(kind)));
    }

    fn turn(&mut self, _: Now, network: &mut dyn Network) -> io::Result<()> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::AnswerAll(done) => {
                    let taken = self
                        .parked
                        .drain(..)
                        .filter(|(id, frame)| network.answer(*id, &mut |replies| append(replies, frame)));
                    let _ = done.send(taken.count());
                }
                Command::Durable(position) => network.durable(JournalPosition(position)),
                Command::Write(file, offset, data, token) => {
                    network.write(FileWrite { file, offset, data: Box::new(data), sync: true, token });
                }
                Command::Run(run) => run(),
            }
        }
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

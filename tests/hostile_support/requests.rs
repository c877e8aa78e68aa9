//! Requests as bytes, and a blocking client that sends them.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rallypoint::wire::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use rallypoint::wire::heartbeat::HeartbeatRequest;
use rallypoint::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use rallypoint::wire::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use rallypoint::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use rallypoint::wire::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use rallypoint::wire::{ApiKey, Array, Cursor, RequestHeader, ResponseHeader, Wire, Writer};

use socket2::{Domain, Socket, Type};

use super::PATIENCE;

pub const NONE: i16 = 0;
pub const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
pub const INVALID_REQUEST: i16 = 42;
pub const MEMBER_ID_REQUIRED: i16 = 79;

/// A request frame with its size.
pub fn frame<'a>(api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let start = writer.begin_frame();
    let (api_key, client_id) = (api.number(), Some("hostile".into()));
    let header = RequestHeader { api_key, api_version: version, correlation_id: 7, client_id };
    header.write(&mut writer, api.request_header_version(version));
    request.write(&mut writer, api.version(version));
    writer.end_frame(start);
    bytes
}

/// Reads the body of a reply frame (without its size).
pub fn read<'a, T: Wire<'a>>(reply: &'a [u8], api: ApiKey, version: i16) -> T {
    let mut cursor = Cursor::new(reply);
    ResponseHeader::read(&mut cursor, api.response_header_version(version)).expect("a header");
    T::read(&mut cursor, api.version(version)).expect("a body")
}

/// A blocking client.
pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).expect("the server accepts")
    }

    /// Connects from another address of this machine: each has its own ports.
    pub fn connect_from(source: Ipv4Addr, address: SocketAddr) -> Client {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a descriptor");
        socket.bind(&SocketAddr::from((source, 0)).into()).expect("a free port");
        socket.connect(&address.into()).expect("the server accepts");
        Client::of_stream(socket.into()).expect("options can be set")
    }

    pub fn try_connect(address: SocketAddr) -> io::Result<Client> {
        Client::of_stream(TcpStream::connect(address)?)
    }

    fn of_stream(stream: TcpStream) -> io::Result<Client> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Client(stream))
    }

    /// Connects to the coordinator of a group.
    pub fn of_coordinator(bootstrap: SocketAddr, group_id: &str) -> Client {
        let mut bootstrap = Client::connect(bootstrap);
        let request = FindCoordinatorRequest { key: group_id.into(), ..FindCoordinatorRequest::default() };
        loop {
            let reply = bootstrap.ask(ApiKey::FindCoordinator, 1, &request);
            let found: FindCoordinatorResponse<'_> = read(&reply, ApiKey::FindCoordinator, 1);
            if found.error_code == NONE {
                return Client::connect(([127, 0, 0, 1], found.port as u16).into());
            }
            // The first look-up creates the topic of the offsets.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    /// The next reply frame without its size.
    pub fn receive(&mut self) -> Vec<u8> {
        self.try_receive().expect("a reply")
    }

    pub fn try_receive(&mut self) -> io::Result<Vec<u8>> {
        let mut size = [0; 4];
        self.0.read_exact(&mut size)?;
        let mut reply = vec![0; i32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut reply)?;
        Ok(reply)
    }

    /// Sends a request and gives back its reply frame.
    pub fn ask<'a>(&mut self, api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
        self.send(&frame(api, version, request));
        self.receive()
    }

    /// Whether the server has closed the connection, reset or not, and sent nothing more.
    pub fn is_ended(&mut self) -> bool {
        match self.0.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads so many reply frames, and gives each to `check` without its size.
    pub fn receive_many(&mut self, count: usize, mut check: impl FnMut(&[u8])) {
        let mut buffered = BufReader::with_capacity(256 << 10, &self.0);
        let mut reply = Vec::new();
        for _ in 0..count {
            let mut size = [0; 4];
            buffered.read_exact(&mut size).expect("a reply");
            reply.resize(i32::from_be_bytes(size) as usize, 0);
            buffered.read_exact(&mut reply).expect("a whole reply");
            check(&reply);
        }
    }
}

/// Writes the same bytes over and over to all these peers' connections, as fast as one thread can, until the server has taken
/// none for a while; how many bytes it took of each.
pub fn flood(clients: &mut [Client], batch: &[u8], at_most: usize) -> Vec<usize> {
    const SILENCE: Duration = Duration::from_millis(300);
    let mut written = vec![0; clients.len()];
    for client in clients.iter() {
        // What lies in the sender's own kernel tells nothing.
        socket2::SockRef::from(&client.0).set_send_buffer_size(64 << 10).expect("an option can be set");
        client.0.set_nonblocking(true).expect("an option can be set");
    }
    let mut last = Instant::now();
    while last.elapsed() < SILENCE {
        let mut is_taken = false;
        for (client, written) in clients.iter_mut().zip(&mut written) {
            // What is refused for good, by a close, is as good as not taken.
            if let Ok(count) = client.0.write(&batch[*written % batch.len()..]) {
                *written += count;
                assert!(*written < at_most, "the server never stops reading");
                is_taken = true;
            }
        }
        match is_taken {
            true => last = Instant::now(),
            false => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    clients.iter().for_each(|client| client.0.set_nonblocking(false).expect("an option can be set"));
    written
}

/// Pipelines requests, and hands every reply frame over, in order.
pub fn pump(client: &mut Client, requests: impl Iterator<Item = Vec<u8>> + Send, mut each: impl FnMut(Vec<u8>)) {
    const BATCH_BYTES: usize = 64 << 10;
    let (sent, replies) = std::sync::mpsc::channel();
    let mut writer = Client(client.0.try_clone().expect("a descriptor"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut batch = Vec::new();
            let mut count = 0usize;
            for request in requests {
                batch.extend_from_slice(&request);
                count += 1;
                if batch.len() >= BATCH_BYTES {
                    writer.send(&batch);
                    let _ = sent.send(std::mem::take(&mut count));
                    batch.clear();
                }
            }
            writer.send(&batch);
            let _ = sent.send(count);
        });
        for count in replies {
            (0..count).for_each(|_| each(client.receive()));
        }
    });
}

/// A member that has joined a group.
#[derive(Clone, Debug)]
pub struct Member {
    pub group_id: String,
    pub member_id: String,
    pub generation_id: i32,
}

impl Member {
    /// Founds a group: joins and syncs as its only member.
    pub fn found(client: &mut Client, group_id: &str, session_timeout_ms: i32) -> Member {
        let request = join_request(group_id, session_timeout_ms);
        let reply = loop {
            let reply = client.ask(ApiKey::JoinGroup, 3, &request.write());
            match read::<JoinGroupResponse<'_>>(&reply, ApiKey::JoinGroup, 3).error_code {
                // A server that has just started.
                COORDINATOR_LOAD_IN_PROGRESS => std::thread::sleep(Duration::from_millis(10)),
                _ => break reply,
            }
        };
        let joined: JoinGroupResponse<'_> = read(&reply, ApiKey::JoinGroup, 3);
        assert_eq!(joined.error_code, NONE, "{joined:?}");
        let member = Member {
            group_id: group_id.to_owned(),
            member_id: joined.member_id.to_string(),
            generation_id: joined.generation_id,
        };
        let reply = client.ask(ApiKey::SyncGroup, 2, &member.sync(&[]));
        assert_eq!(read::<SyncGroupResponse<'_>>(&reply, ApiKey::SyncGroup, 2).error_code, NONE);
        member
    }

    pub fn sync<'a>(&'a self, assignments: &'a [SyncGroupRequestAssignment<'a>]) -> SyncGroupRequest<'a> {
        SyncGroupRequest {
            group_id: (&*self.group_id).into(),
            generation_id: self.generation_id,
            member_id: (&*self.member_id).into(),
            assignments: Array::Items(assignments),
            ..SyncGroupRequest::default()
        }
    }

    /// Leaves its group.
    pub fn leave(&self, client: &mut Client) {
        let request = LeaveGroupRequest {
            group_id: (&*self.group_id).into(),
            member_id: (&*self.member_id).into(),
            ..LeaveGroupRequest::default()
        };
        let reply = client.ask(ApiKey::LeaveGroup, 1, &request);
        assert_eq!(read::<LeaveGroupResponse<'_>>(&reply, ApiKey::LeaveGroup, 1).error_code, NONE);
    }

    pub fn heartbeat(&self) -> HeartbeatRequest<'_> {
        HeartbeatRequest {
            group_id: (&*self.group_id).into(),
            generation_id: self.generation_id,
            member_id: (&*self.member_id).into(),
            ..HeartbeatRequest::default()
        }
    }
}

/// A JoinGroup of a newcomer, with what it borrows.
pub struct Join<'a> {
    pub group_id: &'a str,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocols: Vec<JoinGroupRequestProtocol<'a>>,
}

pub fn join_request(group_id: &str, session_timeout_ms: i32) -> Join<'_> {
    let protocols = vec![JoinGroupRequestProtocol { name: "range".into(), metadata: b"" }];
    Join { group_id, session_timeout_ms, rebalance_timeout_ms: 60_000, protocols }
}

impl Join<'_> {
    pub fn write(&self) -> JoinGroupRequest<'_> {
        JoinGroupRequest {
            group_id: self.group_id.into(),
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocol_type: "consumer".into(),
            protocols: Array::Items(&self.protocols),
            ..JoinGroupRequest::default()
        }
    }
}

/// A commit from outside of the group, of one partition of topic `t`, that is kept for so long.
pub fn commit_frame(group_id: &str, retention_time_ms: i64) -> Vec<u8> {
    let partitions = [OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() }];
    let topics = [OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: Array::Items(&partitions),
        ..OffsetCommitRequestTopic::default()
    }];
    let request = OffsetCommitRequest {
        group_id: group_id.into(),
        retention_time_ms,
        topics: Array::Items(&topics),
        ..OffsetCommitRequest::default()
    };
    frame(ApiKey::OffsetCommit, 4, &request)
}

pub fn commit_error(reply: &[u8]) -> i16 {
    let response: OffsetCommitResponse<'_> = read(reply, ApiKey::OffsetCommit, 4);
    let topic = response.topics.iter().next().expect("a topic");
    topic.partitions.iter().next().expect("a partition").error_code
}

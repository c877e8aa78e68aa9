//! Shards without sockets: a whole server of some cores, driven request by request.

mod data_plane;
mod durability;
mod failing;
mod find_coordinator;
mod hostile;
mod loading;
mod metadata;
mod snapshots;
mod topics;
mod turns;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::service::{FileWrite, ListenerIndex};
use super::*;
use crate::auth::Subject;
use crate::control::log::{FILE_HEADER, replay};
use crate::control::{Control, NodeEndpoints};
use crate::group::Ids;
use crate::journal::store::MemoryStore;
use crate::wire::{ApiKey, Cursor, RequestHeader, ResponseHeader, Wire, Writer};

const CLUSTER_ID_BYTES: usize = 22;

/// No file of a journal has this number.
const CONTROL_FILE: std::os::fd::RawFd = -1;

/// Allows all but some operations on some names.
struct Deny(Vec<(Operation, &'static str)>);

impl Authorizer for Deny {
    fn allows(&self, _: Subject<'_>, operation: Operation, resource: Resource<'_>) -> bool {
        let name = match resource {
            Resource::Topic(name) | Resource::Group(name) | Resource::TransactionalId(name) => name,
            Resource::Cluster => "kafka-cluster",
        };
        !self.0.contains(&(operation, name))
    }
}

struct Counter(u128);

impl Ids for Counter {
    fn next(&mut self) -> [u8; 16] {
        self.0 += 1;
        self.0.to_be_bytes()
    }
}

#[derive(Default)]
struct TestNetwork {
    answers: HashMap<ConnectionId, Vec<u8>>,
    writes: VecDeque<u64>,
    log: Vec<u8>,
    /// Writes that go to another file than the control log's.
    journal: VecDeque<FileWrite>,
    durable: JournalPosition,
    /// After, through.
    failed: Vec<(JournalPosition, JournalPosition)>,
    /// The turns take long.
    is_late: bool,
}

impl Network for TestNetwork {
    fn answer(&mut self, connection: ConnectionId, write: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        let mut replies = Vec::new();
        write(&mut replies);
        assert!(self.answers.insert(connection, replies).is_none(), "a parked request is answered once");
        true
    }

    fn durable(&mut self, position: JournalPosition) {
        self.durable = position;
    }

    fn failed(&mut self, after: JournalPosition, through: JournalPosition) {
        self.failed.push((after, through));
    }

    fn has_time(&self) -> bool {
        !self.is_late
    }

    fn write(&mut self, write: FileWrite) {
        if write.file != CONTROL_FILE {
            self.journal.push_back(write);
            return;
        }
        assert_eq!(write.offset as usize, self.log.len());
        self.log.extend_from_slice(&write.data);
        self.writes.push_back(write.token);
    }
}

/// A server of some cores, with two listeners: `in` on port 9092 + core, `out.example` on 19092 + core.
pub(super) struct World {
    shards: Vec<Shard>,
    networks: Vec<TestNetwork>,
    pub(super) now: Now,
    pub(super) listener: ListenerIndex,
    next_connection: u64,
}

impl World {
    pub(super) fn new(cores: usize, settings: Settings) -> World {
        World::denying(cores, settings, &[])
    }

    fn denying(cores: usize, settings: Settings, denied: &[(Operation, &'static str)]) -> World {
        let mut in_memory = |_| -> (Journal, RunJob) {
            let no_job = Box::new(|_| unreachable!("memory has no files"));
            (Journal::Open(Box::new(MemoryStore::default())), no_job)
        };
        World::with_journals(cores, settings, denied, &mut in_memory)
    }

    fn with_journals(
        cores: usize,
        settings: Settings,
        denied: &[(Operation, &'static str)],
        journals: &mut dyn FnMut(usize) -> (Journal, RunJob),
    ) -> World {
        let settings = Arc::new(Settings { cores, ..settings });
        let endpoint = |core: usize| -> NodeEndpoints {
            vec![("in".into(), 9092 + core as u16), ("out.example".into(), 19092 + core as u16)]
        };
        let endpoints = (0..cores).map(endpoint).collect();
        let mut ids = Counter(1 << 100);
        let empty = replay(FILE_HEADER).expect("an empty log");
        let (control, frame) =
            Control::start(&empty, &settings, endpoints, Box::new(move || ids.next())).expect("a new cluster");
        let views = control.views();
        let mailboxes = Mailboxes::new((0..cores).map(|_| Arc::new(|| {}) as mailbox::Wake).collect());
        let now = Now { monotonic_ms: 1_000, unix_ms: 1_800_000_000_000 };
        let mut owner = Some(Owner { control, file: CONTROL_FILE });
        let mut networks: Vec<TestNetwork> = (0..cores).map(|_| TestNetwork::default()).collect();
        networks[0].log = [&FILE_HEADER[..], &frame].concat();
        let shard = |core: usize| {
            let (journal, run_job) = journals(core);
            let parts = ShardParts {
                core,
                settings: settings.clone(),
                cluster_id: "A".repeat(CLUSTER_ID_BYTES).into(),
                views: views.clone(),
                mailboxes: mailboxes.clone(),
                owner: owner.take(),
                groups: Groups::new(settings.group.clone(), settings.offsets.clone(), Box::new(Counter(0)), now),
                journal,
                run_job,
                authorizer: Box::new(Deny(denied.to_vec())),
                metrics: Arc::default(),
            };
            Shard::new(parts, now)
        };
        let shards = (0..cores).map(shard).collect();
        World { shards, networks, now, listener: ListenerIndex(0), next_connection: 0 }
    }

    /// Sends a request to a core; the answer's body, if there is one at once. Nothing else happens.
    fn send<'a>(
        &mut self,
        core: usize,
        api: ApiKey,
        version: i16,
        request: &impl Wire<'a>,
    ) -> (ConnectionId, Verdict, Option<Vec<u8>>) {
        let mut frame = Vec::new();
        let mut writer = Writer::new(&mut frame);
        let header = RequestHeader {
            api_key: api.number(),
            api_version: version,
            correlation_id: 77,
            client_id: Some("test".into()),
        };
        header.write(&mut writer, api.request_header_version(version));
        request.write(&mut writer, api.version(version));
        self.next_connection += 1;
        let connection = ConnectionId(self.next_connection);
        let peer = SocketAddr::from(([127, 0, 0, 1], 50_000));
        let mut session = Session { listener: self.listener, peer };
        let mut replies = Vec::new();
        let shard = &mut self.shards[core];
        shard.begin(self.now);
        let verdict = shard.request(connection, &mut session, &frame, &mut replies);
        let answer = (!replies.is_empty()).then(|| body(&replies, api, version));
        (connection, verdict, answer)
    }

    /// Lets the cores turn until nothing happens any more.
    pub(super) fn settle(&mut self) {
        let mut quiet_turns = 0;
        while quiet_turns < 2 {
            quiet_turns += 1;
            for (shard, network) in self.shards.iter_mut().zip(&mut self.networks) {
                shard.begin(self.now);
                shard.turn(self.now, network).expect("nothing fails");
                for token in std::mem::take(&mut network.writes) {
                    shard.written(token, Ok(()));
                    quiet_turns = 0;
                }
            }
        }
    }

    /// The answer of a parked request, if it has come.
    fn parked_answer(&mut self, core: usize, connection: ConnectionId, api: ApiKey, version: i16) -> Option<Vec<u8>> {
        let replies = self.networks[core].answers.remove(&connection)?;
        Some(body(&replies, api, version))
    }

    /// Sends a request and lets the cores turn; the body of its answer.
    pub(super) fn ask<'a>(&mut self, core: usize, api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
        let (connection, verdict, answer) = self.send(core, api, version, request);
        self.settle();
        match verdict {
            Verdict::Answered => answer.expect("an answer"),
            Verdict::Parked => self.parked_answer(core, connection, api, version).expect("a parked answer"),
            other => panic!("{} v{version}: {other:?}", api.name()),
        }
    }

    pub(super) fn advance(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
        self.settle();
    }
}

/// The body of the one reply frame in `replies`.
fn body(replies: &[u8], api: ApiKey, version: i16) -> Vec<u8> {
    let (size, frame) = replies.split_first_chunk::<4>().expect("a size");
    assert_eq!(i32::from_be_bytes(*size) as usize, frame.len());
    let mut cursor = Cursor::new(frame);
    let header = ResponseHeader::read(&mut cursor, api.response_header_version(version)).expect("a header");
    assert_eq!(header.correlation_id, 77);
    cursor.rest().to_vec()
}

/// Reads an answer; nothing may be left over.
pub(super) fn read<'a, T: Wire<'a>>(body: &'a [u8], api: ApiKey, version: i16) -> T {
    let mut cursor = Cursor::new(body);
    let message = T::read(&mut cursor, api.version(version)).expect("well formed");
    assert_eq!(cursor.remaining(), 0, "{} v{version}", api.name());
    message
}

/// All versions that are served.
pub(super) fn versions(api: ApiKey) -> std::ops::RangeInclusive<i16> {
    let served = api.api().served.expect("served");
    served.first..=served.last
}

//! A server of one core without sockets, in which one consumer has joined its group and committed.

use std::net::SocketAddr;
use std::sync::Arc;

use rallypoint::auth::AllowAll;
use rallypoint::clock::Now;
use rallypoint::config::{DeclaredTopic, Settings};
use rallypoint::control::log::{FILE_HEADER, replay};
use rallypoint::control::{Control, Views};
use rallypoint::group::{Groups, Ids};
use rallypoint::journal::store::MemoryStore;
use rallypoint::shard::mailbox::{Mailboxes, Wake};
use rallypoint::shard::service::{
    ConnectionId, FileWrite, JournalPosition, ListenerIndex, Network, Service, Session, Verdict,
};
use rallypoint::shard::{Journal, Owner, Shard, ShardParts};
use rallypoint::wire::find_coordinator::FindCoordinatorRequest;
use rallypoint::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use rallypoint::wire::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use rallypoint::wire::{ApiKey, Array, Cursor, RequestHeader, ResponseHeader, Wire, Writer};

pub(crate) const GROUP: &str = "orders-consumer-group-0042";
pub(crate) const CLIENT: &str = "orders-consumer-17";
pub(crate) const TOPIC: &str = "orders";

/// One consumer's server.
pub(crate) struct World {
    pub(crate) shard: Shard,
    pub(crate) views: Arc<Views>,
    pub(crate) member_id: String,
    pub(crate) now: Now,
    session: Session,
    network: Paper,
}

/// A network that only takes notes.
#[derive(Default)]
struct Paper {
    answer: Vec<u8>,
    writes: Vec<u64>,
}

impl Network for Paper {
    fn answer(&mut self, _: ConnectionId, write: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        write(&mut self.answer);
        true
    }

    fn durable(&mut self, _: JournalPosition) {}

    fn failed(&mut self, _: JournalPosition, _: JournalPosition) {}

    fn write(&mut self, write: FileWrite) {
        self.writes.push(write.token);
    }
}

pub(crate) struct CountedIds(pub(crate) u64);

impl Ids for CountedIds {
    fn next(&mut self) -> [u8; 16] {
        self.0 += 1;
        (u128::from(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(self.0)).to_be_bytes()
    }
}

/// A request frame, without its size.
pub(crate) fn frame<'a>(api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut writer = Writer::new(&mut frame);
    let header = RequestHeader {
        api_key: api.number(),
        api_version: version,
        correlation_id: 12_345,
        client_id: Some(CLIENT.into()),
    };
    header.write(&mut writer, api.request_header_version(version));
    request.write(&mut writer, api.version(version));
    frame
}

pub(crate) fn settings() -> Settings {
    let mut settings =
        Settings { topics: vec![DeclaredTopic { name: TOPIC.into(), partitions: Some(8) }], ..Settings::default() };
    settings.group.initial_rebalance_delay_ms = 0;
    settings
}

impl World {
    /// A new server; the consumer has joined.
    pub(crate) fn new() -> World {
        let settings = Arc::new(settings());
        let mut ids = CountedIds(7);
        let empty = replay(FILE_HEADER).expect("an empty log");
        let endpoints = vec![vec![("broker.example".to_owned(), 9092)]];
        let (control, _) =
            Control::start(&empty, &settings, endpoints, Box::new(move || ids.next())).expect("a new cluster");
        let views = control.views();
        let now = Now { monotonic_ms: 1_000, unix_ms: 1_800_000_000_000 };
        let parts = ShardParts {
            core: 0,
            settings: settings.clone(),
            cluster_id: "AAAAAAAAAAAAAAAAAAAAAA".into(),
            views: views.clone(),
            mailboxes: Mailboxes::new(vec![Arc::new(|| {}) as Wake]),
            owner: Some(Owner { control, file: 0 }),
            groups: Groups::new(settings.group.clone(), settings.offsets.clone(), Box::new(CountedIds(0)), now),
            journal: Journal::Open(Box::new(MemoryStore::default())),
            run_job: Box::new(|_| unreachable!("memory has no files")),
            authorizer: Box::new(AllowAll),
            metrics: Arc::default(),
        };
        let peer = SocketAddr::from(([10, 0, 0, 17], 50_000));
        let session = Session { listener: ListenerIndex(0), peer };
        let shard = Shard::new(parts, now);
        let mut world = World { shard, views, member_id: String::new(), now, session, network: Paper::default() };
        world.join();
        world
    }

    /// Executes one request.
    pub(crate) fn request(&mut self, frame: &[u8], replies: &mut Vec<u8>) -> Verdict {
        self.shard.request(ConnectionId(1), &mut self.session, frame, replies)
    }

    /// One turn of the core.
    pub(crate) fn turn(&mut self) {
        self.shard.begin(self.now);
        self.shard.turn(self.now, &mut self.network).expect("nothing fails");
        for token in std::mem::take(&mut self.network.writes) {
            self.shard.written(token, Ok(()));
        }
    }

    /// The body of a request's answer, whatever it waits for.
    fn ask<'a>(&mut self, api: ApiKey, version: i16, request: &impl Wire<'a>) -> Vec<u8> {
        self.shard.begin(self.now);
        let mut answer = Vec::new();
        if let Verdict::Parked = self.request(&frame(api, version, request), &mut answer) {
            self.turn();
            answer = std::mem::take(&mut self.network.answer);
        }
        // The journal of control needs two: to write, and to hear of it.
        (0..3).for_each(|_| self.turn());
        let mut cursor = Cursor::new(&answer[4..]);
        ResponseHeader::read(&mut cursor, api.response_header_version(version)).expect("a header");
        cursor.rest().to_vec()
    }

    fn join(&mut self) {
        self.ask(ApiKey::FindCoordinator, 0, &FindCoordinatorRequest { key: GROUP.into(), ..Default::default() });
        let mut generation_id = 0;
        for _ in 0..2 {
            let protocols = [JoinGroupRequestProtocol { name: "range".into(), metadata: &[0; 40] }];
            let request = JoinGroupRequest {
                group_id: GROUP.into(),
                session_timeout_ms: 45_000,
                rebalance_timeout_ms: 300_000,
                member_id: self.member_id.clone().into(),
                protocol_type: "consumer".into(),
                protocols: Array::Items(&protocols),
                ..Default::default()
            };
            let body = self.ask(ApiKey::JoinGroup, 9, &request);
            let version = ApiKey::JoinGroup.version(9);
            let answer = JoinGroupResponse::read(&mut Cursor::new(&body), version).expect("an answer");
            (self.member_id, generation_id) = (answer.member_id.into_owned(), answer.generation_id);
        }
        assert_eq!(generation_id, 1, "the consumer has joined");
        let assignments =
            [SyncGroupRequestAssignment { member_id: self.member_id.clone().into(), assignment: &[0; 60] }];
        let request = SyncGroupRequest {
            group_id: GROUP.into(),
            generation_id,
            member_id: self.member_id.clone().into(),
            assignments: Array::Items(&assignments),
            ..Default::default()
        };
        self.ask(ApiKey::SyncGroup, 5, &request);
    }
}

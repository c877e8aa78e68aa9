//! The owner's state machine: requests in, replies, log writes and snapshots out. No I/O: who drives it writes what
//! [`Outputs::append`] says, syncs it, and comes back with [`Control::synced`].
//!
//! One write is under way at a time. What comes meanwhile is collected and goes with the next one, so a storm of creations
//! costs few syncs. A reply leaves when everything that it rests on is durable and published. If the disk is full, what was not
//! written is taken back and refused, and what comes next is written in its place. After any other failure it is not known what
//! the log says: from then on changes are refused, while all that has been published goes on being served.

use super::answer::{FAILED, FULL, created, deleted, failed, refused};
use super::create::{self, Defaults, Refusal};
use super::log::{self, FILE_HEADER, Replay};
use super::record::Record;
use super::request::{
    CreateTopics, CreatedTopic, DeleteTopics, DeletedTopic, NewTopic, Reply, Request, Tag, TopicReference,
};
use super::state::State;
use super::view::{self, NodeEndpoints, Snapshots, Views};
use crate::config::Settings;
use crate::errors::ErrorCode;
use crate::ids::TopicId;
use crate::journal::store::{WriteFailure, is_full};

/// Where random ids come from: 16 random bytes at each call.
pub type RandomIds = Box<dyn FnMut() -> [u8; 16] + Send>;

/// The owner of all that belongs to no group.
pub struct Control {
    state: State,
    defaults: Defaults,
    endpoints: Vec<NodeEndpoints>,
    random_ids: RandomIds,
    log_end: u64,
    next_token: u64,
    table_epoch: u64,
    /// The internal topics of the newest table, published or about to be.
    table_ids: [Option<TopicId>; 3],
    collecting: Batch,
    writing: Option<Writing>,
    has_failed: bool,
    /// Writes in a row that found the disk full.
    full: u64,
    /// Topics that nobody waits for and that could not be created.
    refusals: u64,
}

/// What is done, and waits for the next write.
#[derive(Default)]
struct Batch {
    records: Vec<u8>,
    /// What takes them back, in their order.
    reverse: Vec<Record>,
    replies: Vec<(Tag, Reply)>,
}

/// A write that is under way, and what may leave once it is durable.
struct Writing {
    token: u64,
    end: u64,
    reverse: Vec<Record>,
    replies: Vec<(Tag, Reply)>,
    snapshots: Snapshots,
}

/// What is to be done now, in this order: publish, reply, append.
#[derive(Debug, Default)]
pub struct Outputs {
    /// To be published before the replies go.
    pub snapshots: Option<Snapshots>,
    /// By whom they are for.
    pub replies: Vec<(Tag, Reply)>,
    /// To be written and synced; one at a time.
    pub append: Option<Append>,
}

/// A write to the control log.
#[derive(Debug, PartialEq, Eq)]
pub struct Append {
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
    /// What [`Control::synced`] wants back.
    pub token: u64,
}

/// Why a log that reads well does not fit this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// As in Kafka, a data directory belongs to the node id that made it.
    #[error("the data directory belongs to node.id {recorded}, but node.id is {configured}")]
    NodeId {
        /// In the log.
        recorded: i32,
        /// In the settings.
        configured: i32,
    },
    /// The first records are missing.
    #[error("the control log does not say whose it is")]
    Incomplete,
}

impl Control {
    /// Goes on from what a log says; an empty one begins a new cluster. `endpoints` has a row for each core. The second
    /// value is what must be in the log, at its end and synced, before anything is served; empty if nothing is new.
    ///
    /// # Errors
    /// A log that is not of this node.
    pub fn start(
        replay: &Replay,
        settings: &Settings,
        endpoints: Vec<NodeEndpoints>,
        mut random_ids: RandomIds,
    ) -> Result<(Control, Vec<u8>), Mismatch> {
        check_owner(replay, settings)?;
        let mut state = State::new(settings.records_per_partition);
        let mut records = Vec::new();
        if replay.records.is_empty() {
            let record = Record::Cluster { id: new_id(&mut random_ids).0, first_node_id: settings.node_id };
            record.encode(&mut records);
            state.apply(&record);
        }
        replay.records.iter().for_each(|record| state.apply(record));
        let nodes = u16::try_from(endpoints.len()).expect("fewer than 65536 cores");
        if let Some(record) = state.nodes_record(nodes) {
            record.encode(&mut records);
            state.apply(&record);
        }
        let mut control = Control {
            table_ids: [None; 3],
            state,
            defaults: Defaults::new(settings),
            endpoints,
            random_ids,
            log_end: replay.end,
            next_token: 0,
            table_epoch: 1,
            collecting: Batch { records, ..Batch::default() },
            writing: None,
            has_failed: false,
            full: 0,
            refusals: 0,
        };
        for topic in &settings.topics {
            control.declare(&topic.name, topic.partitions);
        }
        control.table_ids = view::internal_ids(&control.state);
        let first_frame = control.take_frame();
        control.collecting = Batch::default();
        control.log_end += first_frame.len() as u64;
        Ok((control, first_frame))
    }

    /// The snapshots of the start, once what `start` gave is durable.
    pub fn views(&self) -> std::sync::Arc<Views> {
        let table = view::table(self.table_epoch, &self.state, &self.endpoints);
        Views::new(table, self.state.catalogue().clone())
    }

    /// Random at the first start, and the same ever after.
    pub fn cluster_id(&self) -> [u8; 16] {
        self.state.cluster_id()
    }

    /// A shorter log that says the same, if it is worth it; only before the first request. It takes the old one's place.
    pub fn compacted(&mut self) -> Option<Vec<u8>> {
        const WORTHWHILE_BYTES: u64 = 1 << 20;
        assert!(self.writing.is_none() && self.collecting.records.is_empty(), "before the first request");
        if self.log_end < WORTHWHILE_BYTES {
            return None;
        }
        let mut records = Vec::new();
        self.state.records().iter().for_each(|record| record.encode(&mut records));
        let mut file = FILE_HEADER.to_vec();
        file.extend(log::frame(FILE_HEADER.len() as u64, &records));
        if file.len() as u64 > self.log_end / 2 {
            return None;
        }
        self.log_end = file.len() as u64;
        Some(file)
    }

    /// Takes a request; its reply comes out of this or a later call.
    pub fn handle(&mut self, request: Request, tag: Tag) -> Outputs {
        let reply = match request {
            Request::AutoCreate { names } => {
                names.iter().for_each(|name| self.create_unasked(&self.defaults.auto_topic(name)));
                Reply::AutoCreated { names }
            }
            Request::CreateInternal(kind) => {
                self.create_unasked(&self.defaults.internal_topic(kind));
                Reply::CreatedInternal(kind)
            }
            Request::CreateTopics(request) => Reply::CreatedTopics(self.create_topics(&request)),
            Request::DeleteTopics(request) => Reply::DeletedTopics(self.delete_topics(request)),
        };
        self.collecting.replies.push((tag, reply));
        let mut outputs = Outputs::default();
        self.go_on(&mut outputs);
        outputs
    }

    /// The write of that token has ended.
    pub fn synced(&mut self, token: u64, result: Result<(), WriteFailure>) -> Outputs {
        let writing = self.writing.take().expect("a write was under way");
        assert_eq!(writing.token, token, "the write that was under way");
        let mut outputs = Outputs::default();
        match result {
            Ok(()) => {
                self.log_end = writing.end;
                if std::mem::take(&mut self.full) > 0 {
                    tracing::info!("the control log is written again");
                }
                outputs.snapshots = Some(writing.snapshots);
                outputs.replies = writing.replies;
            }
            Err(WriteFailure::Write(error)) if is_full(&error) => {
                self.full += 1;
                // Clients ask again and again.
                if self.full.is_power_of_two() {
                    let times = self.full;
                    tracing::warn!(%error, times, "the control log cannot grow: topics cannot be changed until there is space");
                }
                outputs.replies = self.take_back(writing, FULL);
            }
            Err(error) => {
                tracing::error!(%error, "the control log cannot be written: topics cannot be changed until a restart");
                self.has_failed = true;
                outputs.replies = self.take_back(writing, FAILED);
            }
        }
        self.go_on(&mut outputs);
        outputs
    }

    /// Makes the state again what the log says, without what was to be written and what came meanwhile; their replies.
    fn take_back(&mut self, writing: Writing, why: &'static str) -> Vec<(Tag, Reply)> {
        let waiting = std::mem::take(&mut self.collecting);
        writing.reverse.iter().chain(&waiting.reverse).rev().for_each(|record| self.state.apply(record));
        self.table_ids = view::internal_ids(&self.state);
        writing.replies.into_iter().chain(waiting.replies).map(|reply| failed(why, reply)).collect()
    }

    /// Starts the next write if there is something to write, and lets replies go that rest on no write.
    fn go_on(&mut self, outputs: &mut Outputs) {
        if self.writing.is_some() {
            return;
        }
        if self.collecting.records.is_empty() {
            let replies = std::mem::take(&mut self.collecting.replies);
            outputs.replies.extend(replies);
            return;
        }
        let bytes = self.take_frame();
        let token = self.next_token;
        self.next_token += 1;
        let ids = view::internal_ids(&self.state);
        let table = (ids != self.table_ids).then(|| {
            self.table_ids = ids;
            self.table_epoch += 1;
            view::table(self.table_epoch, &self.state, &self.endpoints)
        });
        self.writing = Some(Writing {
            token,
            end: self.log_end + bytes.len() as u64,
            reverse: std::mem::take(&mut self.collecting.reverse),
            replies: std::mem::take(&mut self.collecting.replies),
            snapshots: Snapshots { catalogue: self.state.catalogue().clone(), table },
        });
        outputs.append = Some(Append { offset: self.log_end, bytes, token });
    }

    fn take_frame(&mut self) -> Vec<u8> {
        let records = std::mem::take(&mut self.collecting.records);
        if records.is_empty() { Vec::new() } else { log::frame(self.log_end, &records) }
    }

    fn declare(&mut self, name: &str, partitions: Option<i32>) {
        if let Some(topic) = self.state.catalogue().by_name(name) {
            if let Some(wanted) = partitions.filter(|&wanted| wanted as usize != topic.partitions.len()) {
                let has = topic.partitions.len();
                tracing::warn!(name, has, wanted, "a declared topic exists with another number of partitions");
            }
            return;
        }
        let mut topic = self.defaults.auto_topic(name);
        topic.num_partitions = partitions.unwrap_or(topic.num_partitions);
        if let Err(Refusal { error_code, message }) = self.create(&topic) {
            tracing::warn!(name, error = ?error_code, message, "a declared topic cannot be created");
        }
    }

    /// Creates a topic that no CreateTopics asked for; one that exists is as good.
    fn create_unasked(&mut self, topic: &NewTopic) {
        if self.has_failed || self.state.catalogue().by_name(&topic.name).is_some() {
            return;
        }
        if let Err(refusal) = self.create(topic) {
            self.refusals += 1;
            // Whoever asks for such names without end must not fill the log.
            if self.refusals.is_power_of_two() {
                let (name, error, times) = (&topic.name, refusal.error_code, self.refusals);
                tracing::warn!(name, ?error, refusal.message, times, "a topic that was asked for cannot be created");
            }
        }
    }

    fn create(&mut self, topic: &NewTopic) -> Result<CreatedTopic, Refusal> {
        let id = new_id(&mut self.random_ids);
        let record = create::validate(topic, id, &self.state, &self.defaults)?;
        let created = created(&record);
        self.apply(Record::Topic(record));
        Ok(created)
    }

    fn create_topics(&mut self, request: &CreateTopics) -> Vec<CreatedTopic> {
        if let Err(refusal) = self.refuse_all(request) {
            return request.topics.iter().map(|topic| refused(topic, refusal.clone())).collect();
        }
        let mut answers = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let answer = if request.validate_only {
                let id = new_id(&mut self.random_ids);
                create::validate(topic, id, &self.state, &self.defaults).map(|record| created(&record))
            } else {
                self.create(topic)
            };
            answers.push(answer.unwrap_or_else(|refusal| refused(topic, refusal)));
        }
        answers
    }

    fn refuse_all(&self, request: &CreateTopics) -> Result<(), Refusal> {
        if request.timeout_ms <= 0 {
            let message = "no time to wait for the creation".into();
            return Err(Refusal { error_code: ErrorCode::REQUEST_TIMED_OUT, message });
        }
        if self.has_failed {
            return Err(Refusal { error_code: ErrorCode::KAFKA_STORAGE_ERROR, message: FAILED.into() });
        }
        create::check_total(request.topics.iter(), &self.defaults)
    }

    fn delete_topics(&mut self, request: DeleteTopics) -> Vec<DeletedTopic> {
        let refusal = match () {
            () if request.timeout_ms <= 0 => Some(ErrorCode::REQUEST_TIMED_OUT),
            // The log may say more or less than what is in memory.
            () if self.has_failed => Some(ErrorCode::KAFKA_STORAGE_ERROR),
            () => None,
        };
        let delete = |reference| match refusal {
            Some(error_code) => deleted(reference, TopicId::ZERO, error_code),
            None => self.delete(reference),
        };
        request.topics.into_iter().map(delete).collect()
    }

    fn delete(&mut self, reference: TopicReference) -> DeletedTopic {
        let (topic, unknown) = match &reference {
            TopicReference::Name(name) => (self.state.catalogue().by_name(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            TopicReference::Id(id) => (self.state.catalogue().by_id(*id), ErrorCode::UNKNOWN_TOPIC_ID),
        };
        let Some(topic) = topic.cloned() else {
            return deleted(reference, TopicId::ZERO, unknown);
        };
        let error_code = if topic.is_internal() {
            // Kafka deletes them and their groups. Here groups live where the offsets topic's leaders are.
            ErrorCode::INVALID_REQUEST
        } else {
            self.apply(Record::TopicDeleted { id: topic.id });
            ErrorCode::NONE
        };
        DeletedTopic { name: Some(topic.name.to_string()), ..deleted(reference, topic.id, error_code) }
    }

    fn apply(&mut self, record: Record) {
        record.encode(&mut self.collecting.records);
        self.collecting.reverse.push(self.state.reverse_of(&record));
        self.state.apply(&record);
    }
}

/// Whether a log is this node's; an empty one is anybody's.
///
/// # Errors
/// [`Mismatch`].
pub fn check_owner(replay: &Replay, settings: &Settings) -> Result<(), Mismatch> {
    let owner = |record: &Record| match record {
        Record::Cluster { first_node_id, .. } => Some(*first_node_id),
        _ => None,
    };
    match replay.records.iter().rev().find_map(owner) {
        None if !replay.records.is_empty() => Err(Mismatch::Incomplete),
        Some(recorded) if recorded != settings.node_id => {
            Err(Mismatch::NodeId { recorded, configured: settings.node_id })
        }
        _ => Ok(()),
    }
}

/// Kafka's tools take an argument that begins with a dash for an option, so its ids never do; nor do ours.
fn new_id(random_ids: &mut RandomIds) -> TopicId {
    const FIRST_SIX_BITS_OF_DASH: u8 = 62;
    loop {
        let id = TopicId::from_random(random_ids());
        if id.0[0] >> 2 != FIRST_SIX_BITS_OF_DASH {
            return id;
        }
    }
}

#[cfg(test)]
mod tests;

//! What the owner of a server has set, checked and typed.
//!
//! [`load()`] puts it together from the command line and a Kafka properties file by one table of properties ([`keys`]);
//! [`ports`] derives which port each core has. Nothing here listens, and only one function reads a file.

mod arguments;
mod check;
mod describe;
mod endpoint;
mod kafka_keys;
pub mod keys;
mod listeners;
mod load;
mod origin;
pub mod ports;
mod properties;
mod refuse;
mod topics;
pub mod value;

use std::path::PathBuf;

pub use arguments::ServeArguments;
pub use describe::{Format, describe, effective};
pub use endpoint::{host_and_port, is_wildcard};
pub use load::{Loaded, load, load_all};
pub use origin::{ConfigError, Notice, Origin, Problem};

use crate::group::settings::{GroupSettings, OffsetSettings};
use crate::journal::store::Durability;

/// All settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `node.id`: the node id of core 0; core i has `node_id + i`.
    pub node_id: i32,
    /// `--cores`.
    pub cores: usize,
    /// `log.dirs`.
    pub data_dir: PathBuf,
    /// `listeners` with their advertised endpoints; at least one.
    pub listeners: Vec<Listener>,
    /// `rallypoint.core.port.stride`: distance of the cores' own ports; computed when `None`.
    pub core_port_stride: Option<u16>,
    /// `--metrics`: host (without brackets) and port where metrics are served.
    pub metrics: Option<(String, u16)>,
    /// `--topic`: topics that exist from the start on.
    pub topics: Vec<DeclaredTopic>,
    /// `rallypoint.topic.records`: records that each partition of a topic holds.
    pub records_per_partition: i64,
    /// `rallypoint.journal.mode`: when a commit is acknowledged.
    pub journal_mode: Durability,
    /// `rallypoint.journal.segment.bytes`.
    pub journal_segment_bytes: u64,
    /// `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// `queued.max.request.bytes`, over all cores.
    pub queued_requests_max_bytes: usize,
    /// `max.connections`, over all cores.
    pub max_connections: usize,
    /// `max.connections.per.ip`, over all cores.
    pub max_connections_per_ip: usize,
    /// `connections.max.idle.ms`; negative: never.
    pub connections_max_idle_ms: i64,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`: otherwise DeleteTopics answers TOPIC_DELETION_DISABLED.
    pub delete_topics: bool,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `offsets.topic.num.partitions` and `offsets.topic.replication.factor`.
    pub offsets_topic: InternalTopicSettings,
    /// `transaction.state.log.num.partitions` and `transaction.state.log.replication.factor`.
    pub transaction_topic: InternalTopicSettings,
    /// `share.coordinator.state.topic.num.partitions` and `share.coordinator.state.topic.replication.factor`.
    pub share_state_topic: InternalTopicSettings,
    /// The classic group protocol.
    pub group: GroupSettings,
    /// Committed offsets.
    pub offsets: OffsetSettings,
}

/// One listener: where it binds and what it tells clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Kafka's listener name, for example `PLAINTEXT`.
    pub name: String,
    /// The host or address to bind, without brackets; `0.0.0.0` or `::` for all.
    pub bind_host: String,
    /// The bootstrap port; 0 is not allowed.
    pub bind_port: u16,
    /// The host that clients are told.
    pub advertised_host: String,
    /// The port that clients are told; cores' own ports are offset from it as from the bound one.
    pub advertised_port: u16,
}

/// A topic named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTopic {
    /// A legal topic name.
    pub name: String,
    /// `None`: `num.partitions`.
    pub partitions: Option<i32>,
}

/// How an internal topic is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopicSettings {
    /// At least 1.
    pub partitions: i32,
    /// At least 1; above the number of nodes its creation is refused.
    pub replication_factor: i16,
}

impl Default for InternalTopicSettings {
    fn default() -> Self {
        InternalTopicSettings { partitions: 50, replication_factor: 1 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            node_id: 1,
            cores: 1,
            data_dir: PathBuf::from("./rallypoint-data"),
            listeners: vec![Listener {
                name: "PLAINTEXT".into(),
                bind_host: "127.0.0.1".into(),
                bind_port: 9092,
                advertised_host: "127.0.0.1".into(),
                advertised_port: 9092,
            }],
            core_port_stride: None,
            metrics: None,
            topics: Vec::new(),
            records_per_partition: 1_000,
            journal_mode: Durability::Fsync,
            journal_segment_bytes: 16 << 20,
            request_max_bytes: crate::limits::REQUEST_MAX_BYTES,
            queued_requests_max_bytes: crate::limits::QUEUED_REQUESTS_MAX_BYTES,
            max_connections: i32::MAX as usize,
            max_connections_per_ip: i32::MAX as usize,
            connections_max_idle_ms: 600_000,
            auto_create_topics: true,
            delete_topics: true,
            num_partitions: 1,
            default_replication_factor: 1,
            offsets_topic: InternalTopicSettings::default(),
            transaction_topic: InternalTopicSettings::default(),
            share_state_topic: InternalTopicSettings::default(),
            group: GroupSettings::default(),
            offsets: OffsetSettings::default(),
        }
    }
}

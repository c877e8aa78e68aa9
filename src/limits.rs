//! Every bound that a peer can run into, in one place. Each has a test at the limit and one past it.

/// Default of `socket.request.max.bytes`: the largest request frame, in bytes.
pub const REQUEST_MAX_BYTES: usize = 104_857_600;

/// Unsent reply bytes of one connection above which it is no longer read.
pub const CONNECTION_OUTPUT_MAX_BYTES: usize = 1 << 20;

/// Received bytes that one connection may have waiting behind a parked request before it is no longer read.
pub const CONNECTION_BACKLOG_MAX_BYTES: usize = 64 << 10;

/// A reply that makes no progress for this long ends its connection, in milliseconds.
pub const SEND_STALL_MAX_MS: u64 = 30_000;

/// The most records that a partition may seem to hold.
pub const RECORDS_PER_PARTITION_MAX: i64 = 1_000_000_000_000;

/// Partitions that one CreateTopics may make, as in Kafka (POLICY_VIOLATION above).
pub const CREATE_PARTITIONS_MAX: usize = 10_000;

/// Topics that may exist.
pub const TOPICS_MAX: usize = 50_000;

/// Partitions that all topics together may have.
pub const PARTITIONS_MAX: usize = 1_000_000;

/// Bytes of all configs that a topic may set.
pub const TOPIC_CONFIGS_MAX_BYTES: usize = 16 << 10;

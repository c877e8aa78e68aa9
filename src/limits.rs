//! Every bound that a peer can run into, in one place. Each has a test at the limit and one past it.

/// Default of `socket.request.max.bytes`: the largest request frame, in bytes.
pub const REQUEST_MAX_BYTES: usize = 104_857_600;

/// Unsent reply bytes of one connection above which it is no longer read.
pub const CONNECTION_OUTPUT_MAX_BYTES: usize = 1 << 20;

/// Received bytes that one connection may have waiting behind a parked request before it is no longer read.
pub const CONNECTION_BACKLOG_MAX_BYTES: usize = 64 << 10;

/// A reply that makes no progress for this long ends its connection, in milliseconds.
pub const SEND_STALL_MAX_MS: u64 = 30_000;

/// Groups of one core. A JoinGroup or OffsetCommit that would make one more is answered COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_MAX: usize = 1 << 22;

/// Member ids of one core that were handed out (MEMBER_ID_REQUIRED) and have not joined yet. Above it a newcomer is answered
/// COORDINATOR_NOT_AVAILABLE, until some are forgotten with their session time-outs.
pub const PENDING_MEMBERS_MAX: usize = 1 << 18;

/// Protocols that one member may propose; more are answered INVALID_REQUEST.
pub const MEMBER_PROTOCOLS_MAX: usize = 512;

/// Bytes of the names and metadata of all protocols that one member proposes; more are answered INVALID_REQUEST.
pub const MEMBER_METADATA_MAX_BYTES: usize = 4 << 20;

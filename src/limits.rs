//! Every bound that a peer can run into, in one place. Each has a test at the limit and one past it.

/// Default of `socket.request.max.bytes`: the largest request frame, in bytes.
pub const REQUEST_MAX_BYTES: usize = 104_857_600;

/// Unsent reply bytes of one connection above which it is no longer read.
pub const CONNECTION_OUTPUT_MAX_BYTES: usize = 1 << 20;

/// Received bytes that one connection may have waiting behind a parked request before it is no longer read.
pub const CONNECTION_BACKLOG_MAX_BYTES: usize = 64 << 10;

/// A reply that makes no progress for this long ends its connection, in milliseconds.
pub const SEND_STALL_MAX_MS: u64 = 30_000;

/// `rallypoint.cores`: more than this is a slip of the keyboard.
pub const CORES_MAX: i32 = 1_024;

/// Listeners of a server; a connection knows its own by an index of 8 bits.
pub const LISTENERS_MAX: usize = 64;

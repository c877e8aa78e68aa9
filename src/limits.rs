//! Every bound that a peer can run into, in one place. Each has a test at the limit and one past it.

/// Default of `socket.request.max.bytes`: the largest request frame, in bytes.
pub const REQUEST_MAX_BYTES: usize = 104_857_600;

/// Unsent reply bytes of one connection above which it is no longer read.
pub const CONNECTION_OUTPUT_MAX_BYTES: usize = 1 << 20;

/// Received bytes that one connection may have waiting behind a parked request before it is no longer read.
pub const CONNECTION_BACKLOG_MAX_BYTES: usize = 64 << 10;

/// Requests of one connection that are executed in one turn of its core; then the others have theirs.
pub const CONNECTION_REQUESTS_PER_TURN: u32 = 64;

/// What connections together have of a turn if all of them had more to say than the turn before let them: so that whoever asks
/// for little does not wait for very many who ask without end.
pub const UNFINISHED_REQUESTS_PER_TURN: u32 = 1_024;

/// What each of them has at least.
pub const CONNECTION_REQUESTS_PER_TURN_MIN: u32 = 4;

/// A turn that has taken so many microseconds leaves the answers of parked requests to the next one.
pub const TURN_BUDGET_US: u64 = 500;

/// A turn that has taken so many microseconds leaves the rest of what has come in to the next one.
pub const RECEIVE_BUDGET_US: u64 = 1_000;

/// So many completions are taken between two looks at the clock.
pub const COMPLETIONS_BETWEEN_LOOKS: usize = 8;

/// Connections whose kept requests a turn goes on with though it has no time left.
pub const CONNECTIONS_OF_A_LATE_TURN: usize = 8;

/// The most that is handed to the kernel of one connection's replies at a time.
pub const SEND_MAX_BYTES: usize = 256 << 10;

/// Sends up to this size go out in the turn in which they come up.
pub const SMALL_SEND_MAX_BYTES: usize = 16 << 10;

/// What the larger ones may have together of one turn (and the one that passes it): to copy them takes time.
pub const LARGE_SENDS_PER_TURN_BYTES: usize = 1 << 20;

/// Connections that a core takes up in one turn; those that wait behind them have been accepted.
pub const ADMISSIONS_PER_TURN: usize = 64;

/// Default of `queued.max.request.bytes`: what all connections together may have received and not executed, large frames that
/// are under way above all. Above it, the connection that has most of it is closed.
pub const QUEUED_REQUESTS_MAX_BYTES: usize = 1 << 30;

/// Reply bytes that the peers of one core may leave unread, all together; what is sent at once counts until its last byte is
/// out. Above it, the connection is closed that has kept most waiting for longest.
pub const UNREAD_REPLIES_MAX_BYTES: usize = 256 << 20;

/// The largest request that names topics, partitions or groups one by one, which is every request but JoinGroup, SyncGroup and
/// Produce. A larger one closes its connection.
pub const REQUEST_OF_ROWS_MAX_BYTES: usize = 4 << 20;

/// Topics that one Metadata may name; more are answered INVALID_REQUEST.
pub const METADATA_TOPICS_MAX: usize = 100_000;

/// The largest reply; a request whose reply would be larger closes its connection.
pub const RESPONSE_MAX_BYTES: usize = 128 << 20;

/// A reply that makes no progress for this long ends its connection, in milliseconds.
pub const SEND_STALL_MAX_MS: u64 = 30_000;

/// The largest record of a journal, key, value and header together; a group whose metadata is larger is refused.
pub const JOURNAL_ENTRY_MAX_BYTES: usize = 32 << 20;

/// Bytes that may wait for a journal's disk before it refuses appends.
pub const JOURNAL_PENDING_MAX_BYTES: usize = 64 << 20;

/// The largest single write to a journal's segment, unless one record is larger.
pub const JOURNAL_WRITE_MAX_BYTES: usize = 4 << 20;

/// The most records that a partition may seem to hold.
pub const RECORDS_PER_PARTITION_MAX: i64 = 1_000_000_000_000;

/// Partitions that one CreateTopics may make, as in Kafka (POLICY_VIOLATION above).
pub const CREATE_PARTITIONS_MAX: usize = 10_000;

/// Topics that one CreateTopics or DeleteTopics may name; more are answered POLICY_VIOLATION, and nothing is changed.
pub const CHANGED_TOPICS_MAX: usize = 10_000;

/// Configs that one CreateTopics may set, for all its topics together (POLICY_VIOLATION above).
pub const CREATE_CONFIGS_MAX: usize = 100_000;

/// Bytes of all CreateTopics and DeleteTopics of one core that wait for control; one that would make them more is answered
/// REQUEST_TIMED_OUT, which lets clients ask again.
pub const CHANGES_UNDER_WAY_MAX_BYTES: usize = 64 << 20;

/// Topics that may exist.
pub const TOPICS_MAX: usize = 50_000;

/// Partitions that all topics together may have.
pub const PARTITIONS_MAX: usize = 1_000_000;

/// Bytes of all configs that a topic may set.
pub const TOPIC_CONFIGS_MAX_BYTES: usize = 16 << 10;

/// `rallypoint.cores`: more than this is a slip of the keyboard.
pub const CORES_MAX: i32 = 1_024;

/// Listeners of a server; a connection knows its own by an index of 8 bits.
pub const LISTENERS_MAX: usize = 64;

/// A group of more members than this is worked at in pieces of so many members, one in each turn of its core.
pub const MEMBERS_PER_PIECE: u32 = 2_000;

/// Groups of one core. A JoinGroup or OffsetCommit that would make one more is answered COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_MAX: usize = 1 << 22;

/// Memory of one core's groups: ids, what members say of themselves and are assigned, offsets, and a rough sum for what is kept
/// around them. What would grow above it is answered COORDINATOR_NOT_AVAILABLE; who is there already goes on.
pub const GROUP_MEMORY_MAX_BYTES: usize = 4 << 30;

/// Member ids of one core that were handed out (MEMBER_ID_REQUIRED) and have not joined yet. One more, and the oldest is
/// forgotten before its time; its client is told UNKNOWN_MEMBER_ID, and asks for another.
pub const PENDING_MEMBERS_MAX: usize = 1 << 18;

/// Bytes of these ids, which begin with what clients call themselves; above it the same happens.
pub const PENDING_MEMBERS_MAX_BYTES: usize = 64 << 20;

/// Protocols that one member may propose; more are answered INVALID_REQUEST.
pub const MEMBER_PROTOCOLS_MAX: usize = 512;

/// Bytes of the names and metadata of all protocols that one member proposes; more are answered INVALID_REQUEST.
pub const MEMBER_METADATA_MAX_BYTES: usize = 4 << 20;

/// Bytes of each name that is written to the journal: group, client and instance ids and the type and names of protocols. Longer ones, which
/// come about when invalid UTF-8 is replaced, would not come back as they were. They are answered INVALID_GROUP_ID or INVALID_REQUEST.
pub const NAME_MAX_BYTES: usize = i16::MAX as usize;

/// Topics that one core may have asked to be created by look-ups, without having heard of them yet; more names are left out,
/// and their clients ask again.
pub const AUTO_CREATIONS_UNDER_WAY_MAX: usize = 10_000;

/// Bytes of records in one answer to Fetch, whatever the client allows: making them must not hold up the core's heartbeats.
/// The first batch goes even if it is larger.
pub const FETCH_RESPONSE_MAX_BYTES: usize = 256 << 10;

/// Partitions of a Fetch that may wait; a larger one is answered at once with what there is.
pub const WAITING_FETCH_PARTITIONS_MAX: usize = 10_000;

/// Partitions of all Fetches of a core that wait; one that would make them more is answered at once.
pub const WAITING_FETCHES_PARTITIONS_MAX: usize = 1_000_000;

/// Bytes of a request to the metrics endpoint, headers included.
pub const METRICS_REQUEST_MAX_BYTES: usize = 8 << 10;

/// How long a request to the metrics endpoint may take once it is taken up, in milliseconds.
pub const METRICS_REQUEST_MAX_MS: u64 = 5_000;

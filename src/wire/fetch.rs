//! Fetch (1), v0 to v18.
//!
//! v0 and v1 may be answered with records of magic 0 only, v2 and v3 up to 1, v4 and later up to 2; zstd only from v10
//! on. v1 adds the throttle time. v3 adds the maximum of the whole answer. v4 adds the isolation level, the last stable
//! offset and the aborted transactions. v5 adds the log start offset. v6 is v5. v7 adds sessions (KIP-227). v8 is v7.
//! v9 adds the current leader epoch (KIP-320). v10 is v9. v11 adds rack and preferred replica (KIP-392). v12 is
//! flexible and adds the diverging epoch (KIP-595). v13 has topic ids for names (KIP-516). v14 is v13. v15 moves the
//! replica id into a tagged struct (KIP-903). v16 adds node endpoints to the answer (KIP-951). v17 adds the directory
//! id (KIP-853). v18 adds the high watermark (KIP-1166).
//!
//! The records of the answer are bytes here. Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "Give me what comes after these offsets." May be parked until there is enough, or the wait is over.
    pub struct FetchRequest<'a> {
        cluster_id: Option<Cow<'a, str>> = 12.., null 12.., tag 0;
        /// -1 for a consumer.
        replica_id: i32 = 0..=14, default -1;
        replica_state: ReplicaState = 15.., tag 1;
        max_wait_ms: i32 = 0..;
        min_bytes: i32 = 0..;
        max_bytes: i32 = 3.., default i32::MAX;
        isolation_level: i8 = 4..;
        session_id: i32 = 7..;
        /// -1 with session 0 is a fetch without a session.
        session_epoch: i32 = 7.., default -1;
        topics: Array<'a, FetchTopic<'a>> = 0..;
        forgotten_topics_data: Array<'a, ForgottenTopic<'a>> = 7..;
        rack_id: Cow<'a, str> = 11..;
    }

    /// Which broker asks; both -1 for a consumer.
    pub struct ReplicaState {
        replica_id: i32 = 15.., default -1;
        replica_epoch: i64 = 15.., default -1;
    }

    /// A topic, to v12 by name, from v13 on by id.
    pub struct FetchTopic<'a> {
        topic: Cow<'a, str> = 0..=12;
        topic_id: Uuid = 13..;
        partitions: Array<'a, FetchPartition> = 0..;
    }

    /// A partition and where to begin.
    pub struct FetchPartition {
        partition: i32 = 0..;
        current_leader_epoch: i32 = 9.., default -1;
        fetch_offset: i64 = 0..;
        last_fetched_epoch: i32 = 12.., default -1;
        log_start_offset: i64 = 5.., default -1;
        partition_max_bytes: i32 = 0..;
        replica_directory_id: Uuid = 17.., tag 0;
        high_watermark: i64 = 18.., default i64::MAX, tag 1;
    }

    /// Partitions that leave the session.
    pub struct ForgottenTopic<'a> {
        topic: Cow<'a, str> = 7..=12;
        topic_id: Uuid = 13..;
        partitions: Array<'a, i32> = 7..;
    }

    /// The answer.
    pub struct FetchResponse<'a> {
        throttle_time_ms: i32 = 1..;
        error_code: i16 = 7..;
        session_id: i32 = 7..;
        responses: Array<'a, FetchableTopicResponse<'a>> = 0..;
        node_endpoints: Array<'a, NodeEndpoint<'a>> = 16.., tag 0;
    }

    /// A topic and its partitions.
    pub struct FetchableTopicResponse<'a> {
        topic: Cow<'a, str> = 0..=12;
        topic_id: Uuid = 13..;
        partitions: Array<'a, PartitionData<'a>> = 0..;
    }

    /// What a partition has.
    pub struct PartitionData<'a> {
        partition_index: i32 = 0..;
        error_code: i16 = 0..;
        high_watermark: i64 = 0..;
        last_stable_offset: i64 = 4.., default -1;
        log_start_offset: i64 = 5.., default -1;
        diverging_epoch: EpochEndOffset = 12.., tag 0;
        current_leader: LeaderIdAndEpoch = 12.., tag 1;
        snapshot_id: SnapshotId = 12.., tag 2;
        aborted_transactions: Option<Array<'a, AbortedTransaction>> = 4.., default Some(Array::EMPTY), null 4..;
        preferred_read_replica: i32 = 11.., default -1;
        /// An empty set has length 0: old clients do not expect null.
        records: Option<&'a [u8]> = 0.., null 0..;
    }

    /// Where the logs diverge; -1 and -1 when they do not.
    pub struct EpochEndOffset {
        epoch: i32 = 12.., default -1;
        end_offset: i64 = 12.., default -1;
    }

    /// The leader, when the asked node is not; -1 and -1 when it is.
    pub struct LeaderIdAndEpoch {
        leader_id: i32 = 12.., default -1;
        leader_epoch: i32 = 12.., default -1;
    }

    /// For followers of the metadata log only.
    pub struct SnapshotId {
        end_offset: i64 = 12.., default -1;
        epoch: i32 = 12.., default -1;
    }

    /// A transaction whose records are to be left out.
    pub struct AbortedTransaction {
        producer_id: i64 = 4..;
        first_offset: i64 = 4..;
    }

    /// Where a node named by `current_leader` is.
    pub struct NodeEndpoint<'a> {
        node_id: i32 = 16..;
        host: Cow<'a, str> = 16..;
        port: i32 = 16..;
        rack: Option<Cow<'a, str>> = 16.., null 16..;
    }
}

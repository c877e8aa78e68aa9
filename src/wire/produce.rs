//! Produce (0), v0 to v13.
//!
//! v0 and v1 carry records of magic 0, v2 up to 1, v3 and later one batch of magic 2; zstd only from v7 on. v1 adds the
//! throttle time, which comes last. v2 adds the append time. v3 adds the transactional id. v4 is v3. v5 adds the log
//! start offset. v6 and v7 are v5. v8 adds the errors of records (KIP-467). v9 is flexible. v10 names the leader in the
//! answer (KIP-951). v11 and v12 are v10. v13 has topic ids for names (KIP-516).
//!
//! With acks 0 there is no answer at all. The records are bytes here. Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "Append these."
    pub struct ProduceRequest<'a> {
        transactional_id: Option<Cow<'a, str>> = 3.., null 3..;
        /// 0 for no answer, 1 for the leader's, -1 for that of all in-sync replicas.
        acks: i16 = 0..;
        timeout_ms: i32 = 0..;
        topic_data: Array<'a, TopicProduceData<'a>> = 0..;
    }

    /// A topic, to v12 by name, from v13 on by id.
    pub struct TopicProduceData<'a> {
        name: Cow<'a, str> = 0..=12;
        topic_id: Uuid = 13..;
        partition_data: Array<'a, PartitionProduceData<'a>> = 0..;
    }

    /// A partition and its records.
    pub struct PartitionProduceData<'a> {
        index: i32 = 0..;
        records: Option<&'a [u8]> = 0.., null 0..;
    }

    /// The answer.
    pub struct ProduceResponse<'a> {
        responses: Array<'a, TopicProduceResponse<'a>> = 0..;
        throttle_time_ms: i32 = 1..;
        node_endpoints: Array<'a, NodeEndpoint<'a>> = 10.., tag 0;
    }

    /// A topic and its partitions.
    pub struct TopicProduceResponse<'a> {
        name: Cow<'a, str> = 0..=12;
        topic_id: Uuid = 13..;
        partition_responses: Array<'a, PartitionProduceResponse<'a>> = 0..;
    }

    /// What became of a partition's records.
    pub struct PartitionProduceResponse<'a> {
        index: i32 = 0..;
        error_code: i16 = 0..;
        base_offset: i64 = 0..;
        /// -1 unless the topic uses the time of appending.
        log_append_time_ms: i64 = 2.., default -1;
        log_start_offset: i64 = 5.., default -1;
        record_errors: Array<'a, BatchIndexAndErrorMessage<'a>> = 8..;
        error_message: Option<Cow<'a, str>> = 8.., null 8..;
        current_leader: LeaderIdAndEpoch = 10.., tag 0;
    }

    /// A record that was refused, by its place in the batch.
    pub struct BatchIndexAndErrorMessage<'a> {
        batch_index: i32 = 8..;
        batch_index_error_message: Option<Cow<'a, str>> = 8.., null 8..;
    }

    /// The leader, when the asked node is not; -1 and -1 when it is.
    pub struct LeaderIdAndEpoch {
        leader_id: i32 = 10.., default -1;
        leader_epoch: i32 = 10.., default -1;
    }

    /// Where a node named by `current_leader` is.
    pub struct NodeEndpoint<'a> {
        node_id: i32 = 10..;
        host: Cow<'a, str> = 10..;
        port: i32 = 10..;
        rack: Option<Cow<'a, str>> = 10.., null 10..;
    }
}

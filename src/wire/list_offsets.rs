//! ListOffsets (2), v0 to v11. It was called Offsets in 0.10.
//!
//! v0 asks for a number of offsets and gets an array; v1 gets one timestamp and offset. v2 adds the isolation level and
//! the throttle time. v3 is v2. v4 adds leader epochs (KIP-320). v5 is v4. v6 is flexible. v7 knows timestamp -3, the
//! highest (KIP-734). v8 knows -4, the earliest local one (KIP-405). v9 knows -5, the latest tiered one (KIP-1005). v10
//! adds the time-out. v11 knows -6, the earliest that waits for its upload (KIP-1023).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Which offset was at this time?"
    pub struct ListOffsetsRequest<'a> {
        /// -1 for a consumer.
        replica_id: i32 = 0..;
        isolation_level: i8 = 2..;
        topics: Array<'a, ListOffsetsTopic<'a>> = 0..;
        timeout_ms: i32 = 10..;
    }

    /// A topic and its partitions.
    pub struct ListOffsetsTopic<'a> {
        name: Cow<'a, str> = 0..;
        partitions: Array<'a, ListOffsetsPartition> = 0..;
    }

    /// A partition and the time.
    pub struct ListOffsetsPartition {
        partition_index: i32 = 0..;
        current_leader_epoch: i32 = 4.., default -1;
        /// Milliseconds, or -1 for the latest, -2 for the earliest, and so on down.
        timestamp: i64 = 0..;
        max_num_offsets: i32 = 0..=0, default 1;
    }

    /// The answer.
    pub struct ListOffsetsResponse<'a> {
        throttle_time_ms: i32 = 2..;
        topics: Array<'a, ListOffsetsTopicResponse<'a>> = 0..;
    }

    /// A topic and its partitions.
    pub struct ListOffsetsTopicResponse<'a> {
        name: Cow<'a, str> = 0..;
        partitions: Array<'a, ListOffsetsPartitionResponse<'a>> = 0..;
    }

    /// What was found; -1 and -1 when nothing was.
    pub struct ListOffsetsPartitionResponse<'a> {
        partition_index: i32 = 0..;
        error_code: i16 = 0..;
        /// Newest first.
        old_style_offsets: Array<'a, i64> = 0..=0;
        timestamp: i64 = 1.., default -1;
        offset: i64 = 1.., default -1;
        leader_epoch: i32 = 4.., default -1;
    }
}

//! OffsetForLeaderEpoch (23), v0 to v4.
//!
//! v1 answers with the epoch that was found. v2 adds the current leader epoch (KIP-320) and the throttle time. v3 adds
//! the replica id. v4 is flexible.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Where did this leader epoch end?"
    pub struct OffsetForLeaderEpochRequest<'a> {
        /// -1 for a consumer; -2 (not given) for a broker of v2 and older.
        replica_id: i32 = 3.., default -2;
        topics: Array<'a, OffsetForLeaderTopic<'a>> = 0..;
    }

    /// A topic and its partitions.
    pub struct OffsetForLeaderTopic<'a> {
        topic: Cow<'a, str> = 0..;
        partitions: Array<'a, OffsetForLeaderPartition> = 0..;
    }

    /// A partition and the epoch.
    pub struct OffsetForLeaderPartition {
        partition: i32 = 0..;
        current_leader_epoch: i32 = 2.., default -1;
        leader_epoch: i32 = 0..;
    }

    /// The answer.
    pub struct OffsetForLeaderEpochResponse<'a> {
        throttle_time_ms: i32 = 2..;
        topics: Array<'a, OffsetForLeaderTopicResult<'a>> = 0..;
    }

    /// A topic and its partitions.
    pub struct OffsetForLeaderTopicResult<'a> {
        topic: Cow<'a, str> = 0..;
        partitions: Array<'a, EpochEndOffset> = 0..;
    }

    /// The end of the epoch; -1 and -1 when it is not known.
    pub struct EpochEndOffset {
        error_code: i16 = 0..;
        partition: i32 = 0..;
        leader_epoch: i32 = 1.., default -1;
        end_offset: i64 = 0.., default -1;
    }
}

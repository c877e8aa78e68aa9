//! OffsetCommit (8), v0 to v10.
//!
//! v0 has neither generation nor member: a commit from outside of the group. v1 adds both, and a timestamp per
//! partition. v2 has one retention time in place of the timestamps. v3 adds the throttle time. v4 is v3. v5 drops the
//! retention time (KIP-211). v6 adds leader epochs (KIP-320). v7 adds the group instance id (KIP-345). v8 is flexible.
//! v9 takes the member epoch of a consumer group (KIP-848). v10 has topic ids for names.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "Remember that I came so far."
    pub struct OffsetCommitRequest<'a> {
        group_id: Cow<'a, str> = 0..;
        /// -1 with an empty member id is a commit from outside of the group.
        generation_id_or_member_epoch: i32 = 1.., default -1;
        member_id: Cow<'a, str> = 1..;
        group_instance_id: Option<Cow<'a, str>> = 7.., null 7..;
        /// -1 means the broker's own setting.
        retention_time_ms: i64 = 2..=4, default -1;
        topics: Array<'a, OffsetCommitRequestTopic<'a>> = 0..;
    }

    /// A topic, to v9 by name, from v10 on by id.
    pub struct OffsetCommitRequestTopic<'a> {
        name: Cow<'a, str> = 0..=9;
        topic_id: Uuid = 10..;
        partitions: Array<'a, OffsetCommitRequestPartition<'a>> = 0..;
    }

    /// An offset to commit.
    pub struct OffsetCommitRequestPartition<'a> {
        partition_index: i32 = 0..;
        committed_offset: i64 = 0..;
        committed_leader_epoch: i32 = 6.., default -1;
        /// Milliseconds; -1 means the time of receipt.
        commit_timestamp: i64 = 1..=1, default -1;
        committed_metadata: Option<Cow<'a, str>> = 0.., default Some("".into()), null 0..;
    }

    /// The answer; an error of the whole group is repeated in each partition.
    pub struct OffsetCommitResponse<'a> {
        throttle_time_ms: i32 = 3..;
        topics: Array<'a, OffsetCommitResponseTopic<'a>> = 0..;
    }

    /// A topic, as it was named.
    pub struct OffsetCommitResponseTopic<'a> {
        name: Cow<'a, str> = 0..=9;
        topic_id: Uuid = 10..;
        partitions: Array<'a, OffsetCommitResponsePartition> = 0..;
    }

    /// What became of one offset.
    pub struct OffsetCommitResponsePartition {
        partition_index: i32 = 0..;
        error_code: i16 = 0..;
    }
}

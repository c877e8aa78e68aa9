//! OffsetFetch (9), v0 to v10.
//!
//! v0 read from ZooKeeper, v1 from the coordinator. v2 may ask for all topics by null, and has a top-level error. v3
//! adds the throttle time. v4 is v3. v5 adds leader epochs (KIP-320). v6 is flexible. v7 may require stable offsets
//! (KIP-447). v8 asks for many groups at once (KIP-709). v9 adds member and member epoch (KIP-848). v10 has topic ids
//! for names.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "How far did I come?" To v7 for one group, from v8 on for those of `groups`.
    pub struct OffsetFetchRequest<'a> {
        group_id: Cow<'a, str> = 0..=7;
        /// Null means all topics of the group.
        topics: Option<Array<'a, OffsetFetchRequestTopic<'a>>> = 0..=7, default Some(Array::EMPTY), null 2..=7;
        groups: Array<'a, OffsetFetchRequestGroup<'a>> = 8..;
        require_stable: bool = 7..;
    }

    /// A topic and its partitions (to v7).
    pub struct OffsetFetchRequestTopic<'a> {
        name: Cow<'a, str> = 0..=7;
        partition_indexes: Array<'a, i32> = 0..=7;
    }

    /// A group.
    pub struct OffsetFetchRequestGroup<'a> {
        group_id: Cow<'a, str> = 8..;
        member_id: Option<Cow<'a, str>> = 9.., null 9..;
        member_epoch: i32 = 9.., default -1;
        /// Null means all topics of the group.
        topics: Option<Array<'a, OffsetFetchRequestTopics<'a>>> = 8.., default Some(Array::EMPTY), null 8..;
    }

    /// A topic, to v9 by name, in v10 by id.
    pub struct OffsetFetchRequestTopics<'a> {
        name: Cow<'a, str> = 8..=9;
        topic_id: Uuid = 10..;
        partition_indexes: Array<'a, i32> = 8..;
    }

    /// The answer: to v7 for the one group, from v8 on in `groups`.
    pub struct OffsetFetchResponse<'a> {
        throttle_time_ms: i32 = 3..;
        topics: Array<'a, OffsetFetchResponseTopic<'a>> = 0..=7;
        error_code: i16 = 2..=7;
        groups: Array<'a, OffsetFetchResponseGroup<'a>> = 8..;
    }

    /// A topic and its partitions (to v7).
    pub struct OffsetFetchResponseTopic<'a> {
        name: Cow<'a, str> = 0..=7;
        partitions: Array<'a, OffsetFetchResponsePartition<'a>> = 0..=7;
    }

    /// A committed offset (to v7); -1 when there is none.
    pub struct OffsetFetchResponsePartition<'a> {
        partition_index: i32 = 0..=7;
        committed_offset: i64 = 0..=7;
        committed_leader_epoch: i32 = 5..=7, default -1;
        metadata: Option<Cow<'a, str>> = 0..=7, default Some("".into()), null 0..=7;
        error_code: i16 = 0..=7;
    }

    /// A group.
    pub struct OffsetFetchResponseGroup<'a> {
        group_id: Cow<'a, str> = 8..;
        topics: Array<'a, OffsetFetchResponseTopics<'a>> = 8..;
        error_code: i16 = 8..;
    }

    /// A topic, as it was named.
    pub struct OffsetFetchResponseTopics<'a> {
        name: Cow<'a, str> = 8..=9;
        topic_id: Uuid = 10..;
        partitions: Array<'a, OffsetFetchResponsePartitions<'a>> = 8..;
    }

    /// A committed offset; -1 when there is none.
    pub struct OffsetFetchResponsePartitions<'a> {
        partition_index: i32 = 8..;
        committed_offset: i64 = 8..;
        committed_leader_epoch: i32 = 8.., default -1;
        metadata: Option<Cow<'a, str>> = 8.., default Some("".into()), null 8..;
        error_code: i16 = 8..;
    }
}

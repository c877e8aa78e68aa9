//! OffsetDelete (47), v0, never flexible (KIP-496).
//!
//! In the answer the error comes before the throttle time.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Forget how far the group came in these."
    pub struct OffsetDeleteRequest<'a> {
        group_id: Cow<'a, str> = 0..;
        topics: Array<'a, OffsetDeleteRequestTopic<'a>> = 0..;
    }

    /// A topic and its partitions.
    pub struct OffsetDeleteRequestTopic<'a> {
        name: Cow<'a, str> = 0..;
        partitions: Array<'a, OffsetDeleteRequestPartition> = 0..;
    }

    /// A partition.
    pub struct OffsetDeleteRequestPartition {
        partition_index: i32 = 0..;
    }

    /// The answer; the top-level error is that of the group.
    pub struct OffsetDeleteResponse<'a> {
        error_code: i16 = 0..;
        throttle_time_ms: i32 = 0..;
        topics: Array<'a, OffsetDeleteResponseTopic<'a>> = 0..;
    }

    /// A topic and its partitions.
    pub struct OffsetDeleteResponseTopic<'a> {
        name: Cow<'a, str> = 0..;
        partitions: Array<'a, OffsetDeleteResponsePartition> = 0..;
    }

    /// What became of one offset.
    pub struct OffsetDeleteResponsePartition {
        partition_index: i32 = 0..;
        error_code: i16 = 0..;
    }
}

//! OffsetCommit records (type 1, and type 0 by the same layout): value versions v0 to v4.
//!
//! v1 adds the expire timestamp, v2 takes it away again, v3 adds the leader epoch, v4 is flexible and adds the topic
//! id. Kafka 4.1 and newer write v4, or v1 for a commit that names its expiry.
//!
//! Nothing is left out. A tombstone has no value at all.

use std::borrow::Cow;

use crate::wire::Uuid;
use crate::wire::schema::message;

message! {
    /// Whose offset of which partition.
    pub struct OffsetCommitKey<'a> {
        group: Cow<'a, str> = 0..;
        topic: Cow<'a, str> = 0..;
        partition: i32 = 0..;
    }

    /// A committed offset. In v0 the commit timestamp is the only one.
    pub struct OffsetCommitValue<'a> {
        offset: i64 = 0..;
        leader_epoch: i32 = 3.., default -1;
        metadata: Cow<'a, str> = 0..;
        /// Milliseconds.
        commit_timestamp: i64 = 0..;
        /// Milliseconds; -1 means that the retention of the broker holds.
        expire_timestamp: i64 = 1..=1, default -1;
        topic_id: Uuid = 4.., tag 0;
    }
}

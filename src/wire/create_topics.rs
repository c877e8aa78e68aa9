//! CreateTopics (19), v0 to v7.
//!
//! v1 adds validate-only and error messages. v2 adds the throttle time. v3 is v2. v4 allows -1 for the broker's default
//! number of partitions and replicas (KIP-464). v5 is flexible and answers with the topic's shape and configuration
//! (KIP-525). v6 may be throttled by quota (KIP-599). v7 answers with the topic id (KIP-516).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "Create these."
    pub struct CreateTopicsRequest<'a> {
        topics: Array<'a, CreatableTopic<'a>> = 0..;
        timeout_ms: i32 = 0.., default 60000;
        validate_only: bool = 1..;
    }

    /// A topic to create.
    pub struct CreatableTopic<'a> {
        name: Cow<'a, str> = 0..;
        /// -1 means the default, or that `assignments` say it.
        num_partitions: i32 = 0..;
        /// -1 means the default, or that `assignments` say it.
        replication_factor: i16 = 0..;
        assignments: Array<'a, CreatableReplicaAssignment<'a>> = 0..;
        configs: Array<'a, CreatableTopicConfig<'a>> = 0..;
    }

    /// Which nodes hold a partition, the leader first.
    pub struct CreatableReplicaAssignment<'a> {
        partition_index: i32 = 0..;
        broker_ids: Array<'a, i32> = 0..;
    }

    /// A configuration of the topic.
    pub struct CreatableTopicConfig<'a> {
        name: Cow<'a, str> = 0..;
        value: Option<Cow<'a, str>> = 0.., default Some("".into()), null 0..;
    }

    /// The answer.
    pub struct CreateTopicsResponse<'a> {
        throttle_time_ms: i32 = 2..;
        topics: Array<'a, CreatableTopicResult<'a>> = 0..;
    }

    /// What became of one topic.
    pub struct CreatableTopicResult<'a> {
        name: Cow<'a, str> = 0..;
        topic_id: Uuid = 7..;
        error_code: i16 = 0..;
        error_message: Option<Cow<'a, str>> = 1.., default Some("".into()), null 1..;
        /// Why `configs` is null, when the caller may not see them.
        topic_config_error_code: i16 = 5.., tag 0;
        num_partitions: i32 = 5.., default -1;
        replication_factor: i16 = 5.., default -1;
        configs: Option<Array<'a, CreatableTopicConfigs<'a>>> = 5.., default Some(Array::EMPTY), null 5..;
    }

    /// A configuration that the topic has.
    pub struct CreatableTopicConfigs<'a> {
        name: Cow<'a, str> = 5..;
        value: Option<Cow<'a, str>> = 5.., default Some("".into()), null 5..;
        read_only: bool = 5..;
        config_source: i8 = 5.., default -1;
        is_sensitive: bool = 5..;
    }
}

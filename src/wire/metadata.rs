//! Metadata (3), v0 to v13.
//!
//! v0 asks for all topics by an empty list; from v1 on null asks for all and an empty list for none. v1 adds rack,
//! controller and is-internal. v2 adds the cluster id. v3 adds the throttle time. v4 says whether topics may be created
//! (to v3: yes). v5 adds offline replicas. v6 is v5. v7 adds leader epochs (KIP-320). v8 adds authorised operations
//! (KIP-430). v9 is flexible. v10 adds topic ids, which are looked up only from v12 on (KIP-516). v11 moves the
//! cluster's authorised operations to DescribeCluster (KIP-700). v12 may have a null name. v13 adds the top-level error
//! (KIP-1102).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "Who are you all, and who leads these topics?"
    pub struct MetadataRequest<'a> {
        /// Null is written as empty in v0, where that means all.
        topics: Option<Array<'a, MetadataRequestTopic<'a>>> = 0.., default Some(Array::EMPTY), null 1..;
        allow_auto_topic_creation: bool = 4.., default true;
        include_cluster_authorized_operations: bool = 8..=10;
        include_topic_authorized_operations: bool = 8..;
    }

    /// A topic, by name or (from v12 on) by id.
    pub struct MetadataRequestTopic<'a> {
        topic_id: Uuid = 10..;
        name: Option<Cow<'a, str>> = 0.., default Some("".into()), null 10..;
    }

    /// The nodes and the topics.
    pub struct MetadataResponse<'a> {
        throttle_time_ms: i32 = 3..;
        brokers: Array<'a, MetadataResponseBroker<'a>> = 0..;
        cluster_id: Option<Cow<'a, str>> = 2.., null 2..;
        controller_id: i32 = 1.., default -1;
        topics: Array<'a, MetadataResponseTopic<'a>> = 0..;
        /// `i32::MIN` means not asked for.
        cluster_authorized_operations: i32 = 8..=10, default i32::MIN;
        error_code: i16 = 13..;
    }

    /// A node, at the listener on which it was asked for.
    pub struct MetadataResponseBroker<'a> {
        node_id: i32 = 0..;
        host: Cow<'a, str> = 0..;
        port: i32 = 0..;
        rack: Option<Cow<'a, str>> = 1.., null 1..;
    }

    /// A topic.
    pub struct MetadataResponseTopic<'a> {
        error_code: i16 = 0..;
        name: Option<Cow<'a, str>> = 0.., default Some("".into()), null 12..;
        topic_id: Uuid = 10..;
        is_internal: bool = 1..;
        partitions: Array<'a, MetadataResponsePartition<'a>> = 0..;
        /// `i32::MIN` means not asked for.
        topic_authorized_operations: i32 = 8.., default i32::MIN;
    }

    /// A partition.
    pub struct MetadataResponsePartition<'a> {
        error_code: i16 = 0..;
        partition_index: i32 = 0..;
        leader_id: i32 = 0..;
        leader_epoch: i32 = 7.., default -1;
        replica_nodes: Array<'a, i32> = 0..;
        isr_nodes: Array<'a, i32> = 0..;
        offline_replicas: Array<'a, i32> = 5..;
    }
}

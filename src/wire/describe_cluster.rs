//! DescribeCluster (60), v0 to v2, all flexible.
//!
//! v1 asks for brokers or controllers (KIP-919). v2 may include fenced brokers (KIP-1073).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Who are you all?"
    pub struct DescribeClusterRequest {
        include_cluster_authorized_operations: bool = 0..;
        /// 1 for brokers, 2 for controllers.
        endpoint_type: i8 = 1.., default 1;
        include_fenced_brokers: bool = 2..;
    }

    /// The answer.
    pub struct DescribeClusterResponse<'a> {
        throttle_time_ms: i32 = 0..;
        error_code: i16 = 0..;
        error_message: Option<Cow<'a, str>> = 0.., null 0..;
        endpoint_type: i8 = 1.., default 1;
        cluster_id: Cow<'a, str> = 0..;
        controller_id: i32 = 0.., default -1;
        brokers: Array<'a, DescribeClusterBroker<'a>> = 0..;
        /// `i32::MIN` means not asked for.
        cluster_authorized_operations: i32 = 0.., default i32::MIN;
    }

    /// A node.
    pub struct DescribeClusterBroker<'a> {
        broker_id: i32 = 0..;
        host: Cow<'a, str> = 0..;
        port: i32 = 0..;
        rack: Option<Cow<'a, str>> = 0.., null 0..;
        is_fenced: bool = 2..;
    }
}

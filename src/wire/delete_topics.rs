//! DeleteTopics (20), v0 to v6.
//!
//! v1 adds the throttle time. v2 is v1. v3 answers TOPIC_DELETION_DISABLED when it is. v4 is flexible. v5 adds error
//! messages (KIP-599). v6 names topics by name or id (KIP-516).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;
use super::{Array, Uuid};

message! {
    /// "Delete these": to v5 `topic_names`, from v6 on `topics`.
    pub struct DeleteTopicsRequest<'a> {
        topics: Array<'a, DeleteTopicState<'a>> = 6..;
        topic_names: Array<'a, Cow<'a, str>> = 0..=5;
        timeout_ms: i32 = 0..;
    }

    /// A topic, by name or by id.
    pub struct DeleteTopicState<'a> {
        name: Option<Cow<'a, str>> = 6.., null 6..;
        topic_id: Uuid = 6..;
    }

    /// The answer.
    pub struct DeleteTopicsResponse<'a> {
        throttle_time_ms: i32 = 1..;
        responses: Array<'a, DeletableTopicResult<'a>> = 0..;
    }

    /// What became of one topic.
    pub struct DeletableTopicResult<'a> {
        name: Option<Cow<'a, str>> = 0.., default Some("".into()), null 6..;
        topic_id: Uuid = 6..;
        error_code: i16 = 0..;
        error_message: Option<Cow<'a, str>> = 5.., null 5..;
    }
}

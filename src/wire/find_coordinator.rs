//! FindCoordinator (10), v0 to v6. It was called GroupCoordinator in 0.10.
//!
//! v0 asks for one group. v1 adds the key type (transactions), the throttle time and the error message. v2 is v1. v3 is
//! flexible. v4 asks for many keys at once (KIP-699). v5 may be answered with TRANSACTION_ABORTABLE (KIP-890). v6 adds
//! share groups (KIP-932).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Which node coordinates these?"
    pub struct FindCoordinatorRequest<'a> {
        key: Cow<'a, str> = 0..=3;
        /// 0 is a group, 1 a transactional id, 2 a share partition (`groupId:topicId:partition`, from v6 on).
        key_type: i8 = 1..;
        coordinator_keys: Array<'a, Cow<'a, str>> = 4..;
    }

    /// The answer: to v3 the one coordinator, from v4 on the list.
    pub struct FindCoordinatorResponse<'a> {
        throttle_time_ms: i32 = 1..;
        error_code: i16 = 0..=3;
        error_message: Option<Cow<'a, str>> = 1..=3, default Some("".into()), null 1..=3;
        node_id: i32 = 0..=3;
        host: Cow<'a, str> = 0..=3;
        port: i32 = 0..=3;
        coordinators: Array<'a, Coordinator<'a>> = 4..;
    }

    /// Who coordinates one of the keys; on an error node -1, host empty, port -1.
    pub struct Coordinator<'a> {
        key: Cow<'a, str> = 4..;
        node_id: i32 = 4..;
        host: Cow<'a, str> = 4..;
        port: i32 = 4..;
        error_code: i16 = 4..;
        error_message: Option<Cow<'a, str>> = 4.., default Some("".into()), null 4..;
    }
}

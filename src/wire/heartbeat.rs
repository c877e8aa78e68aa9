//! Heartbeat (12), v0 to v4.
//!
//! v1 adds the throttle time. v2 is v1. v3 adds the group instance id (KIP-345, static members). v4 is flexible.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::schema::message;

message! {
    /// "I am alive, as this member of this generation."
    pub struct HeartbeatRequest<'a> {
        group_id: Cow<'a, str> = 0..;
        generation_id: i32 = 0..;
        member_id: Cow<'a, str> = 0..;
        group_instance_id: Option<Cow<'a, str>> = 3.., null 3..;
    }

    /// The answer.
    pub struct HeartbeatResponse {
        throttle_time_ms: i32 = 1..;
        error_code: i16 = 0..;
    }
}

//! ListGroups (16), v0 to v5.
//!
//! v1 adds the throttle time. v2 is v1. v3 is flexible. v4 filters by state and answers with it (KIP-518). v5 does so
//! for the type (KIP-848).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Which groups do you coordinate?" An empty filter lets all through.
    pub struct ListGroupsRequest<'a> {
        states_filter: Array<'a, Cow<'a, str>> = 4..;
        types_filter: Array<'a, Cow<'a, str>> = 5..;
    }

    /// The answer.
    pub struct ListGroupsResponse<'a> {
        throttle_time_ms: i32 = 1..;
        error_code: i16 = 0..;
        groups: Array<'a, ListedGroup<'a>> = 0..;
    }

    /// A group.
    pub struct ListedGroup<'a> {
        group_id: Cow<'a, str> = 0..;
        protocol_type: Cow<'a, str> = 0..;
        group_state: Cow<'a, str> = 4..;
        /// `classic`, `consumer`, `share` or `streams`.
        group_type: Cow<'a, str> = 5..;
    }
}

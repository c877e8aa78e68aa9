//! DeleteGroups (42), v0 to v3.
//!
//! v1 is v0. v2 is flexible. v3 adds error messages.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Delete these groups."
    pub struct DeleteGroupsRequest<'a> {
        groups_names: Array<'a, Cow<'a, str>> = 0..;
    }

    /// The answer.
    pub struct DeleteGroupsResponse<'a> {
        throttle_time_ms: i32 = 0..;
        results: Array<'a, DeletableGroupResult<'a>> = 0..;
    }

    /// What became of one group.
    pub struct DeletableGroupResult<'a> {
        group_id: Cow<'a, str> = 0..;
        error_code: i16 = 0..;
        error_message: Option<Cow<'a, str>> = 3.., null 3..;
    }
}

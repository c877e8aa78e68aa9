//! SyncGroup (14), v0 to v5.
//!
//! v1 adds the throttle time. v2 is v1. v3 adds the group instance id (KIP-345). v4 is flexible. v5 adds the protocol
//! type and name, to be compared with those of the group (KIP-559).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Here are the assignments" from the leader, "what is mine?" from the others. Parked until the leader's is there.
    pub struct SyncGroupRequest<'a> {
        group_id: Cow<'a, str> = 0..;
        generation_id: i32 = 0..;
        member_id: Cow<'a, str> = 0..;
        group_instance_id: Option<Cow<'a, str>> = 3.., null 3..;
        protocol_type: Option<Cow<'a, str>> = 5.., null 5..;
        protocol_name: Option<Cow<'a, str>> = 5.., null 5..;
        assignments: Array<'a, SyncGroupRequestAssignment<'a>> = 0..;
    }

    /// What the leader assigns to one member.
    pub struct SyncGroupRequestAssignment<'a> {
        member_id: Cow<'a, str> = 0..;
        assignment: &'a [u8] = 0..;
    }

    /// The member's assignment; empty on an error.
    pub struct SyncGroupResponse<'a> {
        throttle_time_ms: i32 = 1..;
        error_code: i16 = 0..;
        protocol_type: Option<Cow<'a, str>> = 5.., null 5..;
        protocol_name: Option<Cow<'a, str>> = 5.., null 5..;
        assignment: &'a [u8] = 0..;
    }
}

//! JoinGroup (11), v0 to v9.
//!
//! v1 adds the rebalance timeout (KIP-62; v0 uses the session timeout for both). v2 adds the throttle time. v3 is v2.
//! From v4 on a member without an id is first given one (KIP-394). v5 adds the group instance id (KIP-345, static
//! members). v6 is flexible. v7 adds the protocol type to the answer, and its protocol name may be null (KIP-559). v8
//! adds the reason (KIP-800). v9 lets the leader skip the assignment (KIP-814).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "Let me into the group." Parked until the group has agreed on a generation.
    pub struct JoinGroupRequest<'a> {
        group_id: Cow<'a, str> = 0..;
        session_timeout_ms: i32 = 0..;
        /// -1 in v0, where the session timeout stands for it.
        rebalance_timeout_ms: i32 = 1.., default -1;
        member_id: Cow<'a, str> = 0..;
        group_instance_id: Option<Cow<'a, str>> = 5.., null 5..;
        protocol_type: Cow<'a, str> = 0..;
        protocols: Array<'a, JoinGroupRequestProtocol<'a>> = 0..;
        reason: Option<Cow<'a, str>> = 8.., null 8..;
    }

    /// A protocol that the member could speak, best first.
    pub struct JoinGroupRequestProtocol<'a> {
        name: Cow<'a, str> = 0..;
        metadata: &'a [u8] = 0..;
    }

    /// The generation and the member's place in it; the members are told to the leader alone.
    pub struct JoinGroupResponse<'a> {
        throttle_time_ms: i32 = 2..;
        error_code: i16 = 0..;
        generation_id: i32 = 0.., default -1;
        protocol_type: Option<Cow<'a, str>> = 7.., null 7..;
        /// To v6 null is written as the empty string.
        protocol_name: Option<Cow<'a, str>> = 0.., default Some("".into()), null 7..;
        leader: Cow<'a, str> = 0..;
        skip_assignment: bool = 9..;
        member_id: Cow<'a, str> = 0..;
        members: Array<'a, JoinGroupResponseMember<'a>> = 0..;
    }

    /// One member, with its metadata for the protocol that was chosen.
    pub struct JoinGroupResponseMember<'a> {
        member_id: Cow<'a, str> = 0..;
        group_instance_id: Option<Cow<'a, str>> = 5.., null 5..;
        metadata: &'a [u8] = 0..;
    }
}

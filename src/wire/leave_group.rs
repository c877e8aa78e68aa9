//! LeaveGroup (13), v0 to v5.
//!
//! v1 adds the throttle time. v2 is v1. v3 removes many members at once, static ones by their instance id (KIP-345). v4
//! is flexible. v5 adds the reason (KIP-800).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "These members go": to v2 the one of `member_id`, from v3 on those of `members`.
    pub struct LeaveGroupRequest<'a> {
        group_id: Cow<'a, str> = 0..;
        member_id: Cow<'a, str> = 0..=2;
        members: Array<'a, MemberIdentity<'a>> = 3..;
    }

    /// A member that goes. With an instance id the member id may be empty.
    pub struct MemberIdentity<'a> {
        member_id: Cow<'a, str> = 3..;
        group_instance_id: Option<Cow<'a, str>> = 3.., null 3..;
        reason: Option<Cow<'a, str>> = 5.., null 5..;
    }

    /// The answer; to v2 the error of the one member, from v3 on that of the whole request.
    pub struct LeaveGroupResponse<'a> {
        throttle_time_ms: i32 = 1..;
        error_code: i16 = 0..;
        members: Array<'a, MemberResponse<'a>> = 3..;
    }

    /// What became of one member.
    pub struct MemberResponse<'a> {
        member_id: Cow<'a, str> = 3..;
        group_instance_id: Option<Cow<'a, str>> = 3.., default Some("".into()), null 3..;
        error_code: i16 = 3..;
    }
}

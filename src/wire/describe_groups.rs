//! DescribeGroups (15), v0 to v6.
//!
//! v1 adds the throttle time. v2 is v1. v3 adds authorised operations (KIP-430). v4 adds the group instance id
//! (KIP-345). v5 is flexible. v6 answers GROUP_ID_NOT_FOUND with a message for an unknown group, where v5 and older say
//! state Dead without an error (KIP-1043).
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "What of these groups?"
    pub struct DescribeGroupsRequest<'a> {
        groups: Array<'a, Cow<'a, str>> = 0..;
        include_authorized_operations: bool = 3..;
    }

    /// The answer.
    pub struct DescribeGroupsResponse<'a> {
        throttle_time_ms: i32 = 1..;
        groups: Array<'a, DescribedGroup<'a>> = 0..;
    }

    /// A group.
    pub struct DescribedGroup<'a> {
        error_code: i16 = 0..;
        error_message: Option<Cow<'a, str>> = 6.., null 6..;
        group_id: Cow<'a, str> = 0..;
        group_state: Cow<'a, str> = 0..;
        protocol_type: Cow<'a, str> = 0..;
        protocol_data: Cow<'a, str> = 0..;
        members: Array<'a, DescribedGroupMember<'a>> = 0..;
        /// `i32::MIN` means not asked for.
        authorized_operations: i32 = 3.., default i32::MIN;
    }

    /// A member; metadata and assignment are filled in state Stable only.
    pub struct DescribedGroupMember<'a> {
        member_id: Cow<'a, str> = 0..;
        group_instance_id: Option<Cow<'a, str>> = 4.., null 4..;
        client_id: Cow<'a, str> = 0..;
        client_host: Cow<'a, str> = 0..;
        member_metadata: &'a [u8] = 0..;
        member_assignment: &'a [u8] = 0..;
    }
}

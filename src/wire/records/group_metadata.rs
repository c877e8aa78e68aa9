//! GroupMetadata records (type 2, classic groups): value versions v0 to v4.
//!
//! v1 adds the rebalance timeout (v0: use the session timeout), v2 the time of the current state, v3 the group instance
//! id, v4 is flexible. Kafka writes v3; v4 is read but not written yet.
//!
//! Nothing is left out. A tombstone has no value at all.

use std::borrow::Cow;

use crate::wire::Array;
use crate::wire::schema::message;

message! {
    /// Which group.
    pub struct GroupMetadataKey<'a> {
        group: Cow<'a, str> = 0..;
    }

    /// A generation of a classic group. Protocol and leader are null when it is empty.
    pub struct GroupMetadataValue<'a> {
        protocol_type: Cow<'a, str> = 0..;
        generation: i32 = 0..;
        protocol: Option<Cow<'a, str>> = 0.., default Some("".into()), null 0..;
        leader: Option<Cow<'a, str>> = 0.., default Some("".into()), null 0..;
        /// Milliseconds; -1 when not known.
        current_state_timestamp: i64 = 2.., default -1;
        members: Array<'a, MemberMetadata<'a>> = 0..;
    }

    /// A member. Both time-outs are in milliseconds; Kafka's names of them have no unit.
    pub struct MemberMetadata<'a> {
        member_id: Cow<'a, str> = 0..;
        group_instance_id: Option<Cow<'a, str>> = 3.., null 3..;
        client_id: Cow<'a, str> = 0..;
        client_host: Cow<'a, str> = 0..;
        rebalance_timeout: i32 = 1.., default -1;
        session_timeout: i32 = 0..;
        /// Its metadata for the protocol of the group.
        subscription: &'a [u8] = 0..;
        assignment: &'a [u8] = 0..;
    }
}

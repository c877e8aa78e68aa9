//! JoinGroup: parked until the group's join phase is over.

use std::borrow::Cow;

use super::{RequestContext, reply_frame};
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::{JoinAnswer, JoinRequest, JoinedMember, Ticket};
use crate::metrics::CoreMetrics;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};
use crate::wire::{ApiKey, Array, Version, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: JoinGroupRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    match admit(shard, context, &request) {
        Ok(()) => match join(shard, context, &request) {
            Some(answer) => write(&answer, context.version, reply),
            None => return Verdict::Parked,
        },
        Err((error, member_id)) => refuse(error, member_id, context.version, reply),
    }
    Verdict::Answered
}

/// Appends the answer of a JoinGroup that was parked.
pub(in crate::shard) fn write_parked(
    metrics: &CoreMetrics,
    ticket: Ticket,
    answer: &JoinAnswer,
    replies: &mut Vec<u8>,
) {
    reply_frame(metrics, replies, ApiKey::JoinGroup, ticket.version, ticket.correlation_id, |writer| {
        write(answer, ApiKey::JoinGroup.version(ticket.version), writer);
    });
}

/// The checks before the group is looked at. Clients copy the answered member id into their state, so it goes with each
/// error: echoed, or empty.
fn admit<'a>(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: &'a JoinGroupRequest<'_>,
) -> Result<(), (ErrorCode, &'a str)> {
    if !shard.allows(context, Operation::Read, Resource::Group(&request.group_id)) {
        return Err((ErrorCode::GROUP_AUTHORIZATION_FAILED, ""));
    }
    let shape = shard.groups.check_join(&request.group_id, request.session_timeout_ms);
    if !shape.is_none() {
        return Err((shape, &request.member_id));
    }
    shard.group_partition(&request.group_id).map(drop).map_err(|error| (error, ""))
}

fn join(shard: &mut Shard, context: &RequestContext<'_>, request: &JoinGroupRequest<'_>) -> Option<JoinAnswer> {
    let version = context.version.number;
    let join = JoinRequest {
        group_id: &request.group_id,
        member_id: &request.member_id,
        group_instance_id: request.group_instance_id.as_deref(),
        client_id: &context.client_id(),
        client_host: &context.client_host(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if version >= 1 { request.rebalance_timeout_ms } else { request.session_timeout_ms },
        protocol_type: &request.protocol_type,
        protocols: request.protocols.iter().map(|protocol| (protocol.name, protocol.metadata)),
        requires_known_member_id: version >= 4,
        knows_skip_assignment: version >= 9,
    };
    let answer = shard.groups.join(&join, context.ticket(), context.now);
    // What it wrote (a new group, a static member's new id) concerns only parked answers.
    let _undone = shard.persist();
    answer
}

fn refuse(error: ErrorCode, member_id: &str, version: Version, reply: &mut Writer<'_>) {
    let response = JoinGroupResponse {
        error_code: error.0,
        member_id: member_id.into(),
        protocol_name: None,
        ..JoinGroupResponse::default()
    };
    response.write(reply, version);
}

fn write(answer: &JoinAnswer, version: Version, reply: &mut Writer<'_>) {
    let members: &[JoinedMember] = &answer.members;
    let response = JoinGroupResponse {
        error_code: answer.error.0,
        generation_id: answer.generation_id,
        protocol_type: answer.protocol_type.as_deref().map(Cow::Borrowed),
        protocol_name: answer.protocol_name.as_deref().filter(|name| !name.is_empty()).map(Cow::Borrowed),
        leader: Cow::Borrowed(&answer.leader),
        skip_assignment: answer.skip_assignment,
        member_id: Cow::Borrowed(&answer.member_id),
        members: Array::Each {
            len: members.len(),
            each: &|rows| members.iter().for_each(|member| rows.push(row(member))),
        },
        ..JoinGroupResponse::default()
    };
    response.write(reply, version);
}

fn row(member: &JoinedMember) -> JoinGroupResponseMember<'_> {
    JoinGroupResponseMember {
        member_id: member.member_id().into(),
        group_instance_id: member.group_instance_id().map(Into::into),
        metadata: member.metadata(),
    }
}

//! LeaveGroup: one member up to v2, a batch of them from v3 on.

use std::borrow::Cow;
use std::cell::Cell;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::LeavingMember;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};
use crate::wire::{Array, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: LeaveGroupRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let mut codes = std::mem::take(&mut shard.codes);
    codes.clear();
    let result = admit(shard, context, &request.group_id).and_then(|()| leave(shard, context, &request, &mut codes));
    let (error, verdict) = match result {
        Ok(verdict) => (ErrorCode::NONE, verdict),
        Err(error) => (error, Verdict::Answered),
    };
    write(&request, error, &codes, context, reply);
    shard.codes = codes;
    verdict
}

fn admit(shard: &mut Shard, context: &RequestContext<'_>, group_id: &str) -> Result<(), ErrorCode> {
    if !shard.allows(context, Operation::Read, Resource::Group(group_id)) {
        return Err(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    if group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    shard.group_partition(group_id).map(drop)
}

fn leave(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: &LeaveGroupRequest<'_>,
    codes: &mut Vec<ErrorCode>,
) -> Result<Verdict, ErrorCode> {
    let each = |code| codes.push(code);
    let error = if context.version.number >= 3 {
        let members = request.members.iter();
        let members = members
            .map(|member| LeavingMember { member_id: member.member_id, group_instance_id: member.group_instance_id });
        shard.groups.leave(&request.group_id, members, context.now, each)
    } else {
        let member = LeavingMember { member_id: Cow::Borrowed(&*request.member_id), group_instance_id: None };
        shard.groups.leave(&request.group_id, std::iter::once(member), context.now, each)
    };
    if error.is_none() { shard.persist() } else { Err(error) }
}

fn write(
    request: &LeaveGroupRequest<'_>,
    error: ErrorCode,
    codes: &[ErrorCode],
    context: &RequestContext<'_>,
    reply: &mut Writer<'_>,
) {
    let is_batch = context.version.number >= 3;
    let only = if is_batch { None } else { codes.first() };
    let error = if error.is_none() { *only.unwrap_or(&error) } else { error };
    // With an error at the top there are no entries.
    let len = if is_batch && error.is_none() { codes.len() } else { 0 };
    let next = Cell::new(0);
    let response = LeaveGroupResponse {
        error_code: error.0,
        members: Array::Each {
            len,
            each: &|rows| {
                for member in request.members.iter().take(len) {
                    let error_code = codes[next.replace(next.get() + 1)].0;
                    let group_instance_id = member.group_instance_id;
                    rows.push(MemberResponse { member_id: member.member_id, group_instance_id, error_code });
                }
            },
        },
        ..LeaveGroupResponse::default()
    };
    response.write(reply, context.version);
}

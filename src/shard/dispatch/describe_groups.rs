//! DescribeGroups: classic groups with their members. Groups that the principal may not describe come first, as in Kafka.

use std::borrow::Cow;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::GroupDescription;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::array::Rows;
use crate::wire::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use crate::wire::{Array, Version, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: DescribeGroupsRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let shard = &*shard;
    let is_allowed = |group_id: &str| shard.allows(context, Operation::Describe, Resource::Group(group_id));
    let response = DescribeGroupsResponse {
        groups: Array::Each {
            len: request.groups.len(),
            each: &|rows| {
                for group_id in request.groups.iter().filter(|group_id| !is_allowed(group_id)) {
                    rows.push(refused(group_id, ErrorCode::GROUP_AUTHORIZATION_FAILED));
                }
                for group_id in request.groups.iter().filter(|group_id| is_allowed(group_id)) {
                    if rows.is_full() {
                        break;
                    }
                    describe(shard, context, group_id, request.include_authorized_operations, rows);
                }
            },
        },
        ..DescribeGroupsResponse::default()
    };
    response.write(reply, context.version);
    shard.when_deletions_are_durable()
}

fn describe(
    shard: &Shard,
    context: &RequestContext<'_>,
    group_id: Cow<'_, str>,
    with_operations: bool,
    rows: &mut Rows<'_, '_>,
) {
    let operations = || shard.authorizer.authorized_operations(context.subject(), Resource::Group(&group_id));
    let authorized_operations = if with_operations { operations() } else { i32::MIN };
    match shard.group_partition(&group_id) {
        Err(error) => rows.push(refused(group_id, error)),
        Ok(_) => match shard.groups.describe(&group_id) {
            None => rows.push(unknown(group_id, authorized_operations, context.version)),
            Some(group) => rows.push(DescribedGroup {
                group_state: group.state().into(),
                protocol_type: group.protocol_type().into(),
                protocol_data: group.protocol_data().into(),
                members: Array::Each { len: group.member_count(), each: &|rows| members(&group, rows) },
                group_id,
                authorized_operations,
                ..DescribedGroup::default()
            }),
        },
    }
}

fn members(group: &GroupDescription<'_>, rows: &mut Rows<'_, '_>) {
    for member in group.members() {
        rows.push(DescribedGroupMember {
            member_id: member.member_id().into(),
            group_instance_id: member.group_instance_id().map(Cow::Borrowed),
            client_id: member.client_id().into(),
            client_host: member.client_host().into(),
            member_metadata: member.metadata(),
            member_assignment: member.assignment(),
        });
    }
}

fn refused(group_id: Cow<'_, str>, error: ErrorCode) -> DescribedGroup<'_> {
    DescribedGroup { error_code: error.0, group_id, ..DescribedGroup::default() }
}

/// To v5 an unknown group is a dead one without an error (KIP-1043 changed that).
fn unknown(group_id: Cow<'_, str>, authorized_operations: i32, version: Version) -> DescribedGroup<'_> {
    let dead = DescribedGroup { group_state: "Dead".into(), ..DescribedGroup::default() };
    if version.number >= 6 {
        let error_message = Some(format!("Group {group_id} not found.").into());
        return DescribedGroup { error_code: ErrorCode::GROUP_ID_NOT_FOUND.0, error_message, group_id, ..dead };
    }
    DescribedGroup { group_id, authorized_operations, ..dead }
}

//! DeleteGroups: groups without members go, with their offsets. A group named twice is answered once; those that the
//! principal may not delete come last.

use std::borrow::Cow;

use hashbrown::HashSet;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};
use crate::wire::{Array, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: DeleteGroupsRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let mut seen = HashSet::with_capacity(request.groups_names.len());
    let (mut results, mut denied) = (Vec::new(), Vec::new());
    for group_id in request.groups_names.iter().filter(|group_id| seen.insert(group_id.clone())) {
        if !shard.allows(context, Operation::Delete, Resource::Group(&group_id)) {
            denied.push(result(group_id, ErrorCode::GROUP_AUTHORIZATION_FAILED));
            continue;
        }
        let error = delete(shard, context, &group_id);
        results.push(result(group_id, error));
    }
    results.append(&mut denied);
    DeleteGroupsResponse { results: Array::Items(&results), ..DeleteGroupsResponse::default() }
        .write(reply, context.version);
    shard.when_deletions_are_durable()
}

fn delete(shard: &mut Shard, context: &RequestContext<'_>, group_id: &str) -> ErrorCode {
    if let Err(error) = shard.group_partition(group_id) {
        return error;
    }
    match shard.groups.delete_group(group_id, context.now) {
        ErrorCode::NONE => shard.persist().err().unwrap_or(ErrorCode::NONE),
        error => error,
    }
}

fn result(group_id: Cow<'_, str>, error: ErrorCode) -> DeletableGroupResult<'_> {
    DeletableGroupResult { group_id, error_code: error.0, ..DeletableGroupResult::default() }
}

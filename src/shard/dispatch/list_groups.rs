//! ListGroups: the groups of this core; a client that wants all asks every node.

use std::borrow::Cow;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use crate::wire::{Array, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: ListGroupsRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let shard = &*shard;
    if shard.is_loading() {
        // Not some of the groups without an error: a client would take them for all.
        let error_code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS.0;
        ListGroupsResponse { error_code, ..ListGroupsResponse::default() }.write(reply, context.version);
        return Verdict::Answered;
    }
    let sees_all = shard.allows(context, Operation::Describe, Resource::Cluster);
    let is_shown = |listed: &group::ListedGroup<'_>| {
        passes(&request.states_filter, listed.state)
            && passes(&request.types_filter, listed.group_type)
            && (sees_all || shard.allows(context, Operation::Describe, Resource::Group(listed.group_id)))
    };
    let response = ListGroupsResponse {
        groups: Array::Each {
            len: shard.groups.list().filter(&is_shown).count(),
            each: &|rows| shard.groups.list().filter(&is_shown).for_each(|listed| rows.push(row(listed))),
        },
        ..ListGroupsResponse::default()
    };
    response.write(reply, context.version);
    Verdict::Answered
}

/// An empty filter lets everything through; names differ neither by case nor by blanks around them.
fn passes(filter: &Array<'_, Cow<'_, str>>, name: &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
}

fn row(listed: group::ListedGroup<'_>) -> ListedGroup<'_> {
    ListedGroup {
        group_id: listed.group_id.into(),
        protocol_type: listed.protocol_type.into(),
        group_state: listed.state.into(),
        group_type: listed.group_type.into(),
    }
}

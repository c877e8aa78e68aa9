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
        passes(&request.states_filter, listed.state, str::trim)
            && passes(&request.types_filter, listed.group_type, |wanted| wanted)
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
    shard.when_deletions_are_durable()
}

/// An empty filter lets everything through; names do not differ by case. As in Kafka, blanks around a state do not count, those
/// around a type do.
fn passes(filter: &Array<'_, Cow<'_, str>>, name: &str, strip: fn(&str) -> &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| strip(&wanted).eq_ignore_ascii_case(name))
}

fn row(listed: group::ListedGroup<'_>) -> ListedGroup<'_> {
    ListedGroup {
        group_id: listed.group_id.into(),
        protocol_type: listed.protocol_type.into(),
        group_state: listed.state.into(),
        group_type: listed.group_type.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&'static str]) -> Vec<Cow<'static, str>> {
        names.iter().map(|name| Cow::from(*name)).collect()
    }

    #[test]
    fn blanks_count_in_the_names_of_types_only() {
        for (wanted, passes_as_state, passes_as_type) in [
            (&[][..], true, true),
            (&["CLASSIC"], true, true),
            (&[" classic "], true, false),
            (&["other", "classic"], true, true),
            (&["other", ""], false, false),
        ] {
            let wanted = names(wanted);
            let filter = Array::Items(&wanted);
            assert_eq!(passes(&filter, "classic", str::trim), passes_as_state, "{wanted:?}");
            assert_eq!(passes(&filter, "classic", |wanted| wanted), passes_as_type, "{wanted:?}");
        }
    }
}

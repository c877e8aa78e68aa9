//! Heartbeat: the hottest request of a fleet. Writes no record, allocates nothing.

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use crate::wire::{Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: HeartbeatRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let error = heartbeat(shard, context, &request);
    HeartbeatResponse { error_code: error.0, ..HeartbeatResponse::default() }.write(reply, context.version);
    Verdict::Answered
}

fn heartbeat(shard: &mut Shard, context: &RequestContext<'_>, request: &HeartbeatRequest<'_>) -> ErrorCode {
    if !shard.allows(context, Operation::Read, Resource::Group(&request.group_id)) {
        return ErrorCode::GROUP_AUTHORIZATION_FAILED;
    }
    if request.group_id.is_empty() {
        return ErrorCode::INVALID_GROUP_ID;
    }
    match shard.group_partition(&request.group_id) {
        Ok(_) => shard.groups.heartbeat(
            &request.group_id,
            request.generation_id,
            &request.member_id,
            request.group_instance_id.as_deref(),
            context.now,
        ),
        // Kafka's clients do not expect this error from a Heartbeat and would raise it to the application.
        Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => ErrorCode::NONE,
        Err(error) => error,
    }
}

//! SyncGroup: parked until the leader's assignments are durable.

use super::{RequestContext, reply_frame};
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::{KeptAssignments, SyncAnswer, SyncRequest, Ticket};
use crate::metrics::CoreMetrics;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use crate::wire::{ApiKey, Array, Version, Wire, Writer};

/// The rows of a request as they came: to be copied in one go, and walked later.
#[derive(Debug)]
struct KeptRows {
    bytes: Vec<u8>,
    /// Where in them the next row begins.
    at: usize,
    left: usize,
    version: Version,
}

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: SyncGroupRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let answer = match admit(shard, context, &request) {
        Ok(()) => sync(shard, context, &request),
        Err(error) => Some(SyncAnswer { error, ..SyncAnswer::default() }),
    };
    match answer {
        Some(answer) => {
            write(&answer, context.version, reply);
            Verdict::Answered
        }
        None => Verdict::Parked,
    }
}

/// Appends the answer of a SyncGroup that was parked.
pub(in crate::shard) fn write_parked(
    metrics: &CoreMetrics,
    ticket: Ticket,
    answer: &SyncAnswer,
    replies: &mut Vec<u8>,
) {
    reply_frame(metrics, replies, ApiKey::SyncGroup, ticket.version, ticket.correlation_id, |writer| {
        write(answer, ApiKey::SyncGroup.version(ticket.version), writer);
    });
}

fn admit(shard: &mut Shard, context: &RequestContext<'_>, request: &SyncGroupRequest<'_>) -> Result<(), ErrorCode> {
    // From v5 on Kafka wants to be told what the member believes the protocol to be (KIP-559), even before it asks who asks.
    if context.version.number >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    if !shard.allows(context, Operation::Read, Resource::Group(&request.group_id)) {
        return Err(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    match shard.group_partition(&request.group_id) {
        // A client takes it as "join again", where it would raise the error of a load to the application.
        Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => Err(ErrorCode::REBALANCE_IN_PROGRESS),
        other => other.map(drop),
    }
}

fn sync(shard: &mut Shard, context: &RequestContext<'_>, request: &SyncGroupRequest<'_>) -> Option<SyncAnswer> {
    let sync = SyncRequest {
        group_id: &request.group_id,
        generation_id: request.generation_id,
        member_id: &request.member_id,
        group_instance_id: request.group_instance_id.as_deref(),
        protocol_type: request.protocol_type.as_deref(),
        protocol_name: request.protocol_name.as_deref(),
        assignments: request.assignments.iter().map(|row| (row.member_id, row.assignment)),
        keep: &|| Box::new(KeptRows::of(&request.assignments, context.version)),
    };
    let answer = shard.groups.sync(&sync, context.ticket(), context.now);
    let _undone = shard.persist();
    answer
}

impl KeptRows {
    fn of(rows: &Array<'_, SyncGroupRequestAssignment<'_>>, version: Version) -> KeptRows {
        KeptRows { bytes: rows.iter().rest().to_vec(), at: 0, left: rows.len(), version }
    }
}

impl KeptAssignments for KeptRows {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, at_most: usize, each: &mut dyn FnMut(&str, &[u8])) -> bool {
        let kept = Array::<SyncGroupRequestAssignment<'_>>::written(&self.bytes[self.at..], self.left, self.version);
        let mut rows = kept.iter();
        rows.by_ref().take(at_most).for_each(|row| each(&row.member_id, row.assignment));
        (self.at, self.left) = (self.bytes.len() - rows.rest().len(), rows.len());
        self.left > 0
    }
}

fn write(answer: &SyncAnswer, version: Version, reply: &mut Writer<'_>) {
    let response = SyncGroupResponse {
        error_code: answer.error.0,
        protocol_type: answer.protocol_type.as_deref().map(Into::into),
        protocol_name: answer.protocol_name.as_deref().map(Into::into),
        assignment: &answer.assignment,
        ..SyncGroupResponse::default()
    };
    response.write(reply, version);
}

//! FindCoordinator: which core coordinates a key. With Heartbeat the hottest request: a look-up is a hash, a load of the
//! leadership table, and a copy of bytes that were encoded when the table was made.
//!
//! It never waits: while an internal topic does not exist the answer is COORDINATOR_NOT_AVAILABLE, and its creation is
//! asked for. Nor does it validate a group id (the empty one is hashed like any other), or ask whether the group exists.

use std::borrow::Cow;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::ids::InternalTopicKind;
use crate::leadership::Endpoint;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use crate::wire::{Array, Uuid, Version, Wire, Writer};

/// What came of one key.
type Found<'g> = Result<&'g Endpoint, ErrorCode>;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: FindCoordinatorRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let mut wanted = None;
    match admit(shard, context, request.key_type) {
        Ok(kind) => {
            let mut find = |key: &str| find(shard, context, kind, key, &mut wanted);
            if context.version.number >= 4 {
                write_all(&request, reply, &mut find, context.version)
            } else {
                write_one(find(&request.key), reply, context)
            }
        }
        Err(error) => refuse_all(&request, reply, error, context),
    }
    if let Some(kind) = wanted {
        shard.control.create_internal(kind);
    }
    Verdict::Answered
}

/// What concerns the request as a whole.
fn admit(shard: &Shard, context: &RequestContext<'_>, key_type: i8) -> Result<InternalTopicKind, ErrorCode> {
    match key_type {
        GROUP => Ok(InternalTopicKind::Offsets),
        TRANSACTION => Ok(InternalTopicKind::Transactions),
        // Before v6 it is refused key by key.
        SHARE if context.version.number < 6 => Ok(InternalTopicKind::ShareState),
        SHARE if shard.allows(context, Operation::ClusterAction, Resource::Cluster) => {
            Ok(InternalTopicKind::ShareState)
        }
        SHARE => Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED),
        _ => Err(ErrorCode::INVALID_REQUEST),
    }
}

fn find<'s>(
    shard: &'s Shard,
    context: &RequestContext<'_>,
    kind: InternalTopicKind,
    key: &str,
    wanted: &mut Option<InternalTopicKind>,
) -> Found<'s> {
    check(shard, context, kind, key)?;
    let table = shard.table();
    if table.internal(kind).is_none() {
        *wanted = Some(kind);
    }
    let listener = usize::from(context.session.listener.0);
    table.look_up(kind, key, listener).ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)
}

fn check(shard: &Shard, context: &RequestContext<'_>, kind: InternalTopicKind, key: &str) -> Result<(), ErrorCode> {
    let (is_good, error) = match kind {
        InternalTopicKind::Offsets => {
            (shard.allows(context, Operation::Describe, Resource::Group(key)), ErrorCode::GROUP_AUTHORIZATION_FAILED)
        }
        InternalTopicKind::Transactions => (
            shard.allows(context, Operation::Describe, Resource::TransactionalId(key)),
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        InternalTopicKind::ShareState => {
            (context.version.number >= 6 && is_share_partition(key), ErrorCode::INVALID_REQUEST)
        }
    };
    if is_good { Ok(()) } else { Err(error) }
}

/// `groupId:topicId:partition`; the group id may have colons in it, but is not empty.
fn is_share_partition(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let (partition, topic_id, group_id) = (parts.next(), parts.next(), parts.next());
    partition.is_some_and(|partition| partition.parse::<i32>().is_ok())
        && topic_id.is_some_and(|topic_id| topic_id.parse::<Uuid>().is_ok())
        && group_id.is_some_and(|group_id| !group_id.is_empty())
}

/// Versions 0 to 3: one key, one answer.
fn write_one(found: Found<'_>, reply: &mut Writer<'_>, context: &RequestContext<'_>) {
    match (found, context.version.number) {
        (Ok(endpoint), 0) => reply.raw(&endpoint.coordinator.v0),
        (Ok(endpoint), 1 | 2) => reply.raw(&endpoint.coordinator.v1),
        (Ok(endpoint), _) => reply.raw(&endpoint.coordinator.v3),
        (Err(error), _) => {
            let response = FindCoordinatorResponse {
                error_code: error.0,
                error_message: Some(error.name().into()),
                node_id: -1,
                port: -1,
                ..Default::default()
            };
            response.write(reply, context.version);
        }
    }
}

/// Version 4 and newer: a row for each key, in the order of the request. The layout is written out here, so that a row is a
/// copy: throttle time, count, rows of key and the rest, tags.
fn write_all<'g>(
    request: &FindCoordinatorRequest<'_>,
    reply: &mut Writer<'_>,
    find: &mut dyn FnMut(&str) -> Found<'g>,
    version: Version,
) {
    reply.i32(0);
    reply.count(request.coordinator_keys.len(), true);
    for key in &request.coordinator_keys {
        if reply.is_full() {
            break;
        }
        match find(&key) {
            Ok(endpoint) => {
                reply.string(&key, true);
                reply.raw(&endpoint.coordinator.v4_row);
            }
            Err(error) => Coordinator { key, error_code: error.0, ..ABSENT }.write(reply, version),
        }
    }
    reply.uvarint(0);
}

/// An error that concerns all keys, with its name as the message.
fn refuse_all(
    request: &FindCoordinatorRequest<'_>,
    reply: &mut Writer<'_>,
    error: ErrorCode,
    context: &RequestContext<'_>,
) {
    if context.version.number < 4 {
        return write_one(Err(error), reply, context);
    }
    let keys = request.coordinator_keys;
    let row = |key| Coordinator { key, error_code: error.0, error_message: Some(error.name().into()), ..ABSENT };
    let coordinators = Array::Each { len: keys.len(), each: &|rows| keys.iter().for_each(|key| rows.push(row(key))) };
    FindCoordinatorResponse { coordinators, ..Default::default() }.write(reply, context.version);
}

/// Kafka's node that is not there.
const ABSENT: Coordinator<'static> = Coordinator {
    key: Cow::Borrowed(""),
    node_id: -1,
    host: Cow::Borrowed(""),
    port: -1,
    error_code: 0,
    error_message: Some(Cow::Borrowed("")),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::EncodedCoordinator;
    use crate::limits::RESPONSE_MAX_BYTES;
    use crate::wire::ApiKey;

    #[test]
    fn a_reply_that_is_too_large_stops_growing() {
        let row_bytes = 1 << 20;
        let coordinator = EncodedCoordinator { v4_row: vec![0; row_bytes].into(), ..Default::default() };
        let endpoint = Endpoint { host: "host".into(), port: 9092, coordinator };
        let written = |keys: usize| {
            let keys = vec![Cow::Borrowed(""); keys];
            let request = FindCoordinatorRequest { coordinator_keys: Array::Items(&keys), ..Default::default() };
            let mut bytes = Vec::new();
            let mut reply = Writer::new(&mut bytes);
            let _start = reply.begin_frame();
            let mut asked = 0;
            let mut find = |_: &str| {
                asked += 1;
                Ok(&endpoint)
            };
            write_all(&request, &mut reply, &mut find, ApiKey::FindCoordinator.version(6));
            (reply.is_full(), asked)
        };
        let most = RESPONSE_MAX_BYTES / row_bytes - 1;
        assert_eq!(written(most), (false, most));
        assert_eq!(written(most + 1), (true, most + 1), "one past the limit");
        assert_eq!(written(most + 10), (true, most + 1), "the rest is not looked up");
    }
}

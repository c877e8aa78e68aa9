//! OffsetCommit: the topics are judged first, and hide every error of the group if none is left; what is left is stored, and
//! the reply waits until it is durable.

use std::cell::Cell;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::{CommitRequest, PartitionCommit};
use crate::ids::TopicId;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::{Catalogue, Topic};
use crate::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::wire::{Array, Version, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: OffsetCommitRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    // A code for each partition of the request, in its order.
    let mut codes = std::mem::take(&mut shard.codes);
    codes.clear();
    judge_topics(shard, context, &request, &mut codes);
    let stored = if codes.iter().any(|code| code.is_none()) {
        store(shard, context, &request, &mut codes)
    } else {
        Ok(Verdict::Answered)
    };
    let verdict = stored.unwrap_or_else(|error| {
        codes.iter_mut().filter(|code| code.is_none()).for_each(|code| *code = error);
        Verdict::Answered
    });
    write(&request, &codes, context.version, reply);
    shard.codes = codes;
    verdict
}

fn judge_topics(
    shard: &Shard,
    context: &RequestContext<'_>,
    request: &OffsetCommitRequest<'_>,
    codes: &mut Vec<ErrorCode>,
) {
    let may_commit = shard.allows(context, Operation::Read, Resource::Group(&request.group_id));
    for topic in request.topics.iter() {
        let found = find(shard.catalogue(), &topic, context.version);
        let name = found.map_or(&*topic.name, |found| &found.name);
        let error = if !may_commit {
            ErrorCode::GROUP_AUTHORIZATION_FAILED
        } else if context.version.number >= 10 && found.is_none() {
            ErrorCode::UNKNOWN_TOPIC_ID
        } else if !shard.allows(context, Operation::Read, Resource::Topic(name)) {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
        } else {
            ErrorCode::NONE
        };
        let judge = |partition: OffsetCommitRequestPartition<'_>| match found {
            _ if !error.is_none() => error,
            Some(topic) if topic.partition(partition.partition_index).is_some() => ErrorCode::NONE,
            _ => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        };
        codes.extend(topic.partitions.iter().map(judge));
    }
}

fn store(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: &OffsetCommitRequest<'_>,
    codes: &mut [ErrorCode],
) -> Result<Verdict, ErrorCode> {
    shard.group_partition(&request.group_id)?;
    let (groups, catalogue) = shard.groups_and_catalogue();
    let commit = CommitRequest {
        group_id: &request.group_id,
        member_id: &request.member_id,
        group_instance_id: request.group_instance_id.as_deref(),
        generation_id: request.generation_id_or_member_epoch,
        knows_group_id_not_found: context.version.number >= 9,
    };
    let mut committer = groups.begin_commit(&commit, context.now)?;
    let retention_ms = (request.retention_time_ms != -1).then_some(request.retention_time_ms);
    let mut codes = codes.iter_mut();
    for topic in request.topics.iter() {
        let found = find(catalogue, &topic, context.version);
        for (partition, code) in topic.partitions.iter().zip(codes.by_ref()) {
            if let (ErrorCode::NONE, Some(found)) = (*code, found) {
                *code = committer.commit(&found.name, found.id.0, partition_commit(&partition, retention_ms));
            }
        }
    }
    shard.persist()
}

fn partition_commit<'a>(
    partition: &'a OffsetCommitRequestPartition<'_>,
    retention_ms: Option<i64>,
) -> PartitionCommit<'a> {
    PartitionCommit {
        partition: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: partition.committed_metadata.as_deref(),
        commit_timestamp_ms: (partition.commit_timestamp != -1).then_some(partition.commit_timestamp),
        retention_ms,
    }
}

fn find<'c>(catalogue: &'c Catalogue, topic: &OffsetCommitRequestTopic<'_>, version: Version) -> Option<&'c Topic> {
    let found = match version.number {
        10.. => catalogue.by_id(TopicId(topic.topic_id.0)),
        _ => catalogue.by_name(&topic.name),
    };
    found.map(|topic| &**topic)
}

fn write(request: &OffsetCommitRequest<'_>, codes: &[ErrorCode], version: Version, reply: &mut Writer<'_>) {
    let next = Cell::new(0);
    let code = || codes[next.replace(next.get() + 1)];
    let response = OffsetCommitResponse {
        topics: Array::Each {
            len: request.topics.len(),
            each: &|rows| {
                for topic in request.topics.iter() {
                    rows.push(OffsetCommitResponseTopic {
                        name: topic.name,
                        topic_id: topic.topic_id,
                        partitions: Array::Each {
                            len: topic.partitions.len(),
                            each: &|rows| {
                                for partition in topic.partitions.iter() {
                                    let partition_index = partition.partition_index;
                                    rows.push(OffsetCommitResponsePartition { partition_index, error_code: code().0 });
                                }
                            },
                        },
                    });
                }
            },
        },
        ..OffsetCommitResponse::default()
    };
    response.write(reply, version);
}

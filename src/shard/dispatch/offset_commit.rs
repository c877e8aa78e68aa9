//! OffsetCommit: the topics are judged first, and hide every error of the group if none is left; what is left is stored, and
//! the reply waits until it is durable.

use std::cell::Cell;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::group::{CommitRequest, OffsetCommitter, PartitionCommit};
use crate::ids::TopicId;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::{Catalogue, Topic};
use crate::wire::array::Rows;
use crate::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::wire::{Array, Version, Wire, Writer};

/// A partition of a commit and what becomes of it.
pub(in crate::shard) type JudgedCommit = (i32, ErrorCode);

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: OffsetCommitRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let mut judged = std::mem::take(&mut shard.judged_commits);
    judged.clear();
    let verdict = match commit(shard, context, &request, &mut judged).then(|| shard.persist()) {
        None => Verdict::Answered,
        Some(Ok(verdict)) => verdict,
        Some(Err(error)) => {
            judged.iter_mut().filter(|(_, code)| code.is_none()).for_each(|(_, code)| *code = error);
            Verdict::Answered
        }
    };
    write(&request, &judged, context.version, reply);
    shard.judged_commits = judged;
    verdict
}

/// Judges each partition of the request, in its order, and commits those that are good: true if any was taken. The group is
/// asked, and made if need be, when the first good one comes.
fn commit(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: &OffsetCommitRequest<'_>,
    judged: &mut Vec<JudgedCommit>,
) -> bool {
    let may_commit = shard.allows(context, Operation::Read, Resource::Group(&request.group_id));
    let ours = shard.group_partition(&request.group_id);
    let (groups, catalogue, authorizer) = shard.groups_and_catalogue();
    let group = CommitRequest {
        group_id: &request.group_id,
        member_id: &request.member_id,
        group_instance_id: request.group_instance_id.as_deref(),
        generation_id: request.generation_id_or_member_epoch,
        knows_group_id_not_found: context.version.number >= 9,
    };
    let retention_ms = (request.retention_time_ms != -1).then_some(request.retention_time_ms);
    let mut groups = Some(groups);
    let mut committer: Option<Result<OffsetCommitter<'_>, ErrorCode>> = None;
    for topic in request.topics.iter() {
        let found = find(catalogue, &topic, context.version);
        let name = found.map_or(&*topic.name, |found| &found.name);
        let error = if !may_commit {
            ErrorCode::GROUP_AUTHORIZATION_FAILED
        } else if context.version.number >= 10 && found.is_none() {
            ErrorCode::UNKNOWN_TOPIC_ID
        } else if !authorizer.allows(context.subject(), Operation::Read, Resource::Topic(name)) {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
        } else {
            ErrorCode::NONE
        };
        for partition in topic.partitions.iter() {
            let index = partition.partition_index;
            let code = match found.filter(|found| found.partition(index).is_some()) {
                _ if !error.is_none() => error,
                None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some(found) => {
                    let mut groups = || groups.take().expect("a commit is begun once");
                    let begin = || ours.and_then(|_| groups().begin_commit(&group, context.now));
                    match committer.get_or_insert_with(begin) {
                        Ok(group) => group.commit(&found.name, found.id.0, partition_commit(&partition, retention_ms)),
                        Err(error) => *error,
                    }
                }
            };
            judged.push((index, code));
        }
    }
    committer.is_some_and(|committer| committer.is_ok())
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

fn write(request: &OffsetCommitRequest<'_>, judged: &[JudgedCommit], version: Version, reply: &mut Writer<'_>) {
    let rest = Cell::new(judged);
    let each = |rows: &mut Rows<'_, '_>| {
        for topic in request.topics.iter() {
            let (own, others) = rest.get().split_at(topic.partitions.len());
            rest.set(others);
            let row = |(partition_index, error_code): JudgedCommit| OffsetCommitResponsePartition {
                partition_index,
                error_code: error_code.0,
            };
            let partitions =
                Array::Each { len: own.len(), each: &|rows| own.iter().for_each(|judged| rows.push(row(*judged))) };
            rows.push(OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions });
        }
    };
    let topics = Array::Each { len: request.topics.len(), each: &each };
    OffsetCommitResponse { topics, ..OffsetCommitResponse::default() }.write(reply, version);
}

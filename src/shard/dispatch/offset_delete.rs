//! OffsetDelete: committed offsets of topics to which the group does not subscribe.

use std::cell::Cell;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use crate::wire::{Array, Version, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: OffsetDeleteRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let mut codes = std::mem::take(&mut shard.codes);
    codes.clear();
    let verdict = match delete(shard, context, &request, &mut codes) {
        Ok(verdict) => {
            write(&request, &codes, context.version, reply);
            verdict
        }
        Err(error) => {
            OffsetDeleteResponse { error_code: error.0, ..OffsetDeleteResponse::default() }
                .write(reply, context.version);
            Verdict::Answered
        }
    };
    shard.codes = codes;
    verdict
}

fn delete(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: &OffsetDeleteRequest<'_>,
    codes: &mut Vec<ErrorCode>,
) -> Result<Verdict, ErrorCode> {
    if !shard.allows(context, Operation::Delete, Resource::Group(&request.group_id)) {
        return Err(ErrorCode::GROUP_AUTHORIZATION_FAILED);
    }
    for topic in request.topics.iter() {
        let is_allowed = shard.allows(context, Operation::Read, Resource::Topic(&topic.name));
        let found = shard.catalogue().by_name(&topic.name);
        codes.extend(topic.partitions.iter().map(|partition| match found {
            _ if !is_allowed => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            Some(topic) if topic.partition(partition.partition_index).is_some() => ErrorCode::NONE,
            _ => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        }));
    }
    // The group is asked even if no partition is left: its error hides those of the topics.
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    shard.group_partition(&request.group_id)?;
    let mut deleter = shard.groups.begin_offset_delete(&request.group_id)?;
    let mut codes = codes.iter_mut();
    for topic in request.topics.iter() {
        for (partition, code) in topic.partitions.iter().zip(codes.by_ref()).filter(|(_, code)| code.is_none()) {
            *code = deleter.delete(&topic.name, partition.partition_index);
        }
    }
    shard.persist()
}

fn write(request: &OffsetDeleteRequest<'_>, codes: &[ErrorCode], version: Version, reply: &mut Writer<'_>) {
    let next = Cell::new(0);
    let code = || codes[next.replace(next.get() + 1)];
    let response = OffsetDeleteResponse {
        topics: Array::Each {
            len: request.topics.len(),
            each: &|rows| {
                for topic in request.topics.iter() {
                    rows.push(OffsetDeleteResponseTopic {
                        name: topic.name,
                        partitions: Array::Each {
                            len: topic.partitions.len(),
                            each: &|rows| {
                                for partition in topic.partitions.iter() {
                                    let partition_index = partition.partition_index;
                                    rows.push(OffsetDeleteResponsePartition { partition_index, error_code: code().0 });
                                }
                            },
                        },
                    });
                }
            },
        },
        ..OffsetDeleteResponse::default()
    };
    response.write(reply, version);
}

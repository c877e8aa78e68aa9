//! Fetch: records out of nothing. Parked while there is less than it wants, until its time is over.

use std::time::Duration;

use super::{RequestContext, reply_frame};
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::ids::{NodeIndex, TopicId};
use crate::leadership::Table;
use crate::limits;
use crate::shard::Shard;
use crate::shard::fetches::{Fetch, FetchPartition, FetchTopic, Fetched, FetchedPartition, TopicName};
use crate::shard::service::Verdict;
use crate::wire::array::Rows;
use crate::wire::fetch::{
    self, EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
    PartitionData,
};
use crate::wire::{ApiKey, Array, Version, Wire, Writer};

/// From this version on topics are named by id.
const FIRST_VERSION_BY_ID: i16 = 13;

/// From this version on a client that is mistaken about a leader is told the right one (KIP-951).
const FIRST_VERSION_WITH_LEADER: i16 = 16;

/// Session epochs that belong to no session: "begin one", which we never do, and "without one".
const FULL_FETCH_EPOCHS: [i32; 2] = [0, -1];

const READ_COMMITTED: i8 = 1;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: FetchRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    if !FULL_FETCH_EPOCHS.contains(&request.session_epoch) {
        let error_code = ErrorCode::FETCH_SESSION_ID_NOT_FOUND.0;
        FetchResponse { error_code, ..Default::default() }.write(reply, context.version);
        return Verdict::Answered;
    }
    let fetch = plan(shard, context, &request);
    let fetched = fetch.read(shard.catalogue(), shard.node());
    let max_wait_ms = u64::try_from(request.max_wait_ms).unwrap_or(0);
    if max_wait_ms > 0 && fetch.waits_for_more(&fetched) && shard.fetches.has_room_for(&fetch) {
        let deadline = context.now.after(Duration::from_millis(max_wait_ms));
        shard.fetches.wait(context.connection, deadline.monotonic_ms, fetch);
        return Verdict::Parked;
    }
    write(&fetch, &fetched, shard.table(), context.version, reply);
    Verdict::Answered
}

/// Appends the answer of a Fetch whose time is over.
pub(in crate::shard) fn write_parked(shard: &Shard, fetch: &Fetch, replies: &mut Vec<u8>) {
    let fetched = fetch.read(shard.catalogue(), shard.node());
    reply_frame(&shard.metrics, replies, ApiKey::Fetch, fetch.version, fetch.correlation_id, |writer| {
        write(fetch, &fetched, shard.table(), ApiKey::Fetch.version(fetch.version), writer);
    });
}

fn plan(shard: &Shard, context: &RequestContext<'_>, request: &FetchRequest<'_>) -> Fetch {
    let at_least_zero = |bytes: i32| usize::try_from(bytes).unwrap_or(0);
    let max_bytes = at_least_zero(request.max_bytes).min(limits::FETCH_RESPONSE_MAX_BYTES);
    // As in Kafka, a topic of which nothing is asked is not answered. It would only be kept.
    let topics = request.topics.iter().filter(|topic| !topic.partitions.is_empty());
    Fetch {
        version: context.version.number,
        correlation_id: context.correlation_id(),
        listener: context.session.listener,
        min_bytes: at_least_zero(request.min_bytes).min(max_bytes),
        max_bytes,
        is_read_committed: request.isolation_level == READ_COMMITTED,
        topics: topics.map(|topic| plan_topic(shard, context, &topic)).collect(),
    }
}

fn plan_topic(shard: &Shard, context: &RequestContext<'_>, topic: &fetch::FetchTopic<'_>) -> FetchTopic {
    let id = TopicId::from(topic.topic_id);
    let partition = |asked: fetch::FetchPartition| FetchPartition {
        index: asked.partition,
        current_leader_epoch: asked.current_leader_epoch,
        last_fetched_epoch: asked.last_fetched_epoch,
        offset: asked.fetch_offset,
        max_bytes: usize::try_from(asked.partition_max_bytes).unwrap_or(0),
    };
    let is_by_id = context.version.number >= FIRST_VERSION_BY_ID;
    let allows = |name: &str| shard.allows(context, Operation::Read, Resource::Topic(name));
    FetchTopic {
        is_allowed: match is_by_id {
            // There is no asking for the right to an id without a topic; it is unknown then.
            true => shard.catalogue().by_id(id).is_none_or(|topic| allows(&topic.name)),
            false => allows(&topic.topic),
        },
        name: if is_by_id { TopicName::Id(id) } else { TopicName::Name((&*topic.topic).into()) },
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

fn write(fetch: &Fetch, fetched: &Fetched, table: &Table, version: Version, reply: &mut Writer<'_>) {
    let tells_leader = version.number >= FIRST_VERSION_WITH_LEADER;
    let leaders = if tells_leader { leaders(fetched) } else { Vec::new() };
    let partition = |(asked, row): (&FetchPartition, &FetchedPartition), rows: &mut Rows<'_, '_>| {
        let leader = row.leader.filter(|_| tells_leader);
        rows.push(PartitionData {
            partition_index: asked.index,
            error_code: row.error.0,
            high_watermark: row.high_watermark,
            last_stable_offset: row.high_watermark,
            log_start_offset: if row.high_watermark >= 0 { 0 } else { -1 },
            diverging_epoch: match row.diverging {
                Some((epoch, end_offset)) => EpochEndOffset { epoch, end_offset },
                None => EpochEndOffset::default(),
            },
            current_leader: match leader {
                Some((node, leader_epoch)) => {
                    LeaderIdAndEpoch { leader_id: table.nodes[node.index()].id, leader_epoch }
                }
                None => LeaderIdAndEpoch::default(),
            },
            aborted_transactions: fetch.is_read_committed.then_some(Array::EMPTY),
            records: Some(&fetched.records[row.records.clone()]),
            ..Default::default()
        });
    };
    let topic = |(topic, row): (&FetchTopic, &Vec<FetchedPartition>), rows: &mut Rows<'_, '_>| {
        let (name, id) = match &topic.name {
            TopicName::Name(name) => (&**name, TopicId::ZERO),
            TopicName::Id(id) => ("", *id),
        };
        rows.push(FetchableTopicResponse {
            topic: name.into(),
            topic_id: id.into(),
            partitions: Array::Each {
                len: row.len(),
                each: &|rows| topic.partitions.iter().zip(row).for_each(|pair| partition(pair, rows)),
            },
        });
    };
    let response = FetchResponse {
        responses: Array::Each {
            len: fetched.rows.len(),
            each: &|rows| fetch.topics.iter().zip(&fetched.rows).for_each(|pair| topic(pair, rows)),
        },
        node_endpoints: Array::Each {
            len: leaders.len(),
            each: &|rows| leaders.iter().for_each(|&node| rows.push(node_endpoint(fetch, table, node))),
        },
        ..Default::default()
    };
    response.write(reply, version);
}

/// The nodes that rows name as leaders.
fn leaders(fetched: &Fetched) -> Vec<NodeIndex> {
    let mut nodes: Vec<_> = fetched.rows.iter().flatten().filter_map(|row| row.leader).map(|(node, _)| node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn node_endpoint<'t>(fetch: &Fetch, table: &'t Table, node: NodeIndex) -> NodeEndpoint<'t> {
    let node_id = table.nodes[node.index()].id;
    match table.endpoint(node, usize::from(fetch.listener.0)) {
        Some(endpoint) => {
            let (host, port) = (endpoint.host.as_str().into(), endpoint.port.into());
            NodeEndpoint { node_id, host, port, ..Default::default() }
        }
        None => NodeEndpoint { node_id, port: -1, ..Default::default() },
    }
}

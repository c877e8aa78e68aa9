//! Produce: records are checked, acknowledged and dropped; partitions stand still. Enough for clients that want to see the
//! API (librdkafka fetches from no server without it) and for tools that write; not a log store.

use super::RequestContext;
use super::led::led_by;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::ids::NodeIndex;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::{Topic, configs, produced};
use crate::wire::array::Rows;
use crate::wire::produce::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use crate::wire::{Array, Wire, Writer};

const NO_ANSWER: i16 = 0;
const ACKS: std::ops::RangeInclusive<i16> = -1..=1;

/// From this version on topics are named by id.
const FIRST_VERSION_BY_ID: i16 = 13;

/// From this version on a producer that is mistaken about a leader is told the right one (KIP-951).
const FIRST_VERSION_WITH_LEADER: i16 = 10;

/// From this version on a batch may be compressed with zstd.
const FIRST_VERSION_WITH_ZSTD: i16 = 7;

/// What a partition is answered.
struct Produced {
    error: ErrorCode,
    base_offset: i64,
    leader: Option<(NodeIndex, i32)>,
}

impl From<ErrorCode> for Produced {
    fn from(error: ErrorCode) -> Self {
        Produced { error, base_offset: -1, leader: None }
    }
}

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: ProduceRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let refusal = refusal(shard, context, &request);
    let topics: Vec<Row<'_>> = request
        .topic_data
        .iter()
        .map(|topic| {
            let rows = produce_topic(shard, context, &topic, refusal);
            (topic, rows)
        })
        .collect();
    if request.acks == NO_ANSWER {
        let failed = topics.iter().flat_map(|(_, rows)| rows).find(|(_, produced)| !produced.error.is_none());
        // Kafka too can tell such a producer only by closing its connection.
        return match failed {
            Some((_, produced)) => Verdict::Close(format!("produce with acks 0: {:?}", produced.error).into()),
            None => Verdict::Answered,
        };
    }
    write(shard, context, &topics, reply);
    Verdict::Answered
}

fn produce_topic(
    shard: &Shard,
    context: &RequestContext<'_>,
    topic: &TopicProduceData<'_>,
    refusal: Option<ErrorCode>,
) -> Vec<(i32, Produced)> {
    let found = refusal.map_or_else(|| find(shard, context, topic), Err);
    let produced = |partition: &PartitionProduceData<'_>| match found {
        Ok(found) => produce(shard, context, found, partition),
        Err(error) => error.into(),
    };
    topic.partition_data.iter().map(|partition| (partition.index, produced(&partition))).collect()
}

/// What concerns the request as a whole.
fn refusal(shard: &Shard, context: &RequestContext<'_>, request: &ProduceRequest<'_>) -> Option<ErrorCode> {
    let transaction = request.transactional_id.as_deref();
    let may = |id| shard.allows(context, Operation::Write, Resource::TransactionalId(id));
    if transaction.is_some_and(|id| !may(id)) {
        return Some(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    }
    (!ACKS.contains(&request.acks)).then_some(ErrorCode::INVALID_REQUIRED_ACKS)
}

fn find<'s>(
    shard: &'s Shard,
    context: &RequestContext<'_>,
    topic: &TopicProduceData<'_>,
) -> Result<&'s Topic, ErrorCode> {
    let is_by_id = context.version.number >= FIRST_VERSION_BY_ID;
    let (found, unknown) = match is_by_id {
        true => (shard.catalogue().by_id(topic.topic_id.into()), ErrorCode::UNKNOWN_TOPIC_ID),
        false => (shard.catalogue().by_name(&topic.name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    let name = found.map_or(&*topic.name, |found| &found.name);
    let may_write = (found.is_none() && is_by_id) || shard.allows(context, Operation::Write, Resource::Topic(name));
    match found {
        _ if !may_write => Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        None => Err(unknown),
        Some(found) if found.is_internal() => Err(ErrorCode::INVALID_TOPIC_EXCEPTION),
        Some(found) => Ok(found),
    }
}

fn produce(
    shard: &Shard,
    context: &RequestContext<'_>,
    topic: &Topic,
    partition: &PartitionProduceData<'_>,
) -> Produced {
    let led = match led_by(shard.node(), Some(topic), partition.index, -1) {
        Ok(led) => led,
        Err(error) => {
            let leader = topic.partition(partition.index).map(|partition| (partition.leader, partition.leader_epoch));
            return Produced { leader, ..error.into() };
        }
    };
    let allows_zstd = context.version.number >= FIRST_VERSION_WITH_ZSTD;
    let records = partition.records.unwrap_or_default();
    match produced::check(records, configs::max_message_bytes(topic), allows_zstd) {
        Ok(()) => Produced { error: ErrorCode::NONE, base_offset: led.records.high_watermark(), leader: None },
        Err(error) => error.into(),
    }
}

type Row<'a> = (TopicProduceData<'a>, Vec<(i32, Produced)>);

fn write(shard: &Shard, context: &RequestContext<'_>, topics: &[Row<'_>], reply: &mut Writer<'_>) {
    let table = shard.table();
    let tells_leader = context.version.number >= FIRST_VERSION_WITH_LEADER;
    let partition = |(index, produced): &(i32, Produced), rows: &mut Rows<'_, '_>| {
        rows.push(PartitionProduceResponse {
            index: *index,
            error_code: produced.error.0,
            base_offset: produced.base_offset,
            log_start_offset: if produced.error.is_none() { 0 } else { -1 },
            current_leader: match produced.leader.filter(|_| tells_leader) {
                Some((node, leader_epoch)) => {
                    LeaderIdAndEpoch { leader_id: table.nodes[node.index()].id, leader_epoch }
                }
                None => LeaderIdAndEpoch::default(),
            },
            ..Default::default()
        });
    };
    let topic = |(topic, partitions): &Row<'_>, rows: &mut Rows<'_, '_>| {
        rows.push(TopicProduceResponse {
            name: (&*topic.name).into(),
            topic_id: topic.topic_id,
            partition_responses: Array::Each {
                len: partitions.len(),
                each: &|rows| partitions.iter().for_each(|row| partition(row, rows)),
            },
        });
    };
    let leaders = if tells_leader { leaders(topics) } else { Vec::new() };
    let listener = usize::from(context.session.listener.0);
    let node = |node: NodeIndex, rows: &mut Rows<'_, '_>| {
        let node_id = table.nodes[node.index()].id;
        let endpoint = table.endpoint(node, listener);
        rows.push(NodeEndpoint {
            node_id,
            host: endpoint.map_or("", |endpoint| &endpoint.host).into(),
            port: endpoint.map_or(-1, |endpoint| endpoint.port.into()),
            ..Default::default()
        });
    };
    let response = ProduceResponse {
        responses: Array::Each { len: topics.len(), each: &|rows| topics.iter().for_each(|row| topic(row, rows)) },
        node_endpoints: Array::Each {
            len: leaders.len(),
            each: &|rows| leaders.iter().for_each(|&leader| node(leader, rows)),
        },
        ..Default::default()
    };
    response.write(reply, context.version);
}

/// The nodes that rows name as leaders.
fn leaders(topics: &[Row<'_>]) -> Vec<NodeIndex> {
    let rows = topics.iter().flat_map(|(_, rows)| rows);
    let mut nodes: Vec<_> = rows.filter_map(|(_, produced)| produced.leader).map(|(node, _)| node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

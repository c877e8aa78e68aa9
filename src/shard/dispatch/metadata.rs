//! Metadata: the nodes as the listener of the request shows them, and the topics. Unknown topics are created if both the
//! server and the client allow it, but their first answer is UNKNOWN_TOPIC_OR_PARTITION all the same, as in Kafka.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::ids::{InternalTopicKind, TopicId};
use crate::leadership::{EncodedBrokers, Table};
use crate::limits::METADATA_TOPICS_MAX;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::{Catalogue, Partition, Topic, name};
use crate::wire::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use crate::wire::{Array, Uuid, Version, Wire, Writer, array};

/// In place of operations that were not asked for.
const NOT_ASKED: i32 = i32::MIN;

/// From this version on topics may be asked for by id; before, an id is an error.
const FIRST_VERSION_BY_ID: i16 = 12;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: MetadataRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let topics = request.topics.unwrap_or_default();
    let is_all = request.topics.is_none() || (context.version.number == 0 && topics.is_empty());
    let has_ids = topics.iter().any(|topic| !topic.topic_id.is_zero());
    let has_nameless = topics.iter().any(|topic| topic.name.is_none() && topic.topic_id.is_zero());
    if topics.len() > METADATA_TOPICS_MAX || has_nameless || (has_ids && context.version.number < FIRST_VERSION_BY_ID) {
        refuse(topics, context, reply);
        return Verdict::Answered;
    }
    let view = View {
        shard,
        context,
        table: shard.table(),
        catalogue: shard.catalogue(),
        tells_operations: request.include_topic_authorized_operations,
        may_create: request.allow_auto_topic_creation && shard.settings.auto_create_topics,
    };
    let mut rows = Rows::new(context.version, view.node_ids());
    let mut unknown = Vec::new();
    if is_all {
        view.all(&mut rows);
    } else if has_ids {
        view.by_id(topics, &mut rows);
    } else {
        view.by_name(topics, &mut rows, &mut unknown);
    }
    view.write(&rows, request.include_cluster_authorized_operations, reply);
    shard.control.auto_create(unknown.into_iter());
    Verdict::Answered
}

/// A request that Kafka fails as a whole: the error on each topic, and no nodes.
fn refuse(topics: Array<'_, MetadataRequestTopic<'_>>, context: &RequestContext<'_>, reply: &mut Writer<'_>) {
    let error_code = ErrorCode::INVALID_REQUEST.0;
    let row = |topic: MetadataRequestTopic<'_>, rows: &mut array::Rows<'_, '_>| {
        let (name, topic_id) = (topic.name, topic.topic_id);
        rows.push(MetadataResponseTopic { error_code, name, topic_id, ..Default::default() });
    };
    let response = MetadataResponse {
        topics: Array::Each { len: topics.len(), each: &|rows| topics.iter().for_each(|topic| row(topic, rows)) },
        error_code,
        ..Default::default()
    };
    response.write(reply, context.version);
}

/// What a request is answered from.
struct View<'a> {
    shard: &'a Shard,
    context: &'a RequestContext<'a>,
    table: &'a Table,
    catalogue: &'a Catalogue,
    tells_operations: bool,
    may_create: bool,
}

/// The rows of the answer, encoded one by one: a list of all topics and partitions in between would be larger than both.
struct Rows {
    bytes: Vec<u8>,
    len: usize,
    /// Of the rows; 0 if there is none.
    first_error: i16,
    version: Version,
    /// By node index; a partition's replicas are a slice of these.
    node_ids: Vec<i32>,
}

impl View<'_> {
    fn node_ids(&self) -> Vec<i32> {
        self.table.nodes.iter().map(|node| node.id).collect()
    }

    fn may_describe(&self, topic: &str) -> bool {
        self.shard.allows(self.context, Operation::Describe, Resource::Topic(topic))
    }

    fn operations(&self, topic: &str) -> i32 {
        if !self.tells_operations {
            return NOT_ASKED;
        }
        self.shard.authorizer.authorized_operations(self.context.subject(), Resource::Topic(topic))
    }

    fn all(&self, rows: &mut Rows) {
        for topic in self.catalogue.topics().filter(|topic| self.may_describe(&topic.name)) {
            rows.topic(topic, self.operations(&topic.name));
        }
    }

    /// Where one topic has an id, those that have none are not answered at all: so does Kafka.
    fn by_id(&self, topics: Array<'_, MetadataRequestTopic<'_>>, rows: &mut Rows) {
        let mut answered = BTreeSet::new();
        for id in topics.iter().map(|topic| TopicId::from(topic.topic_id)) {
            if id == TopicId::ZERO || !answered.insert(id) {
                continue;
            }
            match self.catalogue.by_id(id) {
                Some(topic) if self.may_describe(&topic.name) => rows.topic(topic, self.operations(&topic.name)),
                Some(_) => rows.error(ErrorCode::TOPIC_AUTHORIZATION_FAILED, None, id.into()),
                None => rows.error(ErrorCode::UNKNOWN_TOPIC_ID, None, id.into()),
            }
        }
    }

    fn by_name(&self, topics: Array<'_, MetadataRequestTopic<'_>>, rows: &mut Rows, unknown: &mut Vec<String>) {
        let mut answered = BTreeSet::new();
        for name in topics.iter().filter_map(|topic| topic.name) {
            if !answered.insert(name.clone()) {
                continue;
            }
            let error = match self.catalogue.by_name(&name) {
                _ if !self.may_describe(&name) => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                Some(topic) => {
                    rows.topic(topic, self.operations(&name));
                    continue;
                }
                None if !name::is_legal(&name) => ErrorCode::INVALID_TOPIC_EXCEPTION,
                None if self.may_create && !self.has_right_to_create(&name) => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
                None => {
                    if self.may_create {
                        unknown.push(name.to_string());
                    }
                    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                }
            };
            rows.error(error, Some(name), Uuid::ZERO);
        }
    }

    fn has_right_to_create(&self, topic: &str) -> bool {
        let may = |resource| self.shard.allows(self.context, Operation::Create, resource);
        may(Resource::Cluster) || may(Resource::Topic(topic))
    }

    fn write(&self, rows: &Rows, tells_operations: bool, reply: &mut Writer<'_>) {
        let version = self.context.version;
        let cluster_authorized_operations = match tells_operations {
            true if !self.shard.allows(self.context, Operation::Describe, Resource::Cluster) => 0,
            true => self.shard.authorizer.authorized_operations(self.context.subject(), Resource::Cluster),
            false => NOT_ASKED,
        };
        let response = MetadataResponse {
            brokers: self.brokers(),
            cluster_id: Some((&*self.shard.cluster_id).into()),
            controller_id: self.shard.settings.node_id,
            topics: Array::written(&rows.bytes, rows.len, version),
            cluster_authorized_operations,
            ..Default::default()
        };
        response.write(reply, version);
        // Rows that are there already are copied, not looked at.
        reply.note_error(rows.first_error);
    }

    fn brokers(&self) -> Array<'_, MetadataResponseBroker<'_>> {
        let version = self.context.version;
        let listener = usize::from(self.context.session.listener.0);
        let Some(EncodedBrokers { len, v0, v1, v9 }) = self.table.brokers.get(listener) else {
            return Array::EMPTY;
        };
        let bytes = match version.number {
            0 => v0,
            1..=8 => v1,
            _ => v9,
        };
        Array::written(bytes, *len, version)
    }
}

impl Rows {
    fn new(version: Version, node_ids: Vec<i32>) -> Rows {
        Rows { bytes: Vec::new(), len: 0, first_error: 0, version, node_ids }
    }

    fn topic(&mut self, topic: &Topic, topic_authorized_operations: i32) {
        let node_ids = &self.node_ids;
        let partition = |(index, partition): (usize, &Partition), rows: &mut array::Rows<'_, '_>| {
            // There is nothing to replicate: the leader is the only replica.
            let leader = &node_ids[partition.leader.index()..][..1];
            rows.push(MetadataResponsePartition {
                partition_index: index as i32,
                leader_id: leader[0],
                leader_epoch: partition.leader_epoch,
                replica_nodes: Array::Items(leader),
                isr_nodes: Array::Items(leader),
                ..Default::default()
            });
        };
        let row = MetadataResponseTopic {
            name: Some((&*topic.name).into()),
            topic_id: topic.id.into(),
            is_internal: topic.is_internal(),
            partitions: Array::Each {
                len: topic.partitions.len(),
                each: &|rows| topic.partitions.iter().enumerate().for_each(|row| partition(row, rows)),
            },
            topic_authorized_operations,
            ..Default::default()
        };
        row.write(&mut Writer::new(&mut self.bytes), self.version);
        self.len += 1;
    }

    fn error(&mut self, error: ErrorCode, name: Option<Cow<'_, str>>, topic_id: Uuid) {
        let is_internal = name.as_deref().is_some_and(|name| InternalTopicKind::of_topic_name(name).is_some());
        let row = MetadataResponseTopic { error_code: error.0, name, topic_id, is_internal, ..Default::default() };
        row.write(&mut Writer::new(&mut self.bytes), self.version);
        self.len += 1;
        if self.first_error == 0 {
            self.first_error = error.0;
        }
    }
}

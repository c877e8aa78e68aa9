//! CreateTopics: parked until control has made the topics durable and published them. Any core takes it.

use std::collections::BTreeMap;

use super::{BUSY, RequestContext};
use crate::auth::{Operation, Resource};
use crate::control::{CreateTopics, CreatedTopic, NewAssignment, NewTopic, Reply, Request};
use crate::errors::ErrorCode;
use crate::limits;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::configs::{ConfigKey, KEYS, RECORDS_KEY};
use crate::wire::array::Rows;
use crate::wire::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use crate::wire::{ApiKey, Array, Version, Wire, Writer};

/// Kafka's sources of a config's value.
const SET_FOR_THE_TOPIC: i8 = 1;
const DEFAULT: i8 = 5;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: CreateTopicsRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    if let Err(message) = check_size(&request) {
        refuse_all(&request, ErrorCode::POLICY_VIOLATION, &message, reply, context.version);
        return Verdict::Answered;
    }
    let (topics, mut answers) = admit(shard, context, &request);
    let default_records = shard.settings.records_per_partition;
    if topics.is_empty() {
        write(&answers, default_records, reply, context.version);
        return Verdict::Answered;
    }
    let bytes = topics.iter().map(bytes_of).sum();
    if !shard.control.has_room_for(bytes) {
        refuse_all(&request, ErrorCode::REQUEST_TIMED_OUT, BUSY, reply, context.version);
        return Verdict::Answered;
    }
    let may_see = |topic: &NewTopic| shard.allows(context, Operation::DescribeConfigs, Resource::Topic(&topic.name));
    let may_see: Vec<bool> = topics.iter().map(may_see).collect();
    let create = CreateTopics { topics, timeout_ms: request.timeout_ms, validate_only: request.validate_only };
    let write = move |told: Reply, writer: &mut Writer<'_>, version: Version| {
        let Reply::CreatedTopics(created) = told else { unreachable!("control answers what it was asked") };
        answers
            .extend(created.into_iter().zip(may_see).map(|(topic, may_see_configs)| Answer { topic, may_see_configs }));
        write(&answers, default_records, writer, version);
    };
    shard.control.ask(context, ApiKey::CreateTopics, Request::CreateTopics(create), bytes, Box::new(write))
}

/// What is asked for is kept until control has made it, so it must not be much; control itself looks at what it comes to.
fn check_size(request: &CreateTopicsRequest<'_>) -> Result<(), String> {
    let too_many = |what: &str, most: usize| Err(format!("at most {most} {what} in one request are allowed"));
    if request.topics.len() > limits::CHANGED_TOPICS_MAX {
        return too_many("topics", limits::CHANGED_TOPICS_MAX);
    }
    let (mut assignments, mut configs) = (0, 0);
    for topic in &request.topics {
        assignments += topic.assignments.len();
        configs += topic.configs.len();
    }
    if assignments > limits::CREATE_PARTITIONS_MAX {
        return too_many("partitions", limits::CREATE_PARTITIONS_MAX);
    }
    if configs > limits::CREATE_CONFIGS_MAX {
        return too_many("configs", limits::CREATE_CONFIGS_MAX);
    }
    Ok(())
}

fn refuse_all(
    request: &CreateTopicsRequest<'_>,
    error_code: ErrorCode,
    message: &str,
    reply: &mut Writer<'_>,
    version: Version,
) {
    let row = |topic: CreatableTopic<'_>, rows: &mut Rows<'_, '_>| {
        rows.push(CreatableTopicResult {
            name: topic.name,
            error_code: error_code.0,
            error_message: Some(message.into()),
            ..Default::default()
        });
    };
    let response = CreateTopicsResponse {
        topics: Array::Each {
            len: request.topics.len(),
            each: &|rows| request.topics.iter().for_each(|topic| row(topic, rows)),
        },
        ..Default::default()
    };
    response.write(reply, version);
}

/// Roughly what it takes in memory.
fn bytes_of(topic: &NewTopic) -> usize {
    let assignment = |assignment: &NewAssignment| size_of_val(assignment) + size_of_val(&*assignment.broker_ids);
    let config = |config: &(String, Option<String>)| {
        size_of_val(config) + config.0.len() + config.1.as_ref().map_or(0, String::len)
    };
    let assignments: usize = topic.assignments.iter().map(assignment).sum();
    let configs: usize = topic.configs.iter().map(config).sum();
    size_of_val(topic) + topic.name.len() + assignments + configs
}

struct Answer {
    topic: CreatedTopic,
    may_see_configs: bool,
}

/// What may be asked of control, and the answers of the rest.
fn admit(
    shard: &Shard,
    context: &RequestContext<'_>,
    request: &CreateTopicsRequest<'_>,
) -> (Vec<NewTopic>, Vec<Answer>) {
    let mut times = BTreeMap::new();
    for topic in &request.topics {
        *times.entry(topic.name).or_insert(0) += 1;
    }
    let refused = |name: &str, error_code, message: &str| Answer {
        topic: CreatedTopic {
            name: name.into(),
            id: Default::default(),
            error_code,
            error_message: Some(message.into()),
            num_partitions: -1,
            replication_factor: -1,
            configs: BTreeMap::new(),
        },
        may_see_configs: true,
    };
    let doubled = times.iter().filter(|&(_, &times)| times > 1);
    let mut answers: Vec<Answer> = doubled
        .map(|(name, _)| refused(name, ErrorCode::INVALID_REQUEST, "the topic is named more than once"))
        .collect();
    let may_create_any = shard.allows(context, Operation::Create, Resource::Cluster);
    let mut topics = Vec::new();
    for topic in request.topics.iter().filter(|topic| times[&topic.name] == 1) {
        if may_create_any || shard.allows(context, Operation::Create, Resource::Topic(&topic.name)) {
            topics.push(new_topic(&topic));
        } else {
            answers.push(refused(&topic.name, ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed"));
        }
    }
    (topics, answers)
}

fn new_topic(topic: &CreatableTopic<'_>) -> NewTopic {
    let assignments = topic.assignments.iter().map(|assignment| NewAssignment {
        partition_index: assignment.partition_index,
        broker_ids: assignment.broker_ids.iter().collect(),
    });
    let configs = topic.configs.iter();
    NewTopic {
        name: topic.name.to_string(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        configs: configs.map(|config| (config.name.into(), config.value.map(Into::into))).collect(),
    }
}

fn write(answers: &[Answer], default_records: i64, reply: &mut Writer<'_>, version: Version) {
    let default_records = default_records.to_string();
    let response = CreateTopicsResponse {
        topics: Array::Each {
            len: answers.len(),
            each: &|rows| answers.iter().for_each(|answer| push(answer, &default_records, rows)),
        },
        ..Default::default()
    };
    response.write(reply, version);
}

fn push(answer: &Answer, default_records: &str, rows: &mut Rows<'_, '_>) {
    let topic = &answer.topic;
    let row = CreatableTopicResult {
        name: topic.name.as_str().into(),
        topic_id: topic.id.into(),
        error_code: topic.error_code.0,
        error_message: topic.error_message.as_deref().map(Into::into),
        ..Default::default()
    };
    if !topic.error_code.is_none() {
        return rows.push(row);
    }
    if !answer.may_see_configs {
        let topic_config_error_code = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
        return rows.push(CreatableTopicResult { topic_config_error_code, ..row });
    }
    let config = |key: &'static ConfigKey| {
        let set = topic.configs.get(key.name).map(|value| &**value);
        let default = if key.name == RECORDS_KEY { default_records } else { key.default };
        CreatableTopicConfigs {
            name: key.name.into(),
            value: Some(set.unwrap_or(default).into()),
            config_source: if set.is_some() { SET_FOR_THE_TOPIC } else { DEFAULT },
            ..Default::default()
        }
    };
    rows.push(CreatableTopicResult {
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        configs: Some(Array::Each {
            len: KEYS.len(),
            each: &|rows| KEYS.iter().for_each(|key| rows.push(config(key))),
        }),
        ..row
    });
}

//! DeleteTopics: parked until control has made the deletions durable and published them. Any core takes it.

use std::collections::BTreeSet;

use super::{BUSY, RequestContext};
use crate::auth::{Operation, Resource};
use crate::control::{DeleteTopics, DeletedTopic, Reply, Request, TopicReference};
use crate::errors::ErrorCode;
use crate::ids::TopicId;
use crate::limits;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::Catalogue;
use crate::wire::array::Rows;
use crate::wire::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use crate::wire::{ApiKey, Array, Version, Wire, Writer};

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: DeleteTopicsRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    if request.topic_names.len() + request.topics.len() > limits::CHANGED_TOPICS_MAX {
        let message = format!("at most {} topics in one request are allowed", limits::CHANGED_TOPICS_MAX);
        refuse_all(&request, ErrorCode::POLICY_VIOLATION, &message, reply, context.version);
        return Verdict::Answered;
    }
    if !shard.settings.delete_topics {
        write(&all_disabled(&request, context.version), reply, context.version);
        return Verdict::Answered;
    }
    let mut admission =
        Admission { shard, context, catalogue: shard.catalogue(), references: Vec::new(), answers: Vec::new() };
    admission.admit(named(&request));
    let Admission { references, mut answers, .. } = admission;
    if references.is_empty() {
        write(&answers, reply, context.version);
        return Verdict::Answered;
    }
    let bytes = references.iter().map(bytes_of).sum();
    if !shard.control.has_room_for(bytes) {
        refuse_all(&request, ErrorCode::REQUEST_TIMED_OUT, BUSY, reply, context.version);
        return Verdict::Answered;
    }
    let delete = DeleteTopics { topics: references, timeout_ms: request.timeout_ms };
    let write = move |told: Reply, writer: &mut Writer<'_>, version: Version| {
        let Reply::DeletedTopics(deleted) = told else { unreachable!("control answers what it was asked") };
        answers.extend(deleted);
        write(&answers, writer, version);
    };
    shard.control.ask(context, ApiKey::DeleteTopics, Request::DeleteTopics(delete), bytes, Box::new(write))
}

/// Roughly what it takes in memory.
fn bytes_of(topic: &TopicReference) -> usize {
    size_of_val(topic) + if let TopicReference::Name(name) = topic { name.len() } else { 0 }
}

/// What is asked for is kept until control has made it, so it must not be much.
fn refuse_all(
    request: &DeleteTopicsRequest<'_>,
    error_code: ErrorCode,
    message: &str,
    reply: &mut Writer<'_>,
    version: Version,
) {
    let refused =
        DeletableTopicResult { error_code: error_code.0, error_message: Some(message.into()), ..Default::default() };
    let each = |rows: &mut Rows<'_, '_>| {
        for name in request.topic_names.iter() {
            rows.push(DeletableTopicResult { name: Some(name), ..refused.clone() });
        }
        for topic in request.topics.iter() {
            rows.push(DeletableTopicResult { name: topic.name, topic_id: topic.topic_id, ..refused.clone() });
        }
    };
    let len = request.topic_names.len() + request.topics.len();
    let response = DeleteTopicsResponse { responses: Array::Each { len, each: &each }, ..Default::default() };
    response.write(reply, version);
}

/// With `delete.topic.enable=false` every row is refused as it was asked, before anything is looked at. Before v3 there was
/// no error code for it.
fn all_disabled(request: &DeleteTopicsRequest<'_>, version: Version) -> Vec<DeletedTopic> {
    let error_code = if version.number < 3 { ErrorCode::INVALID_REQUEST } else { ErrorCode::TOPIC_DELETION_DISABLED };
    let answer = |(name, id): (Option<String>, Option<TopicId>)| DeletedTopic {
        name,
        id: id.unwrap_or_default(),
        error_code,
        error_message: None,
    };
    named(request).into_iter().map(answer).collect()
}

/// What a request names, in either form: a name, an id that is not zero, both, or neither.
fn named(request: &DeleteTopicsRequest<'_>) -> Vec<(Option<String>, Option<TopicId>)> {
    let id = |id: crate::wire::Uuid| (!id.is_zero()).then(|| id.into());
    let names = request.topic_names.iter().map(|name| (Some(name.into_owned()), None));
    let topics = request.topics.iter().map(|topic| (topic.name.map(Into::into), id(topic.topic_id)));
    names.chain(topics).collect()
}

struct Admission<'a> {
    shard: &'a Shard,
    context: &'a RequestContext<'a>,
    catalogue: &'a Catalogue,
    /// What may be asked of control.
    references: Vec<TopicReference>,
    /// The answers of the rest.
    answers: Vec<DeletedTopic>,
}

impl Admission<'_> {
    fn admit(&mut self, named: Vec<(Option<String>, Option<TopicId>)>) {
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        let (mut doubled_names, mut doubled_ids) = (BTreeSet::new(), BTreeSet::new());
        for (name, id) in &named {
            match (name, id) {
                (Some(name), None) if !names.insert(name.clone()) => drop(doubled_names.insert(name.clone())),
                (None, Some(id)) if !ids.insert(*id) => drop(doubled_ids.insert(*id)),
                (Some(_), None) | (None, Some(_)) => {}
                _ => self.refuse(name.as_deref(), *id, ErrorCode::INVALID_REQUEST, "either a name or an id is wanted"),
            }
        }
        for name in names {
            let id = self.catalogue.by_name(&name).map(|topic| topic.id);
            if doubled_names.contains(&name) {
                self.refuse(Some(&name), None, ErrorCode::INVALID_REQUEST, TWICE);
            } else if id.is_some_and(|id| ids.remove(&id)) {
                self.refuse(Some(&name), id, ErrorCode::INVALID_REQUEST, TWICE);
            } else if self.allows(Operation::Delete, &name) {
                self.references.push(TopicReference::Name(name));
            } else {
                self.refuse(Some(&name), None, ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed");
            }
        }
        for id in ids {
            let name = self.catalogue.by_id(id).map(|topic| topic.name.clone());
            match name {
                _ if doubled_ids.contains(&id) => self.refuse(None, Some(id), ErrorCode::INVALID_REQUEST, TWICE),
                Some(name) if !self.allows(Operation::Delete, &name) => {
                    // Who may not even see the topic is not told its name.
                    let shown = self.allows(Operation::Describe, &name).then_some(&*name);
                    self.refuse(shown, Some(id), ErrorCode::TOPIC_AUTHORIZATION_FAILED, "not allowed");
                }
                _ => self.references.push(TopicReference::Id(id)),
            }
        }
    }

    fn allows(&self, operation: Operation, topic: &str) -> bool {
        self.shard.allows(self.context, operation, Resource::Topic(topic))
    }

    fn refuse(&mut self, name: Option<&str>, id: Option<TopicId>, error_code: ErrorCode, message: &str) {
        self.answers.push(DeletedTopic {
            name: name.map(Into::into),
            id: id.unwrap_or_default(),
            error_code,
            error_message: Some(message.into()),
        });
    }
}

const TWICE: &str = "the topic is named more than once";

fn write(answers: &[DeletedTopic], reply: &mut Writer<'_>, version: Version) {
    let row = |topic: &DeletedTopic, rows: &mut Rows<'_, '_>| {
        rows.push(DeletableTopicResult {
            name: topic.name.as_deref().map(Into::into),
            topic_id: topic.id.into(),
            error_code: topic.error_code.0,
            error_message: topic.error_message.as_deref().map(Into::into),
        });
    };
    let response = DeleteTopicsResponse {
        responses: Array::Each { len: answers.len(), each: &|rows| answers.iter().for_each(|topic| row(topic, rows)) },
        ..Default::default()
    };
    response.write(reply, version);
}

//! The answers of the owner's state machine: how what was done, refused or lost is told.

use super::create::Refusal;
use super::record::TopicRecord;
use super::request::{CreatedTopic, DeletedTopic, NewTopic, Reply, Tag, TopicReference};
use crate::errors::ErrorCode;
use crate::ids::TopicId;

/// What clients read when the log's disk has failed.
pub(super) const FAILED: &str = "the control log cannot be written; restart the server once its disk is in order";

pub(super) fn created(record: &TopicRecord) -> CreatedTopic {
    CreatedTopic {
        name: record.name.to_string(),
        id: record.id,
        error_code: ErrorCode::NONE,
        error_message: None,
        num_partitions: record.partitions as i32,
        replication_factor: record.replication_factor,
        configs: record.configs.clone(),
    }
}

pub(super) fn refused(topic: &NewTopic, refusal: Refusal) -> CreatedTopic {
    CreatedTopic {
        name: topic.name.clone(),
        id: TopicId::ZERO,
        error_code: refusal.error_code,
        error_message: Some(refusal.message),
        num_partitions: -1,
        replication_factor: -1,
        configs: Default::default(),
    }
}

pub(super) fn deleted(reference: TopicReference, id: TopicId, error_code: ErrorCode) -> DeletedTopic {
    let (name, id) = match reference {
        TopicReference::Name(name) => (Some(name), id),
        TopicReference::Id(asked) => (None, asked),
    };
    let error_message = match error_code {
        ErrorCode::NONE => None,
        ErrorCode::INVALID_REQUEST => Some("internal topics cannot be deleted".into()),
        ErrorCode::KAFKA_STORAGE_ERROR => Some(FAILED.into()),
        _ => Some("no such topic, or no time to delete it".into()),
    };
    DeletedTopic { name, id, error_code, error_message }
}

/// What clients read when there was no room for their change.
pub(super) const FULL: &str = "the disk of the control log is full; make room on it and try again";

/// What a reply becomes when the change that it tells of is not durable. That a topic is there, or is not, may rest on it too.
pub(super) fn failed(why: &str, (tag, reply): (Tag, Reply)) -> (Tag, Reply) {
    let reply = match reply {
        Reply::CreatedTopics(topics) => {
            let fail = |topic: CreatedTopic| match topic.error_code {
                ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS => CreatedTopic {
                    id: TopicId::ZERO,
                    error_code: ErrorCode::KAFKA_STORAGE_ERROR,
                    error_message: Some(why.into()),
                    num_partitions: -1,
                    replication_factor: -1,
                    configs: Default::default(),
                    ..topic
                },
                _ => topic,
            };
            Reply::CreatedTopics(topics.into_iter().map(fail).collect())
        }
        Reply::DeletedTopics(topics) => {
            let fail = |topic: DeletedTopic| match topic.error_code {
                ErrorCode::NONE | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => DeletedTopic {
                    error_code: ErrorCode::KAFKA_STORAGE_ERROR,
                    error_message: Some(why.into()),
                    ..topic
                },
                _ => topic,
            };
            Reply::DeletedTopics(topics.into_iter().map(fail).collect())
        }
        Reply::AutoCreated { .. } | Reply::CreatedInternal(_) => reply,
    };
    (tag, reply)
}

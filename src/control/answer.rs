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

/// What a reply becomes when the change that it tells of is not durable.
pub(super) fn failed((tag, reply): (Tag, Reply)) -> (Tag, Reply) {
    let reply = match reply {
        Reply::CreatedTopics(topics) => {
            let fail = |topic: CreatedTopic| match topic.error_code {
                ErrorCode::NONE => CreatedTopic {
                    id: TopicId::ZERO,
                    error_code: ErrorCode::KAFKA_STORAGE_ERROR,
                    error_message: Some(FAILED.into()),
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
                ErrorCode::NONE => DeletedTopic {
                    error_code: ErrorCode::KAFKA_STORAGE_ERROR,
                    error_message: Some(FAILED.into()),
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

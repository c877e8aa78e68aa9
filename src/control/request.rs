//! What cores ask of control's owner, and what comes back. Plain owned data: it crosses cores by mailbox. No wire types:
//! a handler turns its message into these.

use std::collections::BTreeMap;

use crate::errors::ErrorCode;
use crate::ids::{InternalTopicKind, TopicId};

/// Who waits for a reply; the owner gives it back untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The core that asked.
    pub core: u16,
    /// Whatever that core tells its requests apart by.
    pub token: u64,
}

/// A wish of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Metadata named topics that do not exist, and its sender may create them.
    AutoCreate {
        /// Legal names.
        names: Vec<String>,
    },
    /// FindCoordinator needs an internal topic that does not exist.
    CreateInternal(InternalTopicKind),
    /// The API CreateTopics.
    CreateTopics(CreateTopics),
    /// The API DeleteTopics.
    DeleteTopics(DeleteTopics),
}

/// CreateTopics, after authorisation and without names that were given twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopics {
    /// One each.
    pub topics: Vec<NewTopic>,
    /// Zero or less: everything that would have been created is REQUEST_TIMED_OUT.
    pub timeout_ms: i32,
    /// Answer as if, and do nothing.
    pub validate_only: bool,
}

/// A topic as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// As sent: legal or not.
    pub name: String,
    /// -1: the default, or what the assignments say.
    pub num_partitions: i32,
    /// -1: the default, or what the assignments say.
    pub replication_factor: i16,
    /// Empty: the server chooses.
    pub assignments: Vec<NewAssignment>,
    /// Keys and values as sent.
    pub configs: Vec<(String, Option<String>)>,
}

/// Which nodes a partition was asked to be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAssignment {
    /// The partition.
    pub partition_index: i32,
    /// Node ids; the first is the leader.
    pub broker_ids: Vec<i32>,
}

/// DeleteTopics, after authorisation and without topics that were named twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTopics {
    /// One each.
    pub topics: Vec<TopicReference>,
    /// Zero or less: everything that would have been deleted is REQUEST_TIMED_OUT.
    pub timeout_ms: i32,
}

/// How a topic is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicReference {
    /// By its name.
    Name(String),
    /// By its id.
    Id(TopicId),
}

/// What came of a request. Whatever it says is durable and published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::AutoCreate`]: these names may be asked for again.
    AutoCreated {
        /// As asked.
        names: Vec<String>,
    },
    /// To [`Request::CreateInternal`]: this topic may be asked for again, whether it has been created or refused.
    CreatedInternal(InternalTopicKind),
    /// To [`Request::CreateTopics`], in its order.
    CreatedTopics(Vec<CreatedTopic>),
    /// To [`Request::DeleteTopics`], in its order.
    DeletedTopics(Vec<DeletedTopic>),
}

/// One topic's answer to CreateTopics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// As sent.
    pub name: String,
    /// Zero on an error.
    pub id: TopicId,
    /// What went wrong.
    pub error_code: ErrorCode,
    /// On an error.
    pub error_message: Option<String>,
    /// -1 on an error.
    pub num_partitions: i32,
    /// -1 on an error.
    pub replication_factor: i16,
    /// The configs that were set.
    pub configs: BTreeMap<Box<str>, Box<str>>,
}

/// One topic's answer to DeleteTopics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// As sent, or the name of the topic that had the id.
    pub name: Option<String>,
    /// As sent, or the id of the topic that had the name; zero if there was none.
    pub id: TopicId,
    /// What went wrong.
    pub error_code: ErrorCode,
    /// On an error.
    pub error_message: Option<String>,
}

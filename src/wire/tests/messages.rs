//! The list of all messages, so that a test can go over them.

use serde_json::Value;

use super::super::versions::TABLE;
use super::super::*;
use super::{Random, Rebuilt, Testable};

/// Does something with bytes that may be malformed.
type Parse<T> = fn(&[u8], Version) -> Result<T, Malformed>;

/// See [`Message::sample`].
pub(crate) struct Sample {
    pub(crate) json: Value,
    pub(crate) encoded: Vec<u8>,
    pub(crate) encoded_in: Vec<Vec<u8>>,
}

/// One kind of message and what a test can do with it.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    pub(crate) versions: VersionRange,
    pub(crate) flexible_from: Option<i16>,
    /// Reads, and walks over all that was read; gives the fields and how many bytes are left over.
    pub(crate) parse: Parse<(Value, usize)>,
    /// Steps over it; gives how many bytes are left over.
    pub(crate) skip: Parse<usize>,
    /// Reads, and writes again: as read, by items, by each.
    pub(crate) rewrite: Parse<[Vec<u8>; 3]>,
    /// A random value with the fields of a version: what it is, and its encodings in that and in others.
    pub(crate) sample: fn(&mut Random, Version, &[Version]) -> Sample,
}

impl Message {
    pub(crate) fn version(&self, number: i16) -> Version {
        Version { number, flexible: self.flexible_from.is_some_and(|first| number >= first) }
    }

    pub(crate) fn all_versions(&self) -> impl Iterator<Item = Version> {
        (self.versions.first..=self.versions.last).map(|number| self.version(number))
    }
}

pub(crate) fn encoded<'a>(message: &impl Wire<'a>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut Writer::new(&mut bytes), version);
    bytes
}

macro_rules! message_of {
    ($module:ident::$name:ident, $versions:expr, $flexible_from:expr) => {
        Message {
            name: stringify!($name),
            versions: $versions,
            flexible_from: $flexible_from,
            parse: |bytes, version| {
                let mut cursor = Cursor::new(bytes);
                let message = $module::$name::read(&mut cursor, version)?;
                Ok((message.json(version), cursor.remaining()))
            },
            skip: |bytes, version| {
                let mut cursor = Cursor::new(bytes);
                $module::$name::skip(&mut cursor, version)?;
                Ok(cursor.remaining())
            },
            rewrite: |bytes, version| {
                let message = $module::$name::read(&mut Cursor::new(bytes), version)?;
                let by_items = message.rebuilt(Rebuilt::ByItems);
                let by_each = message.rebuilt(Rebuilt::ByEach);
                assert_eq!(message, by_items);
                Ok([&message, &by_items, &by_each].map(|message| encoded(message, version)))
            },
            sample: |random, version, others| {
                let message = $module::$name::sample(random, version);
                Sample {
                    json: message.json(version),
                    encoded: encoded(&message, version),
                    encoded_in: others.iter().map(|&other| encoded(&message, other)).collect(),
                }
            },
        }
    };
}

macro_rules! messages {
    (
        apis { $($key:ident: $module:ident::{$request:ident, $response:ident};)* }
        others { $($other:ident::$name:ident: $first:literal..=$last:literal, $flexible_from:expr;)* }
    ) => {
        /// All messages.
        pub(crate) fn messages() -> Vec<Message> {
            vec![
                $(
                    message_of!($module::$request, ApiKey::$key.api().decoded, ApiKey::$key.api().flexible_from),
                    message_of!($module::$response, ApiKey::$key.api().decoded, ApiKey::$key.api().flexible_from),
                )*
                $(message_of!($other::$name, VersionRange { first: $first, last: $last }, $flexible_from),)*
            ]
        }
    };
}

messages! {
    apis {
        ApiVersions: api_versions::{ApiVersionsRequest, ApiVersionsResponse};
        CreateTopics: create_topics::{CreateTopicsRequest, CreateTopicsResponse};
        DeleteGroups: delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
        DeleteTopics: delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
        DescribeCluster: describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
        DescribeGroups: describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
        Produce: produce::{ProduceRequest, ProduceResponse};
        Fetch: fetch::{FetchRequest, FetchResponse};
        FindCoordinator: find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
        Heartbeat: heartbeat::{HeartbeatRequest, HeartbeatResponse};
        JoinGroup: join_group::{JoinGroupRequest, JoinGroupResponse};
        LeaveGroup: leave_group::{LeaveGroupRequest, LeaveGroupResponse};
        ListGroups: list_groups::{ListGroupsRequest, ListGroupsResponse};
        ListOffsets: list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
        Metadata: metadata::{MetadataRequest, MetadataResponse};
        OffsetCommit: offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
        OffsetDelete: offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
        OffsetFetch: offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
        OffsetForLeaderEpoch: offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
        SyncGroup: sync_group::{SyncGroupRequest, SyncGroupResponse};
    }
    others {
        consumer_protocol::ConsumerProtocolAssignment: 0..=3, None;
        consumer_protocol::ConsumerProtocolSubscription: 0..=3, None;
        records::OffsetCommitKey: 0..=0, None;
        records::OffsetCommitValue: 0..=4, Some(4);
        records::GroupMetadataKey: 0..=0, None;
        records::GroupMetadataValue: 0..=4, Some(4);
    }
}

#[test]
fn every_api_of_the_table_has_its_messages() {
    let messages = messages();
    for api in TABLE {
        for kind in ["Request", "Response"] {
            let name = format!("{}{kind}", api.name);
            assert!(messages.iter().any(|message| message.name == name), "{name}");
        }
    }
}

//! Requests as the model keeps them: owned, and no more of them than it judges.

use crate::wire::create_topics::CreateTopicsRequest;
use crate::wire::delete_groups::DeleteGroupsRequest;
use crate::wire::delete_topics::DeleteTopicsRequest;
use crate::wire::describe_cluster::DescribeClusterRequest;
use crate::wire::describe_groups::DescribeGroupsRequest;
use crate::wire::find_coordinator::FindCoordinatorRequest;
use crate::wire::heartbeat::HeartbeatRequest;
use crate::wire::join_group::JoinGroupRequest;
use crate::wire::leave_group::LeaveGroupRequest;
use crate::wire::list_groups::ListGroupsRequest;
use crate::wire::metadata::MetadataRequest;
use crate::wire::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition};
use crate::wire::offset_delete::OffsetDeleteRequest;
use crate::wire::offset_fetch::OffsetFetchRequest;
use crate::wire::sync_group::SyncGroupRequest;
use crate::wire::{ApiKey, Array, Cursor, Malformed, RequestHeader, Uuid, Version, Wire};

/// A request.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Asked {
    pub(in crate::sim) api: ApiKey,
    pub(in crate::sim) version: i16,
    pub(in crate::sim) correlation_id: i32,
    pub(in crate::sim) what: What,
}

#[derive(Clone, Debug)]
pub(in crate::sim) enum What {
    Join(Join),
    Sync(Sync),
    Heartbeat(Speaker),
    Leave { group_id: String, members: Vec<(String, Option<String>)> },
    Commit { speaker: Speaker, rows: Vec<CommitRow> },
    Fetch { groups: Vec<FetchGroup> },
    DeleteOffsets { group_id: String, rows: Vec<(String, i32)> },
    DeleteGroups { group_ids: Vec<String> },
    FindCoordinator { key_type: i8, keys: Vec<String> },
    DeleteTopics { topics: Vec<TopicName> },
    Other,
}

/// Who speaks, as which member of which generation.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Speaker {
    pub(in crate::sim) group_id: String,
    pub(in crate::sim) generation_id: i32,
    pub(in crate::sim) member_id: String,
    pub(in crate::sim) instance: Option<String>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct Join {
    pub(in crate::sim) group_id: String,
    pub(in crate::sim) member_id: String,
    pub(in crate::sim) instance: Option<String>,
    pub(in crate::sim) session_timeout_ms: i32,
    pub(in crate::sim) rebalance_timeout_ms: i32,
    pub(in crate::sim) protocols: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct Sync {
    pub(in crate::sim) speaker: Speaker,
    pub(in crate::sim) assignments: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) enum TopicName {
    Name(String),
    Id(Uuid),
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct CommitRow {
    pub(in crate::sim) topic: TopicName,
    pub(in crate::sim) partition: i32,
    pub(in crate::sim) offset: i64,
    pub(in crate::sim) leader_epoch: i32,
    pub(in crate::sim) metadata: String,
    pub(in crate::sim) retention_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub(in crate::sim) struct FetchGroup {
    pub(in crate::sim) group_id: String,
    /// `None`: all.
    pub(in crate::sim) rows: Option<Vec<(TopicName, i32)>>,
}

impl Asked {
    /// Whether it is a request that waits for the sake of this member.
    pub(super) fn speaks_for(&self, group_id: &str, member_id: &str) -> bool {
        match &self.what {
            What::Join(join) => (&*join.group_id, &*join.member_id) == (group_id, member_id),
            What::Sync(sync) => (&*sync.speaker.group_id, &*sync.speaker.member_id) == (group_id, member_id),
            _ => false,
        }
    }

    /// Reads a request frame, if it is one that is served.
    pub(in crate::sim) fn read(frame: &[u8]) -> Result<Asked, Malformed> {
        let mut cursor = Cursor::new(frame);
        let prefix = *crate::wire::Prefix::peek(frame)?;
        let version = prefix.api_version();
        let served = ApiKey::from_number(prefix.api_key()).filter(|api| api.serves(version));
        let Some(api) = served else { return Err(cursor.malformed("not served", 0)) };
        let header = RequestHeader::read(&mut cursor, api.request_header_version(version))?;
        let what = what(api, api.version(version), &mut cursor)?;
        Ok(Asked { api, version, correlation_id: header.correlation_id, what })
    }
}

fn what(api: ApiKey, version: Version, cursor: &mut Cursor<'_>) -> Result<What, Malformed> {
    Ok(match api {
        ApiKey::JoinGroup => join(&JoinGroupRequest::read(cursor, version)?, version),
        ApiKey::SyncGroup => sync(&SyncGroupRequest::read(cursor, version)?),
        ApiKey::Heartbeat => {
            let HeartbeatRequest { group_id, generation_id, member_id, group_instance_id } =
                HeartbeatRequest::read(cursor, version)?;
            What::Heartbeat(speaker(&group_id, generation_id, &member_id, group_instance_id.as_deref()))
        }
        ApiKey::LeaveGroup => leave(&LeaveGroupRequest::read(cursor, version)?, version),
        ApiKey::OffsetCommit => commit(&OffsetCommitRequest::read(cursor, version)?, version),
        ApiKey::OffsetFetch => fetch(&OffsetFetchRequest::read(cursor, version)?, version),
        ApiKey::OffsetDelete => {
            let request = OffsetDeleteRequest::read(cursor, version)?;
            let rows = request.topics.iter().flat_map(|topic| {
                let name = topic.name.to_string();
                topic.partitions.iter().map(move |row| (name.clone(), row.partition_index)).collect::<Vec<_>>()
            });
            What::DeleteOffsets { group_id: request.group_id.to_string(), rows: rows.collect() }
        }
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::read(cursor, version)?;
            What::DeleteGroups { group_ids: request.groups_names.iter().map(String::from).collect() }
        }
        ApiKey::FindCoordinator => {
            let request = FindCoordinatorRequest::read(cursor, version)?;
            let keys = request.coordinator_keys.iter().map(String::from).collect();
            let keys = if version.number >= 4 { keys } else { vec![request.key.to_string()] };
            What::FindCoordinator { key_type: request.key_type, keys }
        }
        ApiKey::DeleteTopics => {
            let request = DeleteTopicsRequest::read(cursor, version)?;
            let by_name = request.topic_names.iter().map(|name| TopicName::Name(name.to_string()));
            let named = |state: crate::wire::delete_topics::DeleteTopicState<'_>| match state.name {
                Some(name) => TopicName::Name(name.to_string()),
                None => TopicName::Id(state.topic_id),
            };
            What::DeleteTopics { topics: by_name.chain(request.topics.iter().map(named)).collect() }
        }
        ApiKey::Metadata => MetadataRequest::read(cursor, version).map(|_| What::Other)?,
        ApiKey::DescribeCluster => DescribeClusterRequest::read(cursor, version).map(|_| What::Other)?,
        ApiKey::DescribeGroups => DescribeGroupsRequest::read(cursor, version).map(|_| What::Other)?,
        ApiKey::ListGroups => ListGroupsRequest::read(cursor, version).map(|_| What::Other)?,
        ApiKey::CreateTopics => CreateTopicsRequest::read(cursor, version).map(|_| What::Other)?,
        _ => return Err(cursor.malformed("nobody asks this", 0)),
    })
}

fn speaker(group_id: &str, generation_id: i32, member_id: &str, instance: Option<&str>) -> Speaker {
    Speaker {
        group_id: group_id.into(),
        generation_id,
        member_id: member_id.into(),
        instance: instance.map(Into::into),
    }
}

fn join(request: &JoinGroupRequest<'_>, version: Version) -> What {
    let rebalance_timeout_ms =
        if version.number >= 1 { request.rebalance_timeout_ms } else { request.session_timeout_ms };
    What::Join(Join {
        group_id: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        instance: request.group_instance_id.as_deref().map(Into::into),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms,
        protocols: request.protocols.iter().map(|row| (row.name.to_string(), row.metadata.to_vec())).collect(),
    })
}

fn sync(request: &SyncGroupRequest<'_>) -> What {
    let SyncGroupRequest { group_id, generation_id, member_id, group_instance_id, .. } = request;
    What::Sync(Sync {
        speaker: speaker(group_id, *generation_id, member_id, group_instance_id.as_deref()),
        assignments: request
            .assignments
            .iter()
            .map(|row| (row.member_id.to_string(), row.assignment.to_vec()))
            .collect(),
    })
}

fn leave(request: &LeaveGroupRequest<'_>, version: Version) -> What {
    let row = |member: crate::wire::leave_group::MemberIdentity<'_>| {
        (member.member_id.to_string(), member.group_instance_id.as_deref().map(Into::into))
    };
    let members = match version.number {
        3.. => request.members.iter().map(row).collect(),
        _ => vec![(request.member_id.to_string(), None)],
    };
    What::Leave { group_id: request.group_id.to_string(), members }
}

fn commit(request: &OffsetCommitRequest<'_>, version: Version) -> What {
    let retention_ms = (request.retention_time_ms != -1).then_some(request.retention_time_ms);
    let row = |topic: &TopicName, row: OffsetCommitRequestPartition<'_>| CommitRow {
        topic: topic.clone(),
        partition: row.partition_index,
        offset: row.committed_offset,
        leader_epoch: row.committed_leader_epoch,
        metadata: row.committed_metadata.unwrap_or_default().to_string(),
        retention_ms,
    };
    let mut rows = Vec::new();
    for topic in request.topics.iter() {
        let name = topic_name(&topic.name, topic.topic_id, version.number >= 10);
        rows.extend(topic.partitions.iter().map(|partition| row(&name, partition)));
    }
    let generation_id = request.generation_id_or_member_epoch;
    let speaker = speaker(&request.group_id, generation_id, &request.member_id, request.group_instance_id.as_deref());
    What::Commit { speaker, rows }
}

fn fetch(request: &OffsetFetchRequest<'_>, version: Version) -> What {
    let all = |topic: TopicName, partitions: Array<'_, i32>| {
        partitions.iter().map(|partition| (topic.clone(), partition)).collect::<Vec<_>>()
    };
    if version.number < 8 {
        let rows = request.topics.as_ref().map(|topics| {
            let topics = topics.iter();
            topics.flat_map(|topic| all(TopicName::Name(topic.name.to_string()), topic.partition_indexes)).collect()
        });
        return What::Fetch { groups: vec![FetchGroup { group_id: request.group_id.to_string(), rows }] };
    }
    let groups = request.groups.iter().map(|group| {
        let rows = group.topics.as_ref().map(|topics| {
            let by_id = version.number >= 10;
            let topics = topics.iter();
            topics
                .flat_map(|topic| all(topic_name(&topic.name, topic.topic_id, by_id), topic.partition_indexes))
                .collect()
        });
        FetchGroup { group_id: group.group_id.to_string(), rows }
    });
    What::Fetch { groups: groups.collect() }
}

fn topic_name(name: &str, id: Uuid, by_id: bool) -> TopicName {
    if by_id { TopicName::Id(id) } else { TopicName::Name(name.into()) }
}

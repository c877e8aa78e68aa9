//! A client that keeps to no order: it asks anybody anything, in any version, as itself or in the name of others, with
//! stale generations, unknown ids and huge metadata; sometimes it sends what is no request at all. In calm times it only
//! reads.

use std::borrow::Cow;

use super::machine::SESSION_TIMEOUT_MAX_MS;
use super::model::Model;
use super::random::Random;
use crate::wire::consumer_protocol::ConsumerProtocolSubscription;
use crate::wire::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::wire::delete_groups::DeleteGroupsRequest;
use crate::wire::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use crate::wire::describe_cluster::DescribeClusterRequest;
use crate::wire::describe_groups::DescribeGroupsRequest;
use crate::wire::find_coordinator::FindCoordinatorRequest;
use crate::wire::heartbeat::HeartbeatRequest;
use crate::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use crate::wire::leave_group::{LeaveGroupRequest, MemberIdentity};
use crate::wire::list_groups::ListGroupsRequest;
use crate::wire::metadata::{MetadataRequest, MetadataRequestTopic};
use crate::wire::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::wire::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use crate::wire::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use crate::wire::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use crate::wire::{ApiKey, Array, RequestHeader, Uuid, Wire, Writer};

/// What strays know of the world.
pub(super) struct Gossip<'a> {
    pub(super) model: &'a Model,
    /// Of the members, and some that have none.
    pub(super) groups: &'a [String],
    pub(super) topics: &'a [String],
    pub(super) is_calm: bool,
}

#[derive(Debug)]
pub(super) struct Stray {
    random: Random,
    next_correlation_id: i32,
    next_offset: i64,
}

/// A request, and the group that it is about.
pub(super) struct Request {
    pub(super) frame: Vec<u8>,
    pub(super) group_id: String,
}

const READING: &[ApiKey] = &[
    ApiKey::FindCoordinator,
    ApiKey::Metadata,
    ApiKey::DescribeCluster,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::OffsetFetch,
    ApiKey::OffsetFetch,
];

const WRITING: &[ApiKey] = &[
    ApiKey::OffsetCommit,
    ApiKey::OffsetCommit,
    ApiKey::OffsetCommit,
    ApiKey::OffsetCommit,
    ApiKey::Heartbeat,
    ApiKey::Heartbeat,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::LeaveGroup,
    ApiKey::OffsetDelete,
    ApiKey::DeleteGroups,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
];

impl Stray {
    pub(super) fn new(random: Random) -> Stray {
        Stray { random, next_correlation_id: 0, next_offset: 1_000_000 }
    }

    /// The next thing that it asks.
    pub(super) fn ask(&mut self, gossip: &Gossip<'_>) -> Request {
        let group_id = self.random.pick(gossip.groups).clone();
        let api = match gossip.is_calm || self.random.chance(500) {
            true => *self.random.pick(READING),
            false => *self.random.pick(WRITING),
        };
        let mut draft = Draft::new(api, &mut self.random, self.next_correlation_id);
        self.next_correlation_id += 1;
        match api {
            ApiKey::FindCoordinator => self.find_coordinator(&mut draft, gossip),
            ApiKey::Metadata => self.metadata(&mut draft, gossip),
            ApiKey::DescribeCluster => draft.write(&DescribeClusterRequest::default()),
            ApiKey::DescribeGroups => {
                let groups = [group_id.as_str().into()];
                draft.write(&DescribeGroupsRequest { groups: Array::Items(&groups), ..Default::default() });
            }
            ApiKey::ListGroups => draft.write(&ListGroupsRequest::default()),
            ApiKey::OffsetFetch => self.fetch(&mut draft, gossip, &group_id),
            ApiKey::OffsetCommit => self.commit(&mut draft, gossip, &group_id),
            ApiKey::Heartbeat => self.heartbeat(&mut draft, gossip, &group_id),
            ApiKey::JoinGroup => self.join(&mut draft, gossip, &group_id),
            ApiKey::SyncGroup => self.sync(&mut draft, gossip, &group_id),
            ApiKey::LeaveGroup => self.leave(&mut draft, gossip, &group_id),
            ApiKey::OffsetDelete => self.delete_offsets(&mut draft, gossip, &group_id),
            ApiKey::DeleteGroups => {
                let names = [group_id.as_str().into(), group_id.as_str().into()];
                draft.write(&DeleteGroupsRequest { groups_names: Array::Items(&names) });
            }
            ApiKey::CreateTopics => self.create_topics(&mut draft, gossip),
            ApiKey::DeleteTopics => self.delete_topics(&mut draft, gossip),
            other => unreachable!("{} is in no list", other.name()),
        }
        let mut frame = draft.finish();
        if !gossip.is_calm && self.random.chance(5) {
            let cut = self.random.below(frame.len() as u64) as usize;
            frame.truncate(cut);
        }
        Request { frame, group_id }
    }

    /// Somebody who is, was, or never has been in the group, and a generation.
    fn somebody(&mut self, gossip: &Gossip<'_>, group_id: &str) -> (String, i32) {
        let choose = self.random.next();
        match gossip.model.some_member(group_id, choose) {
            Some((member_id, generation_id)) if self.random.chance(900) => {
                let off = *self.random.pick(&[0, 0, 0, -1, 1, -2]);
                (member_id, generation_id + off)
            }
            _ => ("nobody".into(), self.random.below(4) as i32),
        }
    }

    fn topic<'a>(&mut self, gossip: &Gossip<'a>) -> &'a str {
        self.random.pick::<String>(gossip.topics)
    }

    fn find_coordinator(&mut self, draft: &mut Draft, gossip: &Gossip<'_>) {
        let keys: Vec<Cow<'_, str>> = gossip.groups.iter().map(|group_id| group_id.as_str().into()).collect();
        let key = keys[self.random.below(keys.len() as u64) as usize].clone();
        draft.write(&FindCoordinatorRequest { key, key_type: 0, coordinator_keys: Array::Items(&keys) });
    }

    fn metadata(&mut self, draft: &mut Draft, gossip: &Gossip<'_>) {
        let name = self.topic(gossip);
        let topics = [MetadataRequestTopic { name: Some(name.into()), topic_id: Uuid::ZERO }];
        let topics = self.random.chance(700).then_some(Array::Items(&topics[..]));
        draft.write(&MetadataRequest { topics, ..Default::default() });
    }

    fn fetch(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let name = self.topic(gossip);
        let partitions: Vec<i32> = (0..self.random.between(1, 8) as i32).collect();
        let is_all = self.random.chance(500);
        let old = [OffsetFetchRequestTopic { name: name.into(), partition_indexes: Array::Items(&partitions) }];
        let topic_id = gossip.model.topic_id(name);
        let new =
            [OffsetFetchRequestTopics { name: name.into(), topic_id, partition_indexes: Array::Items(&partitions) }];
        let can_be_all = draft.version >= 2 && is_all;
        let groups = [OffsetFetchRequestGroup {
            group_id: group_id.into(),
            topics: (!can_be_all).then_some(Array::Items(&new)),
            ..Default::default()
        }];
        draft.write(&OffsetFetchRequest {
            group_id: group_id.into(),
            topics: (!can_be_all).then_some(Array::Items(&old)),
            groups: Array::Items(&groups),
            require_stable: is_all,
        });
    }

    fn commit(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let name = self.topic(gossip);
        let (member_id, generation_id) = match self.random.chance(500) {
            true => (String::new(), -1),
            false => self.somebody(gossip, group_id),
        };
        let metadata = "m".repeat(*self.random.pick(&[0, 3, 200, 201]));
        let rows: Vec<_> = (0..self.random.between(1, 4) as i32)
            .map(|partition_index| {
                self.next_offset += 1;
                OffsetCommitRequestPartition {
                    partition_index,
                    committed_offset: self.next_offset,
                    committed_leader_epoch: self.random.below(3) as i32 - 1,
                    committed_metadata: Some(metadata.as_str().into()),
                    ..Default::default()
                }
            })
            .collect();
        let partitions = Array::Items(&rows[..]);
        let topics =
            [OffsetCommitRequestTopic { name: name.into(), topic_id: gossip.model.topic_id(name), partitions }];
        draft.write(&OffsetCommitRequest {
            group_id: group_id.into(),
            generation_id_or_member_epoch: generation_id,
            member_id: member_id.into(),
            topics: Array::Items(&topics),
            ..Default::default()
        });
    }

    fn heartbeat(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let (member_id, generation_id) = self.somebody(gossip, group_id);
        let member_id = member_id.into();
        draft.write(&HeartbeatRequest { group_id: group_id.into(), generation_id, member_id, ..Default::default() });
    }

    fn join(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let member_id = match self.random.chance(500) {
            true => String::new(),
            false => self.somebody(gossip, group_id).0,
        };
        let topics = [self.topic(gossip).into()];
        let mut metadata =
            ConsumerProtocolSubscription { topics: Array::Items(&topics), ..Default::default() }.to_bytes(1);
        // A group whose record is too large for the journal never becomes stable: not where members want it to.
        let most_bytes = if group_id.starts_with("outside") { 200_000 } else { 300 };
        if self.random.chance(100) {
            metadata.resize(self.random.between(1, most_bytes) as usize, 7);
        }
        let lists: [&[&str]; 4] = [&["range"], &["roundrobin", "range"], &["roundrobin"], &["unheard-of"]];
        let names = *self.random.pick(&lists);
        let protocols: Vec<_> =
            names.iter().map(|name| JoinGroupRequestProtocol { name: (*name).into(), metadata: &metadata }).collect();
        let instance = self.random.chance(100).then(|| format!("static-{}", self.random.below(3)));
        draft.write(&JoinGroupRequest {
            group_id: group_id.into(),
            session_timeout_ms: self.random.between(900, SESSION_TIMEOUT_MAX_MS as u64 + 1) as i32,
            rebalance_timeout_ms: self.random.between(0, 6_000) as i32,
            member_id: member_id.into(),
            group_instance_id: instance.map(Into::into),
            protocol_type: "consumer".into(),
            protocols: Array::Items(&protocols),
            reason: None,
        });
    }

    fn sync(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let (member_id, generation_id) = self.somebody(gossip, group_id);
        let mark = self.random.bytes();
        let assignments = [SyncGroupRequestAssignment { member_id: member_id.as_str().into(), assignment: &mark }];
        draft.write(&SyncGroupRequest {
            group_id: group_id.into(),
            generation_id,
            member_id: member_id.as_str().into(),
            protocol_type: Some("consumer".into()),
            protocol_name: Some("range".into()),
            assignments: Array::Items(&assignments),
            ..Default::default()
        });
    }

    fn leave(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let (member_id, _) = self.somebody(gossip, group_id);
        let members = [MemberIdentity { member_id: member_id.as_str().into(), ..Default::default() }];
        let member_id = member_id.as_str().into();
        draft.write(&LeaveGroupRequest { group_id: group_id.into(), member_id, members: Array::Items(&members) });
    }

    fn delete_offsets(&mut self, draft: &mut Draft, gossip: &Gossip<'_>, group_id: &str) {
        let rows: Vec<_> = (0..self.random.between(1, 3) as i32)
            .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
            .collect();
        let topics = [OffsetDeleteRequestTopic { name: self.topic(gossip).into(), partitions: Array::Items(&rows) }];
        draft.write(&OffsetDeleteRequest { group_id: group_id.into(), topics: Array::Items(&topics) });
    }

    fn create_topics(&mut self, draft: &mut Draft, gossip: &Gossip<'_>) {
        let topics = [CreatableTopic {
            name: self.topic(gossip).into(),
            num_partitions: self.random.between(1, 5) as i32,
            replication_factor: 1,
            ..Default::default()
        }];
        draft.write(&CreateTopicsRequest { topics: Array::Items(&topics), ..Default::default() });
    }

    /// Only of topics that no member subscribes to: theirs would come and go for ever.
    fn delete_topics(&mut self, draft: &mut Draft, gossip: &Gossip<'_>) {
        let name = gossip.topics.last().expect("there are topics");
        let names = [name.as_str().into()];
        let topics = [DeleteTopicState { name: Some(name.as_str().into()), topic_id: Uuid::ZERO }];
        let (topics, topic_names) = (Array::Items(&topics), Array::Items(&names));
        draft.write(&DeleteTopicsRequest { topics, topic_names, timeout_ms: 1_000 });
    }
}

/// A frame that is being written.
struct Draft {
    bytes: Vec<u8>,
    api: ApiKey,
    version: i16,
}

impl Draft {
    fn new(api: ApiKey, random: &mut Random, correlation_id: i32) -> Draft {
        let served = api.api().served.expect("strays ask what is served");
        let version = random.between(served.first as u64, served.last as u64) as i16;
        let mut bytes = Vec::new();
        let client_id = random.chance(900).then(|| "stray".into());
        let header = RequestHeader { api_key: api.number(), api_version: version, correlation_id, client_id };
        header.write(&mut Writer::new(&mut bytes), api.request_header_version(version));
        Draft { bytes, api, version }
    }

    fn write<'a>(&mut self, request: &impl Wire<'a>) {
        request.write(&mut Writer::new(&mut self.bytes), self.api.version(self.version));
    }

    fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

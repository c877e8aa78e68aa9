//! The requests of a member, as bytes.

use std::borrow::Cow;

use super::{Kind, Member, Position};
use crate::wire::consumer_protocol::ConsumerProtocolSubscription;
use crate::wire::find_coordinator::FindCoordinatorRequest;
use crate::wire::heartbeat::HeartbeatRequest;
use crate::wire::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use crate::wire::leave_group::{LeaveGroupRequest, MemberIdentity};
use crate::wire::metadata::{MetadataRequest, MetadataRequestTopic};
use crate::wire::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::wire::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use crate::wire::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use crate::wire::{ApiKey, Array, RequestHeader, Uuid, Wire, Writer};

/// What Kafka's clients call the type of a group of consumers.
const CONSUMER: &str = "consumer";

/// Of the subscription in JoinGroup.
const SUBSCRIPTION_VERSION: i16 = 1;

impl Kind {
    pub(super) fn api(self) -> ApiKey {
        match self {
            Kind::Metadata => ApiKey::Metadata,
            Kind::FindCoordinator => ApiKey::FindCoordinator,
            Kind::Join => ApiKey::JoinGroup,
            Kind::Sync => ApiKey::SyncGroup,
            Kind::FetchOffsets => ApiKey::OffsetFetch,
            Kind::Heartbeat => ApiKey::Heartbeat,
            Kind::Commit => ApiKey::OffsetCommit,
            Kind::Leave => ApiKey::LeaveGroup,
        }
    }
}

impl Member {
    pub(super) fn version_of(&self, kind: Kind) -> i16 {
        let versions = &self.settings.versions;
        match kind {
            Kind::Metadata => versions.metadata,
            Kind::FindCoordinator => versions.find_coordinator,
            Kind::Join => versions.join_group,
            Kind::Sync => versions.sync_group,
            Kind::FetchOffsets => versions.offset_fetch,
            Kind::Heartbeat => versions.heartbeat,
            Kind::Commit => versions.offset_commit,
            Kind::Leave => versions.leave_group,
        }
    }

    pub(super) fn write(&self, kind: Kind, api_version: i16, correlation_id: i32, frame: &mut Vec<u8>) {
        let api = kind.api();
        let mut writer = Writer::new(frame);
        let start = writer.begin_frame();
        let header = RequestHeader {
            api_key: api.number(),
            api_version,
            correlation_id,
            client_id: Some((&*self.settings.client_id).into()),
        };
        header.write(&mut writer, api.request_header_version(api_version));
        let mut body = Body { writer: &mut writer, api, api_version };
        match kind {
            Kind::Metadata => self.write_metadata(&mut body),
            Kind::FindCoordinator => self.write_find_coordinator(&mut body),
            Kind::Join => self.write_join(&mut body),
            Kind::Sync => self.write_sync(&mut body),
            Kind::FetchOffsets => self.write_fetch_offsets(&mut body),
            Kind::Heartbeat => self.write_heartbeat(&mut body),
            Kind::Commit => self.write_commit(&mut body),
            Kind::Leave => self.write_leave(&mut body),
        }
        writer.end_frame(start);
    }

    fn group_id(&self) -> Cow<'_, str> {
        (&*self.settings.group_id).into()
    }

    fn member_id_text(&self) -> Cow<'_, str> {
        (&*self.member_id).into()
    }

    fn instance(&self) -> Option<Cow<'_, str>> {
        self.group_instance_id.as_deref().map(Into::into)
    }

    fn write_metadata(&self, body: &mut Body<'_, '_>) {
        let name = |name| MetadataRequestTopic { name: Some(name), topic_id: Uuid::ZERO };
        let topics: Vec<_> = self.settings.topics.iter().map(|topic| name((&**topic).into())).collect();
        body.write(&MetadataRequest { topics: Some(Array::Items(&topics)), ..Default::default() });
    }

    fn write_find_coordinator(&self, body: &mut Body<'_, '_>) {
        let keys = [self.group_id()];
        let coordinator_keys = Array::Items(&keys);
        body.write(&FindCoordinatorRequest { key: self.group_id(), coordinator_keys, ..Default::default() });
    }

    fn write_join(&self, body: &mut Body<'_, '_>) {
        let topics: Vec<_> = self.settings.topics.iter().map(|topic| Cow::from(&**topic)).collect();
        let subscription = ConsumerProtocolSubscription { topics: Array::Items(&topics), ..Default::default() };
        let metadata = subscription.to_bytes(SUBSCRIPTION_VERSION);
        let proposal = |name| JoinGroupRequestProtocol { name, metadata: &metadata };
        let protocols: Vec<_> = self.settings.protocols.iter().map(|name| proposal((&**name).into())).collect();
        body.write(&JoinGroupRequest {
            group_id: self.group_id(),
            session_timeout_ms: self.settings.session_timeout_ms,
            rebalance_timeout_ms: self.settings.rebalance_timeout_ms,
            member_id: self.member_id_text(),
            group_instance_id: self.instance(),
            protocol_type: CONSUMER.into(),
            protocols: Array::Items(&protocols),
            reason: None,
        });
    }

    fn write_sync(&self, body: &mut Body<'_, '_>) {
        let rows = self.assignments.iter();
        let assignments: Vec<_> =
            rows.map(|(id, assignment)| SyncGroupRequestAssignment { member_id: (&**id).into(), assignment }).collect();
        body.write(&SyncGroupRequest {
            group_id: self.group_id(),
            generation_id: self.generation_id,
            member_id: self.member_id_text(),
            group_instance_id: self.instance(),
            protocol_type: self.protocol_type.as_deref().map(Into::into),
            protocol_name: self.protocol_name.as_deref().map(Into::into),
            assignments: Array::Items(&assignments),
        });
    }

    fn write_heartbeat(&self, body: &mut Body<'_, '_>) {
        body.write(&HeartbeatRequest {
            group_id: self.group_id(),
            generation_id: self.generation_id,
            member_id: self.member_id_text(),
            group_instance_id: self.instance(),
        });
    }

    fn write_leave(&self, body: &mut Body<'_, '_>) {
        let members = [MemberIdentity {
            member_id: self.member_id_text(),
            group_instance_id: self.instance(),
            reason: Some("the consumer is being closed".into()),
        }];
        let member_id = self.member_id_text();
        body.write(&LeaveGroupRequest { group_id: self.group_id(), member_id, members: Array::Items(&members) });
    }

    fn write_commit(&self, body: &mut Body<'_, '_>) {
        let row = |position: &Position| OffsetCommitRequestPartition {
            partition_index: position.partition,
            committed_offset: position.offset,
            committed_metadata: Some((&*self.settings.commit_metadata).into()),
            ..Default::default()
        };
        let rows: Vec<(u16, Vec<_>)> =
            self.by_topic().map(|run| (run[0].topic, run.iter().map(row).collect())).collect();
        let topics: Vec<_> = rows
            .iter()
            .map(|(topic, rows)| OffsetCommitRequestTopic {
                name: self.topic_name(*topic),
                topic_id: self.topic_id(*topic),
                partitions: Array::Items(rows),
            })
            .collect();
        body.write(&OffsetCommitRequest {
            group_id: self.group_id(),
            generation_id_or_member_epoch: self.generation_id,
            member_id: self.member_id_text(),
            group_instance_id: self.instance(),
            topics: Array::Items(&topics),
            ..Default::default()
        });
    }

    fn write_fetch_offsets(&self, body: &mut Body<'_, '_>) {
        let runs: Vec<(u16, Vec<i32>)> = self
            .by_topic()
            .map(|run| (run[0].topic, run.iter().map(|position| position.partition).collect()))
            .collect();
        let named: Vec<_> = runs
            .iter()
            .map(|(topic, partitions)| OffsetFetchRequestTopic {
                name: self.topic_name(*topic),
                partition_indexes: Array::Items(partitions),
            })
            .collect();
        let with_ids: Vec<_> = runs
            .iter()
            .map(|(topic, partitions)| OffsetFetchRequestTopics {
                name: self.topic_name(*topic),
                topic_id: self.topic_id(*topic),
                partition_indexes: Array::Items(partitions),
            })
            .collect();
        let groups = [OffsetFetchRequestGroup {
            group_id: self.group_id(),
            topics: Some(Array::Items(&with_ids)),
            ..Default::default()
        }];
        body.write(&OffsetFetchRequest {
            group_id: self.group_id(),
            topics: Some(Array::Items(&named)),
            groups: Array::Items(&groups),
            require_stable: body.api_version >= 7,
        });
    }

    /// The positions, a slice for each topic.
    fn by_topic(&self) -> impl Iterator<Item = &[Position]> {
        self.positions.chunk_by(|one, next| one.topic == next.topic)
    }

    fn topic_name(&self, topic: u16) -> Cow<'_, str> {
        (&*self.settings.topics[usize::from(topic)]).into()
    }

    fn topic_id(&self, topic: u16) -> Uuid {
        self.topics.get(usize::from(topic)).map_or(Uuid::ZERO, |topic| topic.id)
    }
}

/// Where a request's body goes.
struct Body<'w, 'b> {
    writer: &'w mut Writer<'b>,
    api: ApiKey,
    api_version: i16,
}

impl Body<'_, '_> {
    fn write<'a>(&mut self, request: &impl Wire<'a>) {
        request.write(self.writer, self.api.version(self.api_version));
    }
}

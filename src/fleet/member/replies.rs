//! What replies do to a member, error by error as Kafka's client takes them.

use super::assignor;
use super::{Endpoint, Event, InFlight, Kind, Member, Outgoing, Phase, Position, Topic, Unexpected};
use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::wire::consumer_protocol::ConsumerProtocolAssignment;
use crate::wire::find_coordinator::FindCoordinatorResponse;
use crate::wire::heartbeat::HeartbeatResponse;
use crate::wire::join_group::JoinGroupResponse;
use crate::wire::leave_group::LeaveGroupResponse;
use crate::wire::metadata::MetadataResponse;
use crate::wire::offset_commit::OffsetCommitResponse;
use crate::wire::offset_fetch::OffsetFetchResponse;
use crate::wire::sync_group::SyncGroupResponse;
use crate::wire::{Cursor, Malformed, ResponseHeader, Wire};

impl Member {
    pub(super) fn reply(&mut self, asked: InFlight, frame: &[u8], now: Now) -> Result<(), Unexpected> {
        let (api, version) = (asked.kind.api(), asked.version);
        let mut cursor = Cursor::new(frame);
        let header = ResponseHeader::read(&mut cursor, api.response_header_version(version))?;
        if header.correlation_id != asked.correlation_id {
            let (found, wanted) = (header.correlation_id, asked.correlation_id);
            return Err(Unexpected::CorrelationId { found, wanted });
        }
        let version = api.version(version);
        match asked.kind {
            Kind::Metadata => self.told_metadata(&body(&mut cursor, |cursor| Wire::read(cursor, version))?, now),
            Kind::FindCoordinator => {
                self.told_coordinator(&body(&mut cursor, |cursor| Wire::read(cursor, version))?, now);
            }
            Kind::Join => self.joined(asked, &body(&mut cursor, |cursor| Wire::read(cursor, version))?, now),
            Kind::Sync => self.synced(&body(&mut cursor, |cursor| Wire::read(cursor, version))?, now),
            Kind::FetchOffsets => {
                self.told_offsets(&body(&mut cursor, |cursor| Wire::read(cursor, version))?, now);
            }
            Kind::Heartbeat => {
                let response: HeartbeatResponse = body(&mut cursor, |cursor| Wire::read(cursor, version))?;
                self.judged(asked, ErrorCode(response.error_code), now);
            }
            Kind::Commit => {
                self.committed(asked, &body(&mut cursor, |cursor| Wire::read(cursor, version))?, now);
            }
            Kind::Leave => {
                let _: LeaveGroupResponse<'_> = body(&mut cursor, |cursor| Wire::read(cursor, version))?;
                self.end(Event::Left);
            }
        }
        Ok(())
    }

    fn told_metadata(&mut self, response: &MetadataResponse<'_>, now: Now) {
        let topic = |name: &str| {
            let row = response.topics.iter().find(|row| row.name.as_deref() == Some(name))?;
            let partitions = row.partitions.len() as i32;
            (row.error_code == 0 && partitions > 0).then_some(Topic { id: row.topic_id, partitions })
        };
        let topics: Option<Vec<Topic>> = self.settings.topics.iter().map(|name| topic(name)).collect();
        if self.phase != Phase::Metadata {
            return;
        }
        match topics {
            Some(topics) => {
                self.topics = topics;
                let next = if self.coordinator.is_some() { self.resume } else { Phase::FindCoordinator };
                self.go(next, 0, now);
                self.advance(now);
            }
            None => self.retry(now),
        }
    }

    fn told_coordinator(&mut self, response: &FindCoordinatorResponse<'_>, now: Now) {
        if self.phase != Phase::FindCoordinator {
            return;
        }
        let (error_code, endpoint) = match response.coordinators.iter().next() {
            Some(found) => (found.error_code, endpoint(found.node_id, &found.host, found.port)),
            None => (response.error_code, endpoint(response.node_id, &response.host, response.port)),
        };
        match ErrorCode(error_code) {
            ErrorCode::NONE => {
                self.coordinator = Some(endpoint);
                self.go(self.resume, 0, now);
                self.advance(now);
            }
            error @ (ErrorCode::GROUP_AUTHORIZATION_FAILED | ErrorCode::INVALID_REQUEST) => {
                self.end(Event::Failed(error));
            }
            _ => self.retry(now),
        }
    }

    fn joined(&mut self, asked: InFlight, response: &JoinGroupResponse<'_>, now: Now) {
        // What it now subscribes to is still asked; it joins for that as the member that it has become.
        if self.phase == Phase::Metadata && !response.member_id.is_empty() {
            self.member_id = response.member_id.as_ref().into();
        }
        if self.phase != Phase::Join {
            return;
        }
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => {
                self.member_id = response.member_id.as_ref().into();
                self.generation_id = response.generation_id;
                if asked.is_outdated {
                    self.rejoin(0, now);
                    self.advance(now);
                    return;
                }
                self.protocol_type = response.protocol_type.as_deref().map(Into::into);
                self.protocol_name = response.protocol_name.as_deref().map(Into::into);
                let leads = response.leader == response.member_id && !response.skip_assignment;
                self.assignments = if leads { self.assign(response) } else { Vec::new() };
                self.heartbeat_at_ms = now.monotonic_ms + self.settings.heartbeat_interval_ms;
                self.go(Phase::Sync, 0, now);
                self.advance(now);
            }
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = response.member_id.as_ref().into();
                self.go(Phase::Join, 0, now);
                self.advance(now);
            }
            ErrorCode::UNKNOWN_MEMBER_ID => self.start_over(true, now),
            ErrorCode::ILLEGAL_GENERATION => self.start_over(false, now),
            ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::NOT_COORDINATOR => self.lose_coordinator(now),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::REBALANCE_IN_PROGRESS => self.retry(now),
            error => self.end(Event::Failed(error)),
        }
    }

    fn assign(&self, response: &JoinGroupResponse<'_>) -> Vec<(Box<str>, Vec<u8>)> {
        let rows: Vec<_> = response.members.iter().collect();
        let members: Vec<(&str, &[u8])> = rows.iter().map(|row| (&*row.member_id, row.metadata)).collect();
        let partitions_of = |name: &str| {
            let place = self.settings.topics.iter().position(|topic| **topic == *name)?;
            self.topics.get(place).map(|topic| topic.partitions)
        };
        let mark = [self.generation_id.to_be_bytes(), self.next_correlation_id.to_be_bytes()].concat();
        assignor::assign(&members, &partitions_of, &mark)
    }

    fn synced(&mut self, response: &SyncGroupResponse<'_>, now: Now) {
        if self.phase != Phase::Sync {
            return;
        }
        match ErrorCode(response.error_code) {
            // What a foreign leader deals out in a form of its own is nothing to this member.
            ErrorCode::NONE => {
                let assignment = ConsumerProtocolAssignment::from_bytes(response.assignment).unwrap_or_default();
                self.assigned(&assignment, now);
            }
            ErrorCode::REBALANCE_IN_PROGRESS => self.go(Phase::Join, 0, now),
            ErrorCode::UNKNOWN_MEMBER_ID => self.start_over(true, now),
            ErrorCode::ILLEGAL_GENERATION => self.start_over(false, now),
            ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::NOT_COORDINATOR => self.lose_coordinator(now),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => self.go(Phase::Join, self.backoff_ms(), now),
            error => self.end(Event::Failed(error)),
        }
    }

    fn assigned(&mut self, assignment: &ConsumerProtocolAssignment<'_>, now: Now) {
        self.positions.clear();
        for row in assignment.assigned_partitions.iter() {
            // Of what is not subscribed to any more nothing is consumed.
            let Some(topic) = self.settings.topics.iter().position(|topic| **topic == *row.topic) else { continue };
            let position = |partition| Position { topic: topic as u16, partition, offset: -1 };
            self.positions.extend(row.partitions.iter().map(position));
        }
        self.positions.sort_unstable_by_key(|position| (position.topic, position.partition));
        if self.positions.is_empty() {
            self.settle(now);
        } else {
            self.go(Phase::FetchOffsets, 0, now);
            self.advance(now);
        }
    }

    fn settle(&mut self, now: Now) {
        self.go(Phase::Stable, 0, now);
        self.commit_at_ms = now.monotonic_ms + self.settings.commit_interval_ms.unwrap_or(0);
        let event = Event::Assigned { generation_id: self.generation_id, partitions: self.positions.len() };
        self.outgoing.push_back(Outgoing::Event(event));
    }

    fn told_offsets(&mut self, response: &OffsetFetchResponse<'_>, now: Now) {
        if self.phase != Phase::FetchOffsets {
            return;
        }
        let mut error = ErrorCode(response.error_code);
        let mut found: Vec<(Option<u16>, i32, i64)> = Vec::new();
        for topic in response.topics.iter() {
            let place = self.place_of(&topic.name);
            for row in topic.partitions.iter() {
                error = if error.is_none() { ErrorCode(row.error_code) } else { error };
                found.push((place, row.partition_index, row.committed_offset));
            }
        }
        for group in response.groups.iter() {
            error = if error.is_none() { ErrorCode(group.error_code) } else { error };
            for topic in group.topics.iter() {
                let by_id = self.topics.iter().position(|known| known.id == topic.topic_id).map(|place| place as u16);
                let place = if topic.topic_id.is_zero() { self.place_of(&topic.name) } else { by_id };
                for row in topic.partitions.iter() {
                    error = if error.is_none() { ErrorCode(row.error_code) } else { error };
                    found.push((place, row.partition_index, row.committed_offset));
                }
            }
        }
        match error {
            ErrorCode::NONE => {
                for position in &mut self.positions {
                    let row = found.iter().find(|row| (row.0, row.1) == (Some(position.topic), position.partition));
                    position.offset = row.map_or(0, |row| row.2.max(0));
                }
                self.settle(now);
            }
            ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::NOT_COORDINATOR => self.lose_coordinator(now),
            ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => self.ask_topics_again(now),
            ErrorCode::GROUP_AUTHORIZATION_FAILED | ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                self.end(Event::Failed(error));
            }
            _ => self.retry(now),
        }
    }

    fn place_of(&self, name: &str) -> Option<u16> {
        self.settings.topics.iter().position(|topic| **topic == *name).map(|place| place as u16)
    }

    /// A topic is not what it was: what it is now is asked, and the group joined again for it.
    fn ask_topics_again(&mut self, now: Now) {
        self.positions.clear();
        self.resume = Phase::Join;
        self.go(Phase::Metadata, self.backoff_ms(), now);
    }

    fn committed(&mut self, asked: InFlight, response: &OffsetCommitResponse<'_>, now: Now) {
        let codes = response.topics.iter().flat_map(|topic| topic.partitions.iter()).map(|row| row.error_code);
        let errors: Vec<ErrorCode> = codes.map(ErrorCode).filter(|error| !error.is_none()).collect();
        match errors.first() {
            None => self.outgoing.push_back(Outgoing::Event(Event::Committed)),
            Some(&ErrorCode::UNKNOWN_TOPIC_ID | &ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
                if self.phase == Phase::Stable {
                    self.ask_topics_again(now);
                }
            }
            // The next commit tries again, with what is consumed until then.
            Some(&ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | &ErrorCode::OFFSET_METADATA_TOO_LARGE) => {}
            Some(&error) => self.judged(asked, error, now),
        }
    }

    /// What an error of Heartbeat or OffsetCommit says of the member, if it speaks of the generation that the member is
    /// still in.
    fn judged(&mut self, asked: InFlight, error: ErrorCode, now: Now) {
        if asked.generation_id != self.generation_id || !self.phase.is_in_generation() {
            return;
        }
        match error {
            ErrorCode::NONE => {}
            ErrorCode::COORDINATOR_NOT_AVAILABLE | ErrorCode::NOT_COORDINATOR => self.lose_coordinator(now),
            // While SyncGroup is under way its own answer tells.
            ErrorCode::REBALANCE_IN_PROGRESS if self.phase == Phase::Sync => {}
            ErrorCode::REBALANCE_IN_PROGRESS => {
                self.rejoin(0, now);
                self.advance(now);
            }
            ErrorCode::ILLEGAL_GENERATION => self.start_over(false, now),
            ErrorCode::UNKNOWN_MEMBER_ID => self.start_over(true, now),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => {}
            error => self.end(Event::Failed(error)),
        }
    }
}

fn endpoint(node_id: i32, host: &str, port: i32) -> Endpoint {
    Endpoint { node_id, host: host.into(), port }
}

/// The rest of the frame, all of it.
fn body<'a, T>(
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    let body = read(cursor)?;
    match cursor.remaining() {
        0 => Ok(body),
        surplus => Err(cursor.malformed("bytes behind the reply", surplus)),
    }
}

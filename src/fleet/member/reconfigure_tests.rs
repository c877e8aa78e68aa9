//! A member whose subscription changes while it joins or looks for its coordinator.

use std::sync::Arc;

use super::{Channel, Member, MemberSettings, Output, Phase};
use crate::clock::Now;
use crate::wire::find_coordinator::{Coordinator, FindCoordinatorResponse};
use crate::wire::join_group::{JoinGroupRequest, JoinGroupResponse};
use crate::wire::metadata::{MetadataResponse, MetadataResponsePartition, MetadataResponseTopic};
use crate::wire::{ApiKey, Array, Cursor, RequestHeader, ResponseHeader, Wire, Writer};

const NOW: Now = Now { monotonic_ms: 1_000, unix_ms: 1_000 };

/// A member, and what the test remembers of its last request.
struct Conversation {
    member: Member,
    correlation_id: i32,
}

impl Conversation {
    fn new() -> Conversation {
        let member = Member::new(MemberSettings::default().into(), None, NOW);
        let mut conversation = Conversation { member, correlation_id: -1 };
        conversation.member.advance(NOW);
        conversation
    }

    /// The member's next request, without size and header.
    fn asked(&mut self, api: ApiKey, version: i16) -> Vec<u8> {
        let mut frame = Vec::new();
        self.member.advance(NOW);
        let output = self.member.poll_output(&mut frame).expect("a request");
        assert!(matches!(output, Output::Send(_)), "{output:?}");
        let mut cursor = Cursor::new(&frame[4..]);
        let number = i16::from_be_bytes([frame[4], frame[5]]);
        assert_eq!(number, api.number());
        let header = RequestHeader::read(&mut cursor, api.request_header_version(version)).expect("a header");
        self.correlation_id = header.correlation_id;
        frame[frame.len() - cursor.remaining()..].to_vec()
    }

    fn joins(&mut self) -> (String, i32) {
        let body = self.asked(ApiKey::JoinGroup, 9);
        let version = ApiKey::JoinGroup.version(9);
        let request = JoinGroupRequest::read(&mut Cursor::new(&body), version).expect("JoinGroup");
        (request.member_id.to_string(), request.session_timeout_ms)
    }

    /// A reply to the request of a correlation id.
    fn told<'a>(&mut self, channel: Channel, (api, version): (ApiKey, i16), correlation_id: i32, body: &impl Wire<'a>) {
        let mut frame = Vec::new();
        let mut writer = Writer::new(&mut frame);
        ResponseHeader { correlation_id }.write(&mut writer, api.response_header_version(version));
        body.write(&mut writer, api.version(version));
        self.member.received(channel, &frame, NOW).expect("a reply that makes sense");
    }

    fn told_topics(&mut self, names: &[&'static str]) {
        let partitions = [MetadataResponsePartition::default()];
        let topic = |name: &&'static str| MetadataResponseTopic {
            name: Some((*name).into()),
            partitions: Array::Items(&partitions),
            ..Default::default()
        };
        let topics: Vec<_> = names.iter().map(topic).collect();
        let body = MetadataResponse { topics: Array::Items(&topics), ..Default::default() };
        self.told(Channel::Bootstrap, (ApiKey::Metadata, 13), self.correlation_id, &body);
    }

    fn told_coordinator(&mut self) {
        let found = [Coordinator { key: "group".into(), host: "localhost".into(), port: 9092, ..Default::default() }];
        let body = FindCoordinatorResponse { coordinators: Array::Items(&found), ..Default::default() };
        self.told(Channel::Bootstrap, (ApiKey::FindCoordinator, 6), self.correlation_id, &body);
    }

    fn told_generation(&mut self, correlation_id: i32) {
        let body = JoinGroupResponse {
            generation_id: 7,
            leader: "another".into(),
            member_id: "member-1".into(),
            ..Default::default()
        };
        self.told(Channel::Coordinator, (ApiKey::JoinGroup, 9), correlation_id, &body);
    }

    fn until_it_joins(&mut self) -> i32 {
        self.asked(ApiKey::Metadata, 13);
        self.told_topics(&["topic"]);
        self.asked(ApiKey::FindCoordinator, 6);
        self.told_coordinator();
        assert_eq!(self.joins(), (String::new(), 45_000));
        self.correlation_id
    }
}

fn other_timeout() -> Arc<MemberSettings> {
    MemberSettings { session_timeout_ms: 6_000, ..Default::default() }.into()
}

fn other_topic() -> Arc<MemberSettings> {
    MemberSettings { topics: vec!["other".into()], session_timeout_ms: 6_000, ..Default::default() }.into()
}

#[test]
fn it_joins_again_when_the_join_under_way_is_answered() {
    let mut it = Conversation::new();
    let join = it.until_it_joins();
    it.member.reconfigure(other_timeout(), NOW);
    it.member.advance(NOW);
    assert_eq!(it.member.poll_output(&mut Vec::new()), None, "one join at a time");
    it.told_generation(join);
    assert_eq!(it.joins(), ("member-1".into(), 6_000));
    it.told_generation(it.correlation_id);
    assert_eq!(it.member.phase, Phase::Sync);
}

#[test]
fn it_asks_for_other_topics_first() {
    let mut it = Conversation::new();
    let join = it.until_it_joins();
    it.member.reconfigure(other_topic(), NOW);
    it.asked(ApiKey::Metadata, 13);
    it.told_topics(&["other"]);
    it.told_generation(join);
    assert_eq!(it.joins(), ("member-1".into(), 6_000));
}

#[test]
fn it_stays_the_member_that_an_answer_makes_it_while_topics_are_asked() {
    let mut it = Conversation::new();
    let join = it.until_it_joins();
    it.member.reconfigure(other_topic(), NOW);
    it.asked(ApiKey::Metadata, 13);
    it.told_generation(join);
    it.told_topics(&["other"]);
    assert_eq!(it.joins(), ("member-1".into(), 6_000));
}

#[test]
fn it_joins_again_at_a_coordinator_that_it_has_lost_meanwhile() {
    let mut it = Conversation::new();
    it.until_it_joins();
    it.member.phase = Phase::Stable;
    it.member.disconnected(Channel::Coordinator, NOW);
    assert_eq!((it.member.phase, it.member.resume), (Phase::FindCoordinator, Phase::Stable));
    it.member.reconfigure(other_timeout(), NOW);
    it.member.send_at_ms = 0;
    it.asked(ApiKey::FindCoordinator, 6);
    it.told_coordinator();
    assert_eq!(it.joins(), (String::new(), 6_000));
}

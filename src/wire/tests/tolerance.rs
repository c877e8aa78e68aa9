//! Where Kafka is tolerant, so are we; and not beyond.

use crate::wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::wire::fetch::FetchRequest;
use crate::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use crate::wire::join_group::{JoinGroupRequest, JoinGroupResponse};
use crate::wire::metadata::MetadataRequest;
use crate::wire::{ApiKey, Array, Cursor, Malformed, Version, Wire, Writer};
use std::borrow::Cow;

fn read<'a, T: Wire<'a>>(bytes: &'a [u8], version: Version) -> Result<(T, usize), Malformed> {
    let mut cursor = Cursor::new(bytes);
    T::read(&mut cursor, version).map(|message| (message, cursor.remaining()))
}

fn written<'a>(message: &impl Wire<'a>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut Writer::new(&mut bytes), version);
    bytes
}

const HEARTBEAT_V4: Version = ApiKey::Heartbeat.version(4);

#[test]
fn bytes_behind_a_complete_body_are_ignored_and_counted() {
    let mut bytes = written(&HeartbeatResponse { throttle_time_ms: 0, error_code: 27 }, HEARTBEAT_V4);
    bytes.extend([1, 2, 3]);
    let (response, remaining) = read::<HeartbeatResponse>(&bytes, HEARTBEAT_V4).expect("complete");
    assert_eq!((response.error_code, remaining), (27, 3));
}

#[test]
fn text_that_is_not_utf8_is_replaced_and_only_then_allocated() {
    let bytes = b"\0\x02g\xff\0\0\0\x01\0\x01m";
    let (request, _) = read::<HeartbeatRequest<'_>>(bytes, ApiKey::Heartbeat.version(0)).expect("tolerated");
    assert!(matches!(request.group_id, Cow::Owned(ref group_id) if group_id == "g\u{fffd}"));
    assert!(matches!(request.member_id, Cow::Borrowed("m")));
}

#[test]
fn unknown_tags_are_skipped() {
    let bytes = [2, b'g', 0, 0, 0, 1, 2, b'm', 0, 2, 0, 1, 9, 0xe7, 7, 2, 9, 9];
    let (request, remaining) = read::<HeartbeatRequest<'_>>(&bytes, HEARTBEAT_V4).expect("tolerated");
    assert_eq!((request.group_instance_id, remaining), (None, 0));
    let malformed = read::<HeartbeatRequest<'_>>(&bytes[..bytes.len() - 1], HEARTBEAT_V4).expect_err("cut");
    assert_eq!((malformed.what, malformed.field), ("tagged field is cut short", "HeartbeatRequest"));
}

#[test]
fn tags_may_be_unordered_and_doubled_and_the_later_wins() {
    let version = ApiKey::ApiVersions.version(3);
    let epoch = |value: i64| [&[1, 8][..], &value.to_be_bytes()].concat();
    let bytes = [&[0, 0, 1, 0, 0, 0, 0, 4, 3, 1, 1][..], &epoch(5), &[3, 1, 0], &epoch(6)].concat();
    let (response, remaining) = read::<ApiVersionsResponse<'_>>(&bytes, version).expect("tolerated");
    assert_eq!((response.zk_migration_ready, response.finalized_features_epoch, remaining), (false, 6, 0));
}

/// Kafka reads a known tagged field from where it stands and goes on behind it, whatever its size says.
#[test]
fn the_size_of_a_known_tag_is_not_compared() {
    let version = ApiKey::ApiVersions.version(3);
    let bytes = [0, 0, 1, 0, 0, 0, 0, 1, 3, 99, 1];
    let (response, remaining) = read::<ApiVersionsResponse<'_>>(&bytes, version).expect("tolerated");
    assert_eq!((response.zk_migration_ready, remaining), (true, 0));
}

/// As in Kafka, a tag that is known in other versions only is not skipped.
#[test]
fn a_tag_of_another_version_is_malformed() {
    let request = FetchRequest { cluster_id: Some("c".into()), replica_id: 7, ..Default::default() };
    let v12 = ApiKey::Fetch.version(12);
    let bytes = written(&request, v12);
    assert_eq!(read::<FetchRequest<'_>>(&bytes, v12).expect("whole").0, request);
    // The body ends with one tag of 2 bytes. Tag 1 is the replica state, from v15 on.
    let body = &bytes[..bytes.len() - 5];
    let bytes = [body, &[1, 1, 3, 9, 9, 9]].concat();
    let malformed = read::<FetchRequest<'_>>(&bytes, v12).expect_err("not in v12");
    assert_eq!(malformed.what, "tagged field does not belong to this version");
}

#[test]
fn any_negative_length_is_null_where_null_is_allowed() {
    for length in [[0xff, 0xff], [0xff, 0xfe], [0x80, 0]] {
        let bytes = [&[0, 1, b'g', 0, 0, 0, 1, 0, 1, b'm'][..], &length].concat();
        let (request, _) = read::<HeartbeatRequest<'_>>(&bytes, ApiKey::Heartbeat.version(3)).expect("null");
        assert_eq!(request.group_instance_id, None);
    }
    for count in [-1i32, -2, i32::MIN] {
        let bytes = count.to_be_bytes();
        let (request, _) = read::<MetadataRequest<'_>>(&bytes, ApiKey::Metadata.version(1)).expect("null");
        assert_eq!(request.topics, None);
    }
}

#[test]
fn null_where_it_is_not_allowed_is_malformed() {
    for length in [[0xff, 0xff], [0xff, 0xfe]] {
        let malformed = read::<HeartbeatRequest<'_>>(&length, ApiKey::Heartbeat.version(3)).expect_err("null");
        assert_eq!((malformed.what, malformed.field), ("string is null", "HeartbeatRequest.group_id"));
    }
    let malformed = read::<HeartbeatRequest<'_>>(&[0], HEARTBEAT_V4).expect_err("null");
    assert_eq!(malformed.what, "string is null");
    // Null topics are allowed from v1 on.
    let malformed = read::<MetadataRequest<'_>>(&[0xff; 4], ApiKey::Metadata.version(0)).expect_err("null");
    assert_eq!((malformed.what, malformed.field), ("array is null", "MetadataRequest.topics"));
    let bytes = b"\0\x01g\0\0\0\x01\0\0\0\x01\0\x01m\0\x08consumer\0\0\0\x01\0\x05range\xff\xff\xff\xff";
    let malformed = read::<JoinGroupRequest<'_>>(bytes, ApiKey::JoinGroup.version(1)).expect_err("null");
    assert_eq!((malformed.what, malformed.field), ("bytes are null", "JoinGroupRequestProtocol.metadata"));
}

#[test]
fn null_is_written_as_empty_where_it_is_not_allowed() {
    let response = JoinGroupResponse { protocol_name: None, ..Default::default() };
    let (v6, v7) = (ApiKey::JoinGroup.version(6), ApiKey::JoinGroup.version(7));
    let bytes = written(&response, v6);
    assert_eq!(read::<JoinGroupResponse<'_>>(&bytes, v6).expect("whole").0.protocol_name, Some("".into()));
    let bytes = written(&response, v7);
    assert_eq!(read::<JoinGroupResponse<'_>>(&bytes, v7).expect("whole").0.protocol_name, None);
    let all = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(written(&all, ApiKey::Metadata.version(0)), [0; 4]);
    assert_eq!(written(&all, ApiKey::Metadata.version(1)), [0xff; 4]);
}

#[test]
fn an_empty_body_is_whole_where_a_version_has_no_fields() {
    let (request, _) = read::<ApiVersionsRequest<'_>>(&[], ApiKey::ApiVersions.version(2)).expect("empty");
    assert_eq!(request, ApiVersionsRequest::default());
}

#[test]
fn defaults_are_kafkas() {
    assert_eq!(JoinGroupRequest::default().rebalance_timeout_ms, -1);
    assert_eq!(JoinGroupResponse::default().generation_id, -1);
    assert_eq!(JoinGroupResponse::default().protocol_name, Some("".into()));
    assert_eq!(MetadataRequest::default().topics, Some(Array::EMPTY));
    assert!(MetadataRequest::default().allow_auto_topic_creation);
    assert_eq!(FetchRequest::default().max_bytes, i32::MAX);
}

//! The few requests that the load sends and what it reads of their answers. Versions: what each function says; a version
//! outside of it is refused by the command line.

use crate::wire::{Reader, Writer};

pub(crate) const CLIENT_ID: &str = "perf";
pub(crate) const OFFSET_COMMIT: i16 = 8;
pub(crate) const OFFSET_FETCH: i16 = 9;
pub(crate) const FIND_COORDINATOR: i16 = 10;
pub(crate) const HEARTBEAT: i16 = 12;
const JOIN_GROUP_VERSION: i16 = 9;
const SYNC_GROUP_VERSION: i16 = 5;
const LEAVE_GROUP_VERSION: i16 = 5;
const PROTOCOL_TYPE: &str = "consumer";
const PROTOCOL_NAME: &str = "range";

/// FindCoordinator v0-6 for groups; v0-3 take the first key only.
pub(crate) fn find_coordinator(version: i16, keys: &[&str]) -> Vec<u8> {
    let mut writer = Writer::request(FIND_COORDINATOR, version, version >= 3, CLIENT_ID);
    if version < 4 {
        writer.string(keys[0]);
    }
    if version >= 1 {
        writer.i8(0);
    }
    if version >= 4 {
        writer.array(keys.len());
        for key in keys {
            writer.string(key);
        }
    }
    writer.frame()
}

/// One coordinator of a FindCoordinator answer; the key is empty in v0-3.
#[derive(Debug, PartialEq)]
pub(crate) struct Coordinator<'a> {
    pub(crate) key: &'a str,
    pub(crate) error_code: i16,
    pub(crate) host: &'a str,
    pub(crate) port: i32,
}

pub(crate) fn read_find_coordinator(version: i16, frame: &[u8]) -> Result<Vec<Coordinator<'_>>, String> {
    let mut reader = Reader::response(frame, version >= 3, version >= 3)?;
    if version >= 1 {
        reader.i32()?;
    }
    let mut coordinators = Vec::new();
    if version < 4 {
        let error_code = reader.i16()?;
        if version >= 1 {
            reader.string()?;
        }
        reader.i32()?;
        coordinators.push(Coordinator { key: "", error_code, host: reader.string()?, port: reader.i32()? });
    } else {
        for _ in 0..reader.array()? {
            let key = reader.string()?;
            reader.i32()?;
            let (host, port, error_code) = (reader.string()?, reader.i32()?, reader.i16()?);
            reader.string()?;
            reader.tags()?;
            coordinators.push(Coordinator { key, error_code, host, port });
        }
    }
    reader.end()?;
    Ok(coordinators)
}

/// JoinGroup v9 with one protocol; an empty member id asks for one.
pub(crate) fn join_group(group_id: &str, session_timeout_ms: i32, member_id: &str, metadata: &[u8]) -> Vec<u8> {
    let mut writer = Writer::request(11, JOIN_GROUP_VERSION, true, CLIENT_ID);
    writer.string(group_id).i32(session_timeout_ms).i32(session_timeout_ms).string(member_id).nullable(None);
    writer.string(PROTOCOL_TYPE).array(1).string(PROTOCOL_NAME).bytes(metadata).tags().nullable(None);
    writer.frame()
}

/// What a JoinGroup answer says; `members` is the leader's only.
#[derive(Debug, PartialEq)]
pub(crate) struct Joined<'a> {
    pub(crate) error_code: i16,
    pub(crate) generation_id: i32,
    pub(crate) is_leader: bool,
    pub(crate) member_id: &'a str,
    pub(crate) members: Vec<&'a str>,
}

pub(crate) fn read_join_group(frame: &[u8]) -> Result<Joined<'_>, String> {
    let mut reader = Reader::response(frame, true, true)?;
    reader.i32()?;
    let (error_code, generation_id) = (reader.i16()?, reader.i32()?);
    reader.string()?;
    reader.string()?;
    let leader = reader.string()?;
    reader.bool()?;
    let member_id = reader.string()?;
    let mut members = Vec::new();
    for _ in 0..reader.array()? {
        members.push(reader.string()?);
        reader.string()?;
        reader.bytes()?;
        reader.tags()?;
    }
    reader.end()?;
    Ok(Joined { error_code, generation_id, is_leader: leader == member_id, member_id, members })
}

/// SyncGroup v5; the leader gives every member the same assignment bytes, as no server looks into them.
pub(crate) fn sync_group(
    group_id: &str,
    generation_id: i32,
    member_id: &str,
    members: &[&str],
    assignment: &[u8],
) -> Vec<u8> {
    let mut writer = Writer::request(14, SYNC_GROUP_VERSION, true, CLIENT_ID);
    writer.string(group_id).i32(generation_id).string(member_id).nullable(None);
    writer.string(PROTOCOL_TYPE).string(PROTOCOL_NAME).array(members.len());
    for member in members {
        writer.string(member).bytes(assignment).tags();
    }
    writer.frame()
}

/// The error code and the assignment.
pub(crate) fn read_sync_group(frame: &[u8]) -> Result<(i16, &[u8]), String> {
    let mut reader = Reader::response(frame, true, true)?;
    reader.i32()?;
    let error_code = reader.i16()?;
    reader.string()?;
    reader.string()?;
    let assignment = reader.bytes()?;
    reader.end()?;
    Ok((error_code, assignment))
}

/// LeaveGroup v5 of one member.
pub(crate) fn leave_group(group_id: &str, member_id: &str) -> Vec<u8> {
    let mut writer = Writer::request(13, LEAVE_GROUP_VERSION, true, CLIENT_ID);
    writer.string(group_id).array(1).string(member_id).nullable(None).nullable(None).tags();
    writer.frame()
}

/// The first error code that is not 0: the answer's or its one member's.
pub(crate) fn read_leave_group(frame: &[u8]) -> Result<i16, String> {
    let mut reader = Reader::response(frame, true, true)?;
    reader.i32()?;
    let mut error_code = reader.i16()?;
    if reader.array()? == 1 {
        reader.string()?;
        reader.string()?;
        let member = reader.i16()?;
        error_code = if error_code != 0 { error_code } else { member };
        reader.tags()?;
    }
    reader.end()?;
    Ok(error_code)
}

/// Heartbeat v0-4.
pub(crate) fn heartbeat(version: i16, group_id: &str, generation_id: i32, member_id: &str) -> Vec<u8> {
    let mut writer = Writer::request(HEARTBEAT, version, version >= 4, CLIENT_ID);
    writer.string(group_id).i32(generation_id).string(member_id);
    if version >= 3 {
        writer.nullable(None);
    }
    writer.frame()
}

pub(crate) fn read_heartbeat(version: i16, frame: &[u8]) -> Result<i16, String> {
    let mut reader = Reader::response(frame, version >= 4, version >= 4)?;
    if version >= 1 {
        reader.i32()?;
    }
    let error_code = reader.i16()?;
    reader.end()?;
    Ok(error_code)
}

/// OffsetCommit v2-9 of one partition of one topic.
pub(crate) fn offset_commit(
    version: i16,
    group_id: &str,
    generation_id: i32,
    member_id: &str,
    topic: &str,
    offset: i64,
) -> Vec<u8> {
    let mut writer = Writer::request(OFFSET_COMMIT, version, version >= 8, CLIENT_ID);
    writer.string(group_id).i32(generation_id).string(member_id);
    if version >= 7 {
        writer.nullable(None);
    }
    if version <= 4 {
        writer.i64(-1);
    }
    writer.array(1).string(topic).array(1).i32(0).i64(offset);
    if version >= 6 {
        writer.i32(-1);
    }
    writer.string("").tags().tags();
    writer.frame()
}

/// The error code of the one partition.
pub(crate) fn read_offset_commit(version: i16, frame: &[u8]) -> Result<i16, String> {
    let mut reader = Reader::response(frame, version >= 8, version >= 8)?;
    if version >= 3 {
        reader.i32()?;
    }
    one(reader.array()?)?;
    reader.string()?;
    one(reader.array()?)?;
    reader.i32()?;
    let error_code = reader.i16()?;
    reader.tags()?;
    reader.tags()?;
    reader.end()?;
    Ok(error_code)
}

/// OffsetFetch v1-9 of one partition of one topic.
pub(crate) fn offset_fetch(version: i16, group_id: &str, topic: &str) -> Vec<u8> {
    let mut writer = Writer::request(OFFSET_FETCH, version, version >= 6, CLIENT_ID);
    if version >= 8 {
        writer.array(1);
    }
    writer.string(group_id);
    if version >= 9 {
        writer.nullable(None).i32(-1);
    }
    writer.array(1).string(topic).array(1).i32(0).tags();
    if version >= 8 {
        writer.tags();
    }
    if version >= 7 {
        writer.i8(0);
    }
    writer.frame()
}

/// The first error code that is not 0, and the committed offset of the one partition.
pub(crate) fn read_offset_fetch(version: i16, frame: &[u8]) -> Result<(i16, i64), String> {
    let mut reader = Reader::response(frame, version >= 6, version >= 6)?;
    if version >= 3 {
        reader.i32()?;
    }
    if version >= 8 {
        one(reader.array()?)?;
        reader.string()?;
    }
    let (mut error_code, mut offset) = (0, -1);
    if reader.array()? > 0 {
        reader.string()?;
        one(reader.array()?)?;
        reader.i32()?;
        offset = reader.i64()?;
        if version >= 5 {
            reader.i32()?;
        }
        reader.string()?;
        error_code = reader.i16()?;
        reader.tags()?;
        reader.tags()?;
    }
    if version >= 2 {
        let whole = reader.i16()?;
        error_code = if whole != 0 { whole } else { error_code };
    }
    if version >= 8 {
        reader.tags()?;
    }
    reader.end()?;
    Ok((error_code, offset))
}

/// ApiVersions v3, as a Java client greets.
pub(crate) fn api_versions() -> Vec<u8> {
    let mut writer = Writer::request(18, 3, true, CLIENT_ID);
    writer.string("rallypoint-perf").string("1.0");
    writer.frame()
}

/// The error code; the rest of the answer is not looked at.
pub(crate) fn read_api_versions(frame: &[u8]) -> Result<i16, String> {
    Reader::response(frame, false, true)?.i16()
}

/// Metadata v4 of one topic, which is created if the server does so.
pub(crate) fn metadata(topic: &str) -> Vec<u8> {
    let mut writer = Writer::request(3, 4, false, CLIENT_ID);
    writer.array(1).string(topic).i8(1);
    writer.frame()
}

/// The error code of the one topic.
pub(crate) fn read_metadata(frame: &[u8]) -> Result<i16, String> {
    let mut reader = Reader::response(frame, false, false)?;
    reader.i32()?;
    for _ in 0..reader.array()? {
        reader.i32()?;
        reader.string()?;
        reader.i32()?;
        reader.string()?;
    }
    reader.string()?;
    reader.i32()?;
    one(reader.array()?)?;
    reader.i16()
}

/// ConsumerProtocolSubscription v1 of one topic, filled up with user data to `bytes`.
pub(crate) fn subscription(topic: &str, bytes: usize) -> Vec<u8> {
    let mut writer = Writer::blob();
    writer.i16(1).i32(1).string(topic).bytes(&vec![b'm'; bytes.saturating_sub(16 + topic.len())]).i32(0);
    writer.into_bytes()
}

/// ConsumerProtocolAssignment v1 of partition 0 of one topic, filled up with user data to `bytes`.
pub(crate) fn assignment(topic: &str, bytes: usize) -> Vec<u8> {
    let mut writer = Writer::blob();
    writer.i16(1).i32(1).string(topic).i32(1).i32(0).bytes(&vec![b'a'; bytes.saturating_sub(20 + topic.len())]);
    writer.into_bytes()
}

fn one(count: usize) -> Result<(), String> {
    if count == 1 { Ok(()) } else { Err(format!("{count} entries where one was asked for")) }
}

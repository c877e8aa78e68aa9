//! The frames made and read here against bytes of other encoders (golden.tsv).

use crate::messages::*;

fn golden(message: &str) -> Vec<(i16, Vec<u8>)> {
    let rows = include_str!("golden.tsv").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().expect("three columns");
        (next(), next().parse().expect("a version"), hex::decode(next()).expect("hex"))
    });
    let found: Vec<_> = rows.filter(|row| row.0 == message).map(|row| (row.1, row.2)).collect();
    assert!(!found.is_empty(), "no golden {message}");
    found
}

fn each(message: &str, versions: usize, check: impl Fn(i16, &[u8])) {
    let rows = golden(message);
    assert_eq!(rows.len(), versions, "versions of {message}");
    for (version, frame) in rows {
        check(version, &frame);
    }
}

#[test]
fn requests_are_byte_equal() {
    each("FindCoordinatorRequest", 7, |version, frame| {
        assert_eq!(find_coordinator(version, &["group-1", "group-22"]), frame, "v{version}");
    });
    each("HeartbeatRequest", 5, |version, frame| {
        assert_eq!(heartbeat(version, "group-1", 7, "perf-1"), frame, "v{version}");
    });
    each("OffsetCommitRequest", 8, |version, frame| {
        assert_eq!(offset_commit(version, "group-1", 3, "perf-1", "demo", 42), frame, "v{version}");
    });
    each("OffsetFetchRequest", 9, |version, frame| {
        assert_eq!(offset_fetch(version, "group-1", "demo"), frame, "v{version}");
    });
    each("JoinGroupRequest", 1, |_, frame| assert_eq!(join_group("group-1", 60_000, "perf-1", b"abc"), frame));
    each("SyncGroupRequest", 1, |_, frame| {
        assert_eq!(sync_group("group-1", 3, "perf-1", &["perf-1", "perf-2"], b"xyz"), frame);
    });
    each("LeaveGroupRequest", 1, |_, frame| assert_eq!(leave_group("group-1", "perf-1"), frame));
    each("ApiVersionsRequest", 1, |_, frame| assert_eq!(api_versions(), frame));
    each("MetadataRequest", 1, |_, frame| assert_eq!(metadata("demo"), frame));
}

#[test]
fn answers_are_read_whole() {
    each("FindCoordinatorResponse", 7, |version, frame| {
        let of = |key, error_code| Coordinator { key, error_code, host: "127.0.0.1", port: 9093 };
        let expected = if version < 4 { vec![of("", 15)] } else { vec![of("group-1", 0), of("group-22", 0)] };
        assert_eq!(read_find_coordinator(version, frame), Ok(expected), "v{version}");
    });
    each("HeartbeatResponse", 5, |version, frame| assert_eq!(read_heartbeat(version, frame), Ok(27)));
    each("OffsetCommitResponse", 8, |version, frame| assert_eq!(read_offset_commit(version, frame), Ok(22)));
    each("OffsetFetchResponse", 9, |version, frame| assert_eq!(read_offset_fetch(version, frame), Ok((0, 42))));
    each("JoinGroupResponse", 1, |_, frame| {
        let joined = read_join_group(frame).expect("well-formed");
        assert_eq!((joined.error_code, joined.generation_id, joined.is_leader), (0, 3, true));
        assert_eq!((joined.member_id, joined.members), ("perf-1", vec!["perf-1", "perf-2"]));
    });
    each("SyncGroupResponse", 1, |_, frame| assert_eq!(read_sync_group(frame), Ok((0, &b"xyz"[..]))));
    each("LeaveGroupResponse", 1, |_, frame| assert_eq!(read_leave_group(frame), Ok(25)));
    each("MetadataResponse", 1, |_, frame| assert_eq!(read_metadata(frame), Ok(5)));
}

#[test]
fn answers_of_kafkas_encoder_are_read_whole() {
    let errors = [3116, 0, -6248, 0, 32767];
    each("KafkaHeartbeatResponse", 5, |version, frame| {
        assert_eq!(read_heartbeat(version, frame), Ok(errors[version as usize]), "v{version}");
    });
    let errors = [1, 32584, -32768, 31953, 0, 1, 16902];
    each("KafkaFindCoordinatorResponse", 7, |version, frame| {
        let coordinators = read_find_coordinator(version, frame).expect("well-formed");
        assert_eq!(coordinators[0].error_code, errors[version as usize], "v{version}");
        assert_eq!(coordinators.len(), if version < 4 { 1 } else { 2 });
    });
    each("KafkaJoinGroupResponse", 1, |_, frame| {
        let joined = read_join_group(frame).expect("well-formed");
        assert_eq!((joined.generation_id, joined.is_leader, joined.members.len()), (1, false, 2));
    });
    each("KafkaSyncGroupResponse", 1, |_, frame| {
        let (error_code, assignment) = read_sync_group(frame).expect("well-formed");
        assert_eq!((error_code, assignment.len()), (32767, 130));
    });
}

#[test]
fn every_cut_answer_is_an_error() {
    let frame = golden("JoinGroupResponse").remove(0).1;
    for end in 0..frame.len() {
        assert!(read_join_group(&frame[..end]).is_err(), "cut at {end}");
    }
    let longer = [&frame[..], &[0]].concat();
    assert!(read_join_group(&longer).is_err());
}

#[test]
fn consumer_blobs_have_the_size_asked_for() {
    assert_eq!(subscription("demo", 100).len(), 100);
    assert_eq!(assignment("demo", 100).len(), 100);
}

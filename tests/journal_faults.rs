//! A server whose disk is full, or whose journal is damaged, as its clients and its owner meet it.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "it runs servers and works on their files")]

mod hostile_support;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostile_support::{
    COORDINATOR_NOT_AVAILABLE, Client, Member, NONE, Server, eventually, join_request, my_turn, read,
};
use rallypoint::wire::ApiKey;
use rallypoint::wire::Array;
use rallypoint::wire::heartbeat::HeartbeatResponse;
use rallypoint::wire::join_group::JoinGroupResponse;
use rallypoint::wire::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use rallypoint::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use rallypoint::wire::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse};
use rallypoint::wire::sync_group::SyncGroupResponse;

const GROUP: &str = "durable";
const SEGMENT_BYTES: u64 = 64 << 10;
const PROPERTIES: &[(&str, &str)] = &[("rallypoint.journal.segment.bytes", "65536")];
const HEADER_BYTES: u64 = 4096;

/// A member commits an offset, with so much metadata.
fn commit_of(member: &Member, offset: i64) -> Vec<u8> {
    let metadata = "m".repeat(1_000);
    let partitions = [OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_metadata: Some((&*metadata).into()),
        ..Default::default()
    }];
    let topics =
        [OffsetCommitRequestTopic { name: "t".into(), partitions: Array::Items(&partitions), ..Default::default() }];
    let request = OffsetCommitRequest {
        group_id: (&*member.group_id).into(),
        generation_id_or_member_epoch: member.generation_id,
        member_id: (&*member.member_id).into(),
        topics: Array::Items(&topics),
        ..Default::default()
    };
    hostile_support::frame(ApiKey::OffsetCommit, 7, &request)
}

fn committed(reply: &[u8]) -> i16 {
    let response: OffsetCommitResponse<'_> = read(reply, ApiKey::OffsetCommit, 7);
    let topic = response.topics.iter().next().expect("a topic");
    topic.partitions.iter().next().expect("a partition").error_code
}

/// `None` if the connection ends instead of an answer.
fn commit(client: &mut Client, member: &Member, offset: i64) -> Option<i16> {
    client.send(&commit_of(member, offset));
    client.try_receive().ok().map(|reply| committed(&reply))
}

fn fetched(client: &mut Client, group_id: &str) -> i64 {
    let topics = [OffsetFetchRequestTopic { name: "t".into(), partition_indexes: Array::Items(&[0]) }];
    let request = OffsetFetchRequest {
        group_id: group_id.into(),
        topics: Some(Array::Items(&topics)),
        ..OffsetFetchRequest::default()
    };
    let reply = client.ask(ApiKey::OffsetFetch, 5, &request);
    let response: OffsetFetchResponse<'_> = read(&reply, ApiKey::OffsetFetch, 5);
    let topic = response.topics.iter().next().expect("a topic");
    let row = topic.partitions.iter().next().expect("a partition");
    assert_eq!((response.error_code, row.error_code), (NONE, NONE));
    row.committed_offset
}

fn heartbeat(client: &mut Client, member: &Member) -> i16 {
    let reply = client.ask(ApiKey::Heartbeat, 3, &member.heartbeat());
    read::<HeartbeatResponse>(&reply, ApiKey::Heartbeat, 3).error_code
}

fn leave_as_nobody(client: &mut Client, group_id: &str) -> i16 {
    let request = LeaveGroupRequest { group_id: group_id.into(), member_id: "nobody".into(), ..Default::default() };
    let reply = client.ask(ApiKey::LeaveGroup, 1, &request);
    read::<LeaveGroupResponse<'_>>(&reply, ApiKey::LeaveGroup, 1).error_code
}

/// A newcomer founds a group: the error of its JoinGroup, or else of its SyncGroup.
fn found(client: &mut Client, group_id: &str) -> i16 {
    let join = join_request(group_id, 60_000);
    let reply = client.ask(ApiKey::JoinGroup, 3, &join.write());
    let joined: JoinGroupResponse<'_> = read(&reply, ApiKey::JoinGroup, 3);
    if joined.error_code != NONE {
        return joined.error_code;
    }
    let (member_id, generation_id) = (joined.member_id.to_string(), joined.generation_id);
    let member = Member { group_id: group_id.to_owned(), member_id, generation_id };
    let reply = client.ask(ApiKey::SyncGroup, 2, &member.sync(&[]));
    read::<SyncGroupResponse<'_>>(&reply, ApiKey::SyncGroup, 2).error_code
}

/// How to give a server a small file system of its own that goes with it, if this process may.
fn in_a_mount(folder: &Path) -> Option<Vec<String>> {
    let words = |unshare: &[&str]| {
        let mount = format!("mount -t tmpfs -o size=4m tmpfs '{}' && exec \"$@\"", folder.display());
        let shell = ["sh", "-c", &mount, "sh"].map(str::to_owned);
        ["unshare"].iter().chain(unshare).map(|word| (*word).to_owned()).chain(shell).collect::<Vec<_>>()
    };
    let works = |words: &Vec<String>| {
        Command::new(&words[0]).args(&words[1..]).arg("true").output().is_ok_and(|output| output.status.success())
    };
    [words(&["-m"]), words(&["-rm"])].into_iter().find(works)
}

/// Fills what is left of a file system.
fn fill(ballast: &Path) {
    let mut file = File::create(ballast).expect("a file can be made");
    let error = loop {
        if let Err(error) = file.write_all(&[0; 4096]) {
            break error;
        }
    };
    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("its type").is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).expect("it is copied")),
        }
    }
}

#[test]
fn a_full_disk_refuses_commits_and_joins_and_nothing_else_until_there_is_space() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let Some(by) = in_a_mount(folder.path()) else {
        // Past what the test runner keeps back.
        let line = "SKIPPED: a_full_disk_...: no tmpfs can be mounted here, neither by this user nor in a namespace\n";
        return io::stderr().write_all(line.as_bytes()).expect("it is written");
    };
    let by: Vec<&str> = by.iter().map(String::as_str).collect();
    let mut server = Server::start_in(&folder.path().join("data"), &by, 1, PROPERTIES).expect("it starts");
    // As it sees its folder.
    let inside = PathBuf::from(format!("/proc/{}/root{}", server.pid(), folder.path().display()));
    let mut client = Client::of_coordinator(server.address, GROUP);
    let member = Member::found(&mut client, GROUP, 60_000);
    assert_eq!(commit(&mut client, &member, 1), Some(NONE));
    let mut acknowledged = 1;

    fill(&inside.join("ballast"));
    // What was prepared is filled first.
    let refused = (2..4 * SEGMENT_BYTES as i64 / 1_000).find(|offset| match commit(&mut client, &member, *offset) {
        Some(NONE) => {
            acknowledged = *offset;
            false
        }
        Some(error) => {
            assert_eq!(error, COORDINATOR_NOT_AVAILABLE);
            true
        }
        // It was on its way when the disk was found full: neither kept nor acknowledged.
        None => {
            client = Client::connect(server.address);
            false
        }
    });
    assert!(refused.is_some() && acknowledged > 50, "{acknowledged} commits were taken, then {refused:?} was refused");
    assert!(server.metric("rallypoint_journal_state") == 2.0 && server.has_logged("the disk is full"));
    for round in 0..20 {
        assert_eq!(leave_as_nobody(&mut client, GROUP), 25, "who writes nothing waits for nothing");
        assert_eq!(heartbeat(&mut client, &member), NONE, "heartbeats go on");
        assert_eq!(fetched(&mut client, GROUP), acknowledged, "fetches go on, and show what was acknowledged");
        assert_eq!(commit(&mut client, &member, 1_000_000 + round), Some(COORDINATOR_NOT_AVAILABLE));
        assert_eq!(found(&mut client, "newcomers"), COORDINATOR_NOT_AVAILABLE);
    }

    std::fs::remove_file(inside.join("ballast")).expect("it is there");
    eventually("space", || commit(&mut client, &member, 2_000_000) == Some(NONE));
    assert!(server.metric("rallypoint_journal_state") == 0.0 && server.has_logged("there is space again"));
    assert_eq!((heartbeat(&mut client, &member), found(&mut client, "newcomers")), (NONE, NONE));
    assert_eq!(fetched(&mut client, GROUP), 2_000_000);
    server.is_well();

    // What a kill would leave behind.
    server.freeze();
    let left = tempfile::tempdir().expect("a folder");
    copy(&inside.join("data"), left.path());
    server.kill();
    let server = Server::start_in(left.path(), &[], 1, PROPERTIES).expect("it starts again");
    let mut client = Client::of_coordinator(server.address, GROUP);
    eventually("the end of loading", || server.has_logged("loaded"));
    assert_eq!(heartbeat(&mut client, &member), NONE);
    assert_eq!(commit(&mut client, &member, 2_000_001), Some(NONE), "the member goes on");
    assert_eq!(fetched(&mut client, GROUP), 2_000_001);
}

/// What is acknowledged before it is written may have to wait for the next segment.
#[test]
fn an_orderly_stop_keeps_what_was_acknowledged_before_it_was_written() {
    let _turn = my_turn();
    let properties = [PROPERTIES, &[("rallypoint.journal.mode", "none")]].concat();
    for _ in 0..3 {
        let data = tempfile::tempdir().expect("a folder");
        let server = Server::start_in(data.path(), &[], 1, &properties).expect("it starts");
        let mut client = Client::of_coordinator(server.address, GROUP);
        let member = Member::found(&mut client, GROUP, 60_000);
        let last = 8 * SEGMENT_BYTES as i64 / 1_000;
        let commits: Vec<u8> = (1..=last).flat_map(|offset| commit_of(&member, offset)).collect();
        client.send(&commits);
        (1..=last).for_each(|_| assert_eq!(committed(&client.receive()), NONE));
        server.stop();
        let server = Server::start_in(data.path(), &[], 1, &properties).expect("it starts again");
        let mut client = Client::of_coordinator(server.address, GROUP);
        eventually("the end of loading", || server.has_logged("loaded"));
        assert_eq!(fetched(&mut client, GROUP), last);
    }
}

/// A server that has written some commits and was killed; its data directory and the segment they are in.
fn killed() -> (tempfile::TempDir, Member, File) {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start_in(data.path(), &[], 1, PROPERTIES).expect("it starts");
    let mut client = Client::of_coordinator(server.address, GROUP);
    let member = Member::found(&mut client, GROUP, 60_000);
    for offset in 1..=20 {
        assert_eq!(commit(&mut client, &member, offset), Some(NONE));
    }
    server.kill();
    let path = data.path().join("journal/generation-000001/stream-0001/segment-000000000001");
    let segment = OpenOptions::new().read(true).write(true).open(path).expect("the first segment");
    (data, member, segment)
}

/// Where the written part of a segment ends, roughly: behind its last byte that is not zero.
fn end_of(segment: &File) -> u64 {
    let mut bytes = vec![0; SEGMENT_BYTES as usize];
    segment.read_exact_at(&mut bytes, 0).expect("a whole segment");
    bytes.iter().rposition(|byte| *byte != 0).expect("something is written") as u64 + 1
}

#[test]
fn a_torn_tail_is_cut_with_a_line_in_the_log() {
    let _turn = my_turn();
    let (data, member, segment) = killed();
    // The first block of an append of which the second one was never written.
    let end = end_of(&segment);
    segment.write_all_at(&[0xa5; 700], end.next_multiple_of(8)).expect("it is torn");
    let server = Server::start_in(data.path(), &[], 1, PROPERTIES).expect("it starts again");
    let mut client = Client::of_coordinator(server.address, GROUP);
    eventually("the end of loading", || server.has_logged("loaded"));
    assert!(server.has_logged("the log is cut here"), "{}", server.log());
    assert_eq!(heartbeat(&mut client, &member), NONE);
    assert_eq!(fetched(&mut client, GROUP), 20);
    assert_eq!(commit(&mut client, &member, 21), Some(NONE));
    server.kill();
    // What is new stands behind the cut.
    let server = Server::start_in(data.path(), &[], 1, PROPERTIES).expect("it starts once more");
    let mut client = Client::of_coordinator(server.address, GROUP);
    eventually("the end of loading", || server.has_logged("loaded"));
    assert_eq!(heartbeat(&mut client, &member), NONE);
    assert_eq!(fetched(&mut client, GROUP), 21);
}

#[test]
fn damage_in_the_middle_stops_the_start_with_its_place_and_the_remedy() {
    let _turn = my_turn();
    let (data, member, segment) = killed();
    let at = HEADER_BYTES + (end_of(&segment) - HEADER_BYTES) / 2;
    let mut byte = [0];
    segment.read_exact_at(&mut byte, at).and_then(|()| segment.write_all_at(&[byte[0] ^ 1], at)).expect("damaged");
    // The journal is read after the ports are open.
    let refused = Server::start_in(data.path(), &[], 1, PROPERTIES).map_or_else(|words| words, Server::fails);
    for word in ["segment-000000000001", "damaged at offset ", "rallypoint journal verify", "rallypoint journal repair"]
    {
        assert!(refused.contains(word), "{word} is missing in:\n{refused}");
    }
    let offset: u64 = refused
        .split_once("damaged at offset ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .expect("a number");
    assert!(offset <= at && at - offset < 2_000, "byte {at} was bent, and the entry at {offset} is named");

    let tool = |task: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rallypoint"));
        let output = command.args(["journal", task, "--data-dir"]).arg(data.path()).output().expect("it runs");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (is_sound, said) = tool("verify");
    assert!(!is_sound && said.contains(&offset.to_string()), "{said}");
    let (is_repaired, said) = tool("repair");
    assert!(is_repaired && said.contains("LOST"), "{said}");
    let server = Server::start_in(data.path(), &[], 1, PROPERTIES).expect("it starts again");
    let mut client = Client::of_coordinator(server.address, GROUP);
    eventually("the end of loading", || server.has_logged("loaded"));
    assert_eq!(heartbeat(&mut client, &member), NONE);
    assert_eq!(fetched(&mut client, GROUP), 20, "one commit in the middle is lost, not the last");
}

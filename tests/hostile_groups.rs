//! Peers that fill the coordinator: ids that are never used, names without end, members that say too much. What they can take is
//! bounded, and comes back with their time-outs.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod hostile_support;

use hostile_support::{
    Client, INVALID_REQUEST, Join, MEMBER_ID_REQUIRED, MIB, Member, NONE, Server, commit_error, commit_frame, compare,
    frame, join_request, my_turn, pump, read, scale,
};
use rallypoint::limits::PENDING_MEMBERS_MAX;
use rallypoint::wire::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use rallypoint::wire::join_group::{JoinGroupRequestProtocol, JoinGroupResponse};
use rallypoint::wire::sync_group::{SyncGroupRequestAssignment, SyncGroupResponse};
use rallypoint::wire::{ApiKey, Array, RequestHeader, Wire, Writer};

/// Groups go when nothing is left in them, and are looked for as often as this.
const SWEEPS: &[(&str, &str)] = &[("offsets.retention.check.interval.ms", "500")];

fn error_of(reply: &[u8], version: i16) -> i16 {
    read::<JoinGroupResponse<'_>>(reply, ApiKey::JoinGroup, version).error_code
}

fn join_frame(group_id: &str, version: i16, session_timeout_ms: i32) -> Vec<u8> {
    frame(ApiKey::JoinGroup, version, &join_request(group_id, session_timeout_ms).write())
}

#[test]
fn member_ids_that_are_asked_for_and_abandoned() {
    let _turn = my_turn();
    // A sweep would take the group away, and the ids with it.
    let mut server = Server::start(1, &[]);
    let mut client = Client::of_coordinator(server.address, "abandoned");
    let count = 100_000 * scale();
    // Of very many, more are there at a time than may be: none has timed out before the limit is met.
    let ask = join_frame("abandoned", 4, if scale() == 1 { 2_000 } else { 30_000 });
    let ((), seen) = compare(&server, "abandoned member ids", || {
        pump(&mut client, std::iter::repeat_n(ask, count), |reply| assert_eq!(error_of(&reply, 4), MEMBER_ID_REQUIRED));
    });
    println!("{count} ids, {} bytes each", seen.rss_growth() / count.min(PENDING_MEMBERS_MAX));
    assert!(seen.rss_growth() < 128 * MIB, "{} bytes", seen.rss_growth());
    let is_limited = server.has_logged("at a limit limit=\"member ids that were handed out\"");
    assert!(is_limited || count < 2 * PENDING_MEMBERS_MAX, "{}", server.log());
    // Who means it is let in meanwhile.
    let mut member = Client::connect(server.address);
    let reply = member.ask(ApiKey::JoinGroup, 4, &join_request("another", 6_000).write());
    let joined: JoinGroupResponse<'_> = read(&reply, ApiKey::JoinGroup, 4);
    let request = join_request("another", 6_000);
    let again = rallypoint::wire::join_group::JoinGroupRequest { member_id: joined.member_id, ..request.write() };
    assert_eq!(error_of(&member.ask(ApiKey::JoinGroup, 4, &again), 4), NONE);
    server.forgets_member_ids();
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn member_ids_as_long_as_a_client_id_can_be() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::of_coordinator(server.address, "long");
    let mut ask = Vec::new();
    let mut writer = Writer::new(&mut ask);
    let start = writer.begin_frame();
    // A hyphen and a UUID come behind it.
    let client_id = Some("x".repeat(32_767 - 37).into());
    RequestHeader { api_key: 11, api_version: 4, correlation_id: 1, client_id }.write(&mut writer, 1);
    join_request("long", 2_000 * scale().min(10) as i32).write().write(&mut writer, ApiKey::JoinGroup.version(4));
    writer.end_frame(start);
    let ((), seen) = compare(&server, "long member ids", || {
        pump(&mut client, std::iter::repeat_n(ask, 4_000 * scale()), |reply| {
            assert_eq!(error_of(&reply, 4), MEMBER_ID_REQUIRED);
        });
    });
    assert!(seen.rss_growth() < 160 * MIB, "{} bytes", seen.rss_growth());
    server.forgets_member_ids();
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn names_that_are_only_looked_up() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::of_coordinator(server.address, "any");
    let requests = (0..100_000 * scale()).map(|number| {
        let key = format!("looked-up-{number}").into();
        frame(ApiKey::FindCoordinator, 3, &FindCoordinatorRequest { key, ..Default::default() })
    });
    let ((), seen) = compare(&server, "names looked up", || {
        pump(&mut client, requests, |reply| {
            assert_eq!(read::<FindCoordinatorResponse<'_>>(&reply, ApiKey::FindCoordinator, 3).error_code, NONE);
        });
    });
    assert!(seen.rss_growth() < 16 * MIB, "{} bytes for looking", seen.rss_growth());
    server.is_well();
}

/// A join stops its connection until it is answered: one connection is no load.
const JOINING: usize = 8;

#[test]
fn groups_without_end_by_joining() {
    let _turn = my_turn();
    let mut server = Server::start(1, SWEEPS);
    let each = 2_000 * scale();
    let mut clients: Vec<Client> = (0..JOINING).map(|_| Client::of_coordinator(server.address, "any")).collect();
    let ((), seen) = compare(&server, "groups by joining", || {
        std::thread::scope(|scope| {
            for (number, client) in clients.iter_mut().enumerate() {
                scope.spawn(move || {
                    let requests = (0..each).map(|group| join_frame(&format!("joined-{number}-{group}"), 3, 500));
                    pump(client, requests, |reply| assert_eq!(error_of(&reply, 3), NONE));
                });
            }
        });
    });
    println!("{} groups, {} bytes each", JOINING * each, seen.rss_growth() / (JOINING * each));
    hostile_support::eventually("the end of all these groups", || server.metric("rallypoint_groups{") <= 64.0);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn groups_without_end_by_committing() {
    let _turn = my_turn();
    let mut server = Server::start(1, SWEEPS);
    let mut client = Client::of_coordinator(server.address, "any");
    let count = 20_000 * scale();
    let ((), seen) = compare(&server, "groups by committing", || {
        let requests = (0..count).map(|number| commit_frame(&format!("committed-{number}"), 1_000));
        pump(&mut client, requests, |reply| assert_eq!(commit_error(&reply), NONE));
    });
    println!("{count} groups, {} bytes each", seen.rss_growth() / count);
    hostile_support::eventually("the end of all offsets", || server.metric("rallypoint_committed_offsets{") == 0.0);
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn members_that_say_too_much() {
    let _turn = my_turn();
    let mut server = Server::start(1, SWEEPS);
    let mut client = Client::of_coordinator(server.address, "blob");
    let blob = vec![7; 100_000_000];
    let ((), seen) = compare(&server, "a metadata blob", || {
        for _ in 0..3 {
            let protocols = vec![JoinGroupRequestProtocol { name: "range".into(), metadata: &blob }];
            let join = Join { protocols, ..join_request("blob", 6_000) };
            assert_eq!(error_of(&client.ask(ApiKey::JoinGroup, 3, &join.write()), 3), INVALID_REQUEST);
        }
    });
    assert!(seen.rss_growth() < 300 * MIB, "{} bytes", seen.rss_growth());
    server.gives_back(&seen);

    let names: Vec<String> = (0..10_000).map(|number| format!("protocol-{number}")).collect();
    let protocol = |name: &String| JoinGroupRequestProtocol { name: name.clone().into(), metadata: b"m" };
    let join = Join { protocols: names.iter().map(protocol).collect(), ..join_request("many", 6_000) };
    assert_eq!(error_of(&client.ask(ApiKey::JoinGroup, 3, &join.write()), 3), INVALID_REQUEST);
    let refused = server.metric("rallypoint_api_errors_total{code=\"INVALID_REQUEST\"");
    assert!(refused >= 4.0, "refusals are counted: {refused}");
    server.is_well();
}

#[test]
fn a_leader_that_assigns_too_much() {
    let _turn = my_turn();
    let mut server = Server::start(1, SWEEPS);
    let mut client = Client::of_coordinator(server.address, "assigned");
    let reply = client.ask(ApiKey::JoinGroup, 3, &join_request("assigned", 6_000).write());
    let joined: JoinGroupResponse<'_> = read(&reply, ApiKey::JoinGroup, 3);
    let member_id = joined.member_id.to_string();
    let member = Member { group_id: "assigned".into(), member_id, generation_id: joined.generation_id };
    let blob = vec![7; 100_000_000];
    let assignment = SyncGroupRequestAssignment { member_id: (&*member.member_id).into(), assignment: &blob };
    let (reply, seen) =
        compare(&server, "an assignment blob", || client.ask(ApiKey::SyncGroup, 2, &member.sync(&[assignment])));
    // It is more than one record of the journal may hold.
    let error_code = read::<SyncGroupResponse<'_>>(&reply, ApiKey::SyncGroup, 2).error_code;
    assert_ne!(error_code, NONE);
    println!("it is answered with error {error_code}");
    server.gives_back(&seen);
    server.is_well();
}

#[test]
fn a_batch_of_very_many_look_ups() {
    let _turn = my_turn();
    let mut server = Server::start(1, &[]);
    let mut client = Client::of_coordinator(server.address, "any");
    let keys: Vec<std::borrow::Cow<'_, str>> = (0..100_000).map(|number| format!("batch-{number}").into()).collect();
    let request = FindCoordinatorRequest { coordinator_keys: Array::Items(&keys), ..Default::default() };
    let bytes = frame(ApiKey::FindCoordinator, 4, &request);
    let (size, seen) = compare(&server, "a batch of look-ups", || {
        (0..5 * scale())
            .map(|_| {
                client.send(&bytes);
                client.receive().len()
            })
            .max()
    });
    println!("a request of {} bytes, an answer of {} bytes", bytes.len(), size.unwrap_or(0));
    assert!(seen.rss_growth() < 64 * MIB, "{} bytes", seen.rss_growth());
    server.is_well();
}

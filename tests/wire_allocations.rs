//! Parsing allocates nothing for bytes that are valid, and for others no more than the text that stands in for them; a
//! count or length in a message never does. Counted over Kafka's golden messages, whole, cut, and bent byte by byte.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rallypoint::wire::*;

struct Counting;

thread_local! {
    static ALLOCATED_BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is handed on to the system's allocator; counting touches a thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED_BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System`, by `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated_bytes(run: impl FnOnce()) -> usize {
    let before = ALLOCATED_BYTES.get();
    run();
    ALLOCATED_BYTES.get() - before
}

type Parse = fn(&[u8], Version) -> bool;

macro_rules! parsers {
    ($($key:ident: $module:ident::{$request:ident, $response:ident};)*) => {
        fn parser(name: &str) -> Option<(ApiKey, Parse)> {
            match name {
                $(
                    stringify!($request) => Some((ApiKey::$key, |bytes, version| {
                        $module::$request::read(&mut Cursor::new(bytes), version).is_ok()
                    })),
                    stringify!($response) => Some((ApiKey::$key, |bytes, version| {
                        $module::$response::read(&mut Cursor::new(bytes), version).is_ok()
                    })),
                )*
                _ => None,
            }
        }
    };
}

parsers! {
    ApiVersions: api_versions::{ApiVersionsRequest, ApiVersionsResponse};
    CreateTopics: create_topics::{CreateTopicsRequest, CreateTopicsResponse};
    DeleteGroups: delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
    DeleteTopics: delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
    DescribeCluster: describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
    DescribeGroups: describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
    Fetch: fetch::{FetchRequest, FetchResponse};
    FindCoordinator: find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
    Heartbeat: heartbeat::{HeartbeatRequest, HeartbeatResponse};
    JoinGroup: join_group::{JoinGroupRequest, JoinGroupResponse};
    LeaveGroup: leave_group::{LeaveGroupRequest, LeaveGroupResponse};
    ListGroups: list_groups::{ListGroupsRequest, ListGroupsResponse};
    ListOffsets: list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
    Metadata: metadata::{MetadataRequest, MetadataResponse};
    OffsetCommit: offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
    OffsetDelete: offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
    OffsetFetch: offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
    OffsetForLeaderEpoch: offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
    Produce: produce::{ProduceRequest, ProduceResponse};
    SyncGroup: sync_group::{SyncGroupRequest, SyncGroupResponse};
}

fn each_golden_message(mut test: impl FnMut(&str, Parse, Version, &[u8])) {
    let rows = include_str!("vectors/messages.tsv").lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut messages = 0;
    for row in rows {
        let columns: Vec<_> = row.split('\t').collect();
        if let Some((key, parse)) = parser(columns[0]) {
            let bytes = hex::decode(columns[2]).expect("hex");
            test(row, parse, key.version(columns[1].parse().expect("a version")), &bytes);
            messages += 1;
        }
    }
    let versions: usize = versions::TABLE.iter().map(|api| (api.decoded.first..=api.decoded.last).count()).sum();
    assert_eq!(messages, 2 * versions);
}

#[test]
fn golden_messages_parse_without_an_allocation() {
    each_golden_message(|name, parse, version, bytes| {
        assert_eq!(allocated_bytes(|| assert!(parse(bytes, version))), 0, "{name}");
        for cut in 0..bytes.len() {
            assert_eq!(allocated_bytes(|| assert!(!parse(&bytes[..cut], version))), 0, "{name} cut at {cut}");
        }
    });
}

#[test]
fn bent_messages_allocate_no_more_than_their_text() {
    let mut most = 0;
    each_golden_message(|name, parse, version, bytes| {
        let mut bent = bytes.to_vec();
        for index in 0..bytes.len() {
            for mask in [0x01, 0x10, 0x7f, 0x80, 0xff] {
                bent[index] ^= mask;
                let allocated = allocated_bytes(|| {
                    parse(&bent, version);
                });
                // U+FFFD has three bytes and may stand for one; a String that grows doubles.
                assert!(allocated <= 12 * bent.len(), "{name}: {allocated} bytes after bending byte {index} by {mask}");
                most = most.max(allocated);
                bent[index] = bytes[index];
            }
        }
    });
    assert!(most > 0, "text that is not UTF-8 was met, and the allocations are counted");
}

#[test]
fn a_frame_of_large_claims_allocates_nothing() {
    let claims: [&[u8]; 4] =
        [&[0x7f, 0xff, 0xff, 0xff], &[0xff, 0xff, 0xff, 0xff, 0x07], &[0x7f, 0xff], &[0xff, 0xff, 0x01]];
    each_golden_message(|name, parse, version, bytes| {
        for index in 0..bytes.len() {
            for claim in claims {
                let bent = [&bytes[..index], claim].concat();
                let allocated = allocated_bytes(|| {
                    parse(&bent, version);
                });
                assert!(allocated <= 12 * bent.len(), "{name}: {allocated} bytes for a claim at {index}");
            }
        }
    });
}

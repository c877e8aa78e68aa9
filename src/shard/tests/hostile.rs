//! Requests that ask for too much.

use super::*;
use crate::limits::{METADATA_TOPICS_MAX, REQUEST_OF_ROWS_MAX_BYTES};
use crate::wire::Array;
use crate::wire::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use crate::wire::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

/// A DescribeGroups whose frame has so many bytes.
fn describe(world: &mut World, bytes: usize) -> Verdict {
    const HEADER_BYTES: usize = 8 + 2 + "test".len();
    let name = "x".repeat(30_000);
    let whole = (bytes - HEADER_BYTES - 4) / (2 + name.len());
    let last = (bytes - HEADER_BYTES - 4) % (2 + name.len()) - 2;
    let groups: Vec<Cow<'_, str>> = [name[..last].into()].into_iter().chain(vec![(&*name).into(); whole]).collect();
    let request = DescribeGroupsRequest { groups: Array::Items(&groups), ..Default::default() };
    let (_, verdict, answer) = world.send(0, ApiKey::DescribeGroups, 0, &request);
    if let Some(answer) = answer {
        let response: DescribeGroupsResponse<'_> = read(&answer, ApiKey::DescribeGroups, 0);
        assert_eq!(response.groups.len(), whole + 1);
    }
    verdict
}

#[test]
fn a_request_of_rows_at_its_limit_and_one_past_it() {
    let mut world = World::new(1, Settings::default());
    assert!(matches!(describe(&mut world, REQUEST_OF_ROWS_MAX_BYTES), Verdict::Answered));
    let Verdict::Close(reason) = describe(&mut world, REQUEST_OF_ROWS_MAX_BYTES + 1) else { panic!("a byte too many") };
    assert_eq!(reason, "oversized DescribeGroups: 4194305 bytes, 4194304 allowed");
}

#[test]
fn topics_of_a_metadata_request_at_their_limit_and_one_past_it() {
    let mut world = World::new(1, Settings::default());
    for (count, expected) in [(METADATA_TOPICS_MAX, 3), (METADATA_TOPICS_MAX + 1, 42)] {
        let topic = |number| MetadataRequestTopic { name: Some(format!("{number}").into()), ..Default::default() };
        let topics: Vec<_> = (0..count).map(topic).collect();
        let request = MetadataRequest { topics: Some(Array::Items(&topics)), ..Default::default() };
        let (_, _, answer) = world.send(0, ApiKey::Metadata, 9, &request);
        let answer = answer.expect("an answer");
        let response: MetadataResponse<'_> = read(&answer, ApiKey::Metadata, 9);
        assert_eq!(response.topics.len(), count);
        assert!(response.topics.iter().all(|topic| topic.error_code == expected), "{count}");
    }
}

//! ListOffsets: which offset was at a time, or is the first, or the last. Nothing here is tiered or waits for an upload, so
//! the questions about that find nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::RequestContext;
use super::led::{Led, led_by};
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::topics::{Catalogue, Records};
use crate::wire::array::Rows;
use crate::wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use crate::wire::{Array, Wire, Writer};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The epoch in which all records were "written".
const FIRST_EPOCH: i32 = 0;

/// What was found; a timestamp, offset and epoch of -1 are "nothing".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    timestamp: i64,
    offset: i64,
    leader_epoch: i32,
}

const NOTHING: Found = Found { timestamp: -1, offset: -1, leader_epoch: -1 };

/// Of one partition; `old_style` is the whole answer of version 0.
struct Answer {
    error: ErrorCode,
    found: Found,
    old_style: Vec<i64>,
}

impl From<ErrorCode> for Answer {
    fn from(error: ErrorCode) -> Self {
        Answer { error, found: NOTHING, old_style: Vec::new() }
    }
}

type Answers<'a> = BTreeMap<Cow<'a, str>, BTreeMap<i32, Answer>>;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: ListOffsetsRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let catalogue = shard.catalogue();
    let mut answers = Answers::new();
    for topic in &request.topics {
        let may_describe = shard.allows(context, Operation::Describe, Resource::Topic(&topic.name));
        let rows = answers.entry(topic.name.clone()).or_default();
        for partition in &topic.partitions {
            let index = partition.partition_index;
            let answer = if !may_describe {
                ErrorCode::TOPIC_AUTHORIZATION_FAILED.into()
            } else if rows.contains_key(&index) {
                ErrorCode::INVALID_REQUEST.into()
            } else {
                look_up(shard, context, catalogue, &topic.name, &partition).unwrap_or_else(Answer::from)
            };
            rows.insert(index, answer);
        }
    }
    write(&answers, context, reply);
    Verdict::Answered
}

fn look_up(
    shard: &Shard,
    context: &RequestContext<'_>,
    catalogue: &Catalogue,
    topic: &str,
    partition: &ListOffsetsPartition,
) -> Result<Answer, ErrorCode> {
    let version = context.version.number;
    if !is_supported(partition.timestamp, version) {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let topic = catalogue.by_name(topic).map(|topic| &**topic);
    let led = led_by(shard.node(), topic, partition.partition_index, partition.current_leader_epoch)?;
    let old_style = match version {
        0 => old_style(&led.records, partition.timestamp, partition.max_num_offsets, context.now.unix_ms),
        _ => Vec::new(),
    };
    Ok(Answer { error: ErrorCode::NONE, found: find(&led, partition.timestamp), old_style })
}

/// Below zero are names, not times; each is known since some version.
fn is_supported(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        LATEST | EARLIEST | 0.. => 0,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => i16::MAX,
    };
    version >= since
}

fn find(led: &Led, timestamp: i64) -> Found {
    let records = &led.records;
    let record = |offset: i64| Found { timestamp: records.timestamp_ms(offset), offset, leader_epoch: FIRST_EPOCH };
    match timestamp {
        LATEST => Found { timestamp: -1, offset: records.high_watermark(), leader_epoch: led.leader_epoch },
        EARLIEST | EARLIEST_LOCAL => Found { timestamp: -1, offset: 0, leader_epoch: FIRST_EPOCH },
        MAX_TIMESTAMP => records.high_watermark().checked_sub(1).filter(|&last| last >= 0).map_or(NOTHING, record),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => NOTHING,
        time => records.first_not_before(time).map_or(NOTHING, record),
    }
}

/// Version 0 gets the first offsets of log segments that were last written before a time, newest first, and the log's end
/// for the present. A partition counts as one segment.
fn old_style(records: &Records, timestamp: i64, max_offsets: i32, now_ms: i64) -> Vec<i64> {
    let end = records.high_watermark();
    let written_ms = if end > 0 { records.timestamp_ms(end - 1) } else { 0 };
    let mut offsets = match timestamp {
        EARLIEST => vec![0],
        LATEST => vec![end, 0],
        time if time >= now_ms => vec![end, 0],
        time if time >= written_ms => vec![0],
        _ => Vec::new(),
    };
    if end == 0 {
        offsets.truncate(1);
    }
    offsets.truncate(usize::try_from(max_offsets).unwrap_or(0));
    offsets
}

fn write(answers: &Answers<'_>, context: &RequestContext<'_>, reply: &mut Writer<'_>) {
    let partition = |(&partition_index, answer): (&i32, &Answer), rows: &mut Rows<'_, '_>| {
        rows.push(ListOffsetsPartitionResponse {
            partition_index,
            error_code: answer.error.0,
            old_style_offsets: Array::Items(&answer.old_style),
            timestamp: answer.found.timestamp,
            offset: answer.found.offset,
            leader_epoch: answer.found.leader_epoch,
        });
    };
    let topic = |(name, partitions): (&Cow<'_, str>, &BTreeMap<i32, Answer>), rows: &mut Rows<'_, '_>| {
        rows.push(ListOffsetsTopicResponse {
            name: (&**name).into(),
            partitions: Array::Each {
                len: partitions.len(),
                each: &|rows| partitions.iter().for_each(|row| partition(row, rows)),
            },
        });
    };
    let response = ListOffsetsResponse {
        topics: Array::Each { len: answers.len(), each: &|rows| answers.iter().for_each(|row| topic(row, rows)) },
        ..Default::default()
    };
    response.write(reply, context.version);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::records::FIRST_TIMESTAMP_MS;

    fn led(count: i64) -> Led {
        Led { leader_epoch: 2, records: Records::new("t", 0, count) }
    }

    #[test]
    fn names_of_offsets_belong_to_versions() {
        let since = |timestamp| (0..=11).find(|&version| is_supported(timestamp, version));
        assert_eq!([5, 0, -1, -2].map(since), [Some(0); 4]);
        assert_eq!([-3, -4, -5, -6].map(since), [Some(7), Some(8), Some(9), Some(11)]);
        assert_eq!([-7, i64::MIN].map(since), [None; 2]);
    }

    #[test]
    fn what_is_found_in_full_and_empty_partitions() {
        let found = |timestamp, offset, leader_epoch| Found { timestamp, offset, leader_epoch };
        let first = FIRST_TIMESTAMP_MS;
        for (timestamp, in_ten, in_none) in [
            (LATEST, found(-1, 10, 2), found(-1, 0, 2)),
            (EARLIEST, found(-1, 0, 0), found(-1, 0, 0)),
            (EARLIEST_LOCAL, found(-1, 0, 0), found(-1, 0, 0)),
            (MAX_TIMESTAMP, found(first + 9_000, 9, 0), NOTHING),
            (LATEST_TIERED, NOTHING, NOTHING),
            (EARLIEST_PENDING_UPLOAD, NOTHING, NOTHING),
            (0, found(first, 0, 0), NOTHING),
            (first + 1, found(first + 1_000, 1, 0), NOTHING),
            (first + 9_001, NOTHING, NOTHING),
        ] {
            assert_eq!(find(&led(10), timestamp), in_ten, "{timestamp}");
            assert_eq!(find(&led(0), timestamp), in_none, "{timestamp}");
        }
    }

    #[test]
    fn version_0_gets_a_list() {
        let now_ms = FIRST_TIMESTAMP_MS + 1_000_000;
        let list = |count, timestamp, max| old_style(&Records::new("t", 0, count), timestamp, max, now_ms);
        assert_eq!(list(10, LATEST, 1), [10]);
        assert_eq!(list(10, LATEST, 5), [10, 0]);
        assert_eq!(list(10, EARLIEST, 5), [0]);
        assert_eq!(list(10, now_ms - 1, 5), [0]);
        assert_eq!(list(10, FIRST_TIMESTAMP_MS, 5), [0; 0]);
        assert_eq!(list(0, LATEST, 5), [0]);
        assert_eq!(list(10, LATEST, 0), [0; 0]);
        assert_eq!(list(10, LATEST, -1), [0; 0]);
    }
}

//! OffsetForLeaderEpoch: where a leader epoch ended, by which a consumer finds out that a log was cut. Nothing is written
//! here in any epoch but the first, so every epoch that there was ends at the high watermark.

use super::RequestContext;
use super::led::led_by;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::array::Rows;
use crate::wire::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopic, OffsetForLeaderTopicResult,
};
use crate::wire::{Array, Wire, Writer};

/// "No epoch", asked for or answered.
const UNDEFINED_EPOCH: i32 = -1;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: OffsetForLeaderEpochRequest<'_>,
    reply: &mut Writer<'_>,
) -> Verdict {
    let topics = request.topics;
    let response = OffsetForLeaderEpochResponse {
        topics: Array::Each {
            len: topics.len(),
            each: &|rows| topics.iter().for_each(|topic| push(shard, context, &topic, rows)),
        },
        ..Default::default()
    };
    response.write(reply, context.version);
    Verdict::Answered
}

fn push(shard: &Shard, context: &RequestContext<'_>, asked: &OffsetForLeaderTopic<'_>, rows: &mut Rows<'_, '_>) {
    let may_describe = shard.allows(context, Operation::Describe, Resource::Topic(&asked.topic));
    let topic = shard.catalogue().by_name(&asked.topic).map(|topic| &**topic);
    let end = |asked: &OffsetForLeaderPartition| {
        let led = match may_describe {
            true => led_by(shard.node(), topic, asked.partition, asked.current_leader_epoch),
            false => Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        };
        let row = EpochEndOffset { partition: asked.partition, ..Default::default() };
        match led {
            Err(error) => EpochEndOffset { error_code: error.0, ..row },
            Ok(led) => {
                let end = end_of(asked.leader_epoch, led.leader_epoch, led.records.high_watermark());
                EpochEndOffset { leader_epoch: end.0, end_offset: end.1, ..row }
            }
        }
    };
    rows.push(OffsetForLeaderTopicResult {
        topic: (&*asked.topic).into(),
        partitions: Array::Each {
            len: asked.partitions.len(),
            each: &|rows| asked.partitions.iter().for_each(|partition| rows.push(end(&partition))),
        },
    });
}

/// The epoch that was found, and its end.
fn end_of(epoch: i32, current_epoch: i32, high_watermark: i64) -> (i32, i64) {
    match epoch {
        UNDEFINED_EPOCH => (UNDEFINED_EPOCH, -1),
        later if later > current_epoch => (UNDEFINED_EPOCH, -1),
        // Before all epochs: ends where the first begins.
        earlier if earlier < 0 => (earlier, 0),
        known => (known, high_watermark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a broker of Apache Kafka 4.4.0 says of a partition with 3 records in epoch 0.
    #[test]
    fn ends_as_kafka_tells_them() {
        assert_eq!([-2, -1, 0, 1].map(|epoch| end_of(epoch, 0, 3)), [(-2, 0), (-1, -1), (0, 3), (-1, -1)]);
        assert_eq!([0, 1, 2, 3].map(|epoch| end_of(epoch, 2, 3)), [(0, 3), (1, 3), (2, 3), (-1, -1)]);
    }
}

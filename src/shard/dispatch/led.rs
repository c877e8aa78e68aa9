//! What the APIs of the data plane ask first: is there such a partition, is it led by this core, and does the client know
//! the epoch in which it is?

use crate::errors::ErrorCode;
use crate::ids::NodeIndex;
use crate::topics::{Partition, Records, Topic};

/// A client that does not know the leader epoch, or does not say it.
const NO_EPOCH: i32 = -1;

/// A partition that this core leads.
pub(in crate::shard) struct Led {
    /// 0 unless nodes have changed since the topic was created.
    pub(in crate::shard) leader_epoch: i32,
    /// What it seems to hold.
    pub(in crate::shard) records: Records,
}

/// A partition of a topic as `node` leads it.
///
/// # Errors
/// UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, and for another epoch than the partition's FENCED_LEADER_EPOCH or
/// UNKNOWN_LEADER_EPOCH.
pub(in crate::shard) fn led_by(
    node: NodeIndex,
    topic: Option<&Topic>,
    index: i32,
    current_leader_epoch: i32,
) -> Result<Led, ErrorCode> {
    let topic = topic.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let Partition { leader, leader_epoch } = topic.partition(index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if leader != node {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    match current_leader_epoch {
        NO_EPOCH => {}
        epoch if epoch < leader_epoch => return Err(ErrorCode::FENCED_LEADER_EPOCH),
        epoch if epoch > leader_epoch => return Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => {}
    }
    Ok(Led { leader_epoch, records: Records::new(&topic.name, index, topic.records) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TopicId;

    #[test]
    fn what_is_wrong_is_told_in_kafkas_order() {
        let partition = |leader, leader_epoch| Partition { leader: NodeIndex(leader), leader_epoch };
        let topic = Topic {
            name: "t".into(),
            id: TopicId([1; 16]),
            replication_factor: 1,
            partitions: vec![partition(0, 3), partition(1, 3)],
            configs: Default::default(),
            records: 5,
        };
        let ask = |topic, index, epoch| {
            led_by(NodeIndex(0), topic, index, epoch).map(|led| led.records.high_watermark()).map_err(|error| error.0)
        };
        assert_eq!(ask(None, 0, -1), Err(3));
        for index in [-1, 2, i32::MAX] {
            assert_eq!(ask(Some(&topic), index, -1), Err(3));
        }
        assert_eq!(ask(Some(&topic), 1, 9), Err(6));
        let epochs = [-1, 3, 2, 0, -2, 4].map(|epoch| ask(Some(&topic), 0, epoch));
        assert_eq!(epochs, [Ok(5), Ok(5), Err(74), Err(74), Err(74), Err(75)]);
    }
}

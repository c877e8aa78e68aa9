//! Who leads what: partitions go to the nodes in turn. A rule, not a memory: the same numbers give the same leaders on
//! every machine and after every restart.

use crate::ids::{NodeIndex, TopicId};

/// The leader of a partition of a topic whose partition 0 is led by node `first`; `nodes` is at least 1.
pub fn leader_of(partition: i32, first: NodeIndex, nodes: u16) -> NodeIndex {
    debug_assert!(partition >= 0 && nodes > 0);
    NodeIndex(((partition as u64 + first.0 as u64) % nodes as u64) as u16)
}

/// The leader of partition 0 of an ordinary topic: derived from its id, so that many topics of one partition do not all
/// fall to the same node. Internal topics begin at node 0.
pub fn first_leader_of(id: TopicId, nodes: u16) -> NodeIndex {
    let tail = u32::from_be_bytes([id.0[12], id.0[13], id.0[14], id.0[15]]);
    NodeIndex((tail % nodes as u32) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_go_round_the_nodes() {
        let leaders = |first, nodes| (0..6).map(|p| leader_of(p, NodeIndex(first), nodes).0).collect::<Vec<_>>();
        assert_eq!(leaders(0, 1), [0; 6]);
        assert_eq!(leaders(0, 4), [0, 1, 2, 3, 0, 1]);
        assert_eq!(leaders(2, 3), [2, 0, 1, 2, 0, 1]);
        assert_eq!(leader_of(i32::MAX, NodeIndex(u16::MAX), u16::MAX), NodeIndex((i32::MAX % 65_535) as u16));
    }

    #[test]
    fn topics_spread_over_the_first_leaders() {
        let mut count = [0; 3];
        for number in 0..300u32 {
            let mut id = TopicId::ZERO;
            id.0[12..].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
            count[first_leader_of(id, 3).index()] += 1;
        }
        assert!(count.iter().all(|&topics| topics > 50), "{count:?}");
    }
}

//! The leadership table: an immutable snapshot of the nodes, their endpoints per listener, and who leads the partitions of
//! the internal topics; with the bytes that FindCoordinator and Metadata answer already encoded, so that a look-up is a
//! hash and a copy. `control` builds it (this layer does not know the wire), [`super::Published`] holds it.

use super::partition::partition_of;
use super::publish::Epoch;
use crate::ids::{InternalTopicKind, NodeIndex, TopicId};

/// A snapshot of who leads what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Grows with every table that is published.
    pub epoch: u64,
    /// All nodes; [`NodeIndex`] counts in here.
    pub nodes: Vec<Node>,
    /// By listener index: the rows of all nodes as Metadata lists brokers.
    pub brokers: Vec<EncodedBrokers>,
    /// `__consumer_offsets`; `None` until it has been created.
    pub offsets: Option<InternalTopic>,
    /// `__transaction_state`.
    pub transactions: Option<InternalTopic>,
    /// `__share_group_state`.
    pub share_state: Option<InternalTopic>,
}

/// A core, as clients see it: a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Kafka's node id.
    pub id: i32,
    /// By listener index; `None` where the node does not have that listener.
    pub endpoints: Vec<Option<Endpoint>>,
}

/// Where clients of one listener reach a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As advertised.
    pub host: String,
    /// As advertised.
    pub port: u16,
    /// What FindCoordinator says when this node is the answer.
    pub coordinator: EncodedCoordinator,
}

/// The answer "this node, no error" of FindCoordinator. Versions that share a layout share the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EncodedCoordinator {
    /// The body of version 0.
    pub v0: Box<[u8]>,
    /// The body of versions 1 and 2.
    pub v1: Box<[u8]>,
    /// The body of version 3.
    pub v3: Box<[u8]>,
    /// What follows the key in a row of versions 4 to 6.
    pub v4_row: Box<[u8]>,
}

/// The rows of all nodes in Metadata's array of brokers, without the array's count.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EncodedBrokers {
    /// How many rows these are.
    pub len: usize,
    /// Rows of version 0.
    pub v0: Box<[u8]>,
    /// Rows of versions 1 to 8.
    pub v1: Box<[u8]>,
    /// Rows of versions 9 and newer.
    pub v9: Box<[u8]>,
}

/// The leaders of an internal topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopic {
    /// The topic's id.
    pub id: TopicId,
    /// By partition; not empty.
    pub leaders: Vec<NodeIndex>,
    /// By partition.
    pub leader_epochs: Vec<i32>,
}

impl InternalTopic {
    /// The number of partitions.
    pub fn partitions(&self) -> i32 {
        self.leaders.len() as i32
    }

    /// The partition to which a key (a group id, for instance) belongs.
    pub fn partition_of(&self, key: &str) -> i32 {
        partition_of(key, self.partitions())
    }

    /// The node that coordinates a key.
    pub fn coordinator_of(&self, key: &str) -> NodeIndex {
        self.leaders[self.partition_of(key) as usize]
    }
}

impl Table {
    /// An internal topic's leaders, `None` until it has been created.
    pub fn internal(&self, kind: InternalTopicKind) -> Option<&InternalTopic> {
        match kind {
            InternalTopicKind::Offsets => self.offsets.as_ref(),
            InternalTopicKind::Transactions => self.transactions.as_ref(),
            InternalTopicKind::ShareState => self.share_state.as_ref(),
        }
    }

    /// The endpoint of a node on a listener.
    pub fn endpoint(&self, node: NodeIndex, listener: usize) -> Option<&Endpoint> {
        self.nodes.get(node.index())?.endpoints.get(listener)?.as_ref()
    }

    /// Where the coordinator of `key` is reached on a listener: the whole of a look-up. `None` is
    /// COORDINATOR_NOT_AVAILABLE: no such topic yet, or its leader does not have the listener.
    pub fn look_up(&self, kind: InternalTopicKind, key: &str, listener: usize) -> Option<&Endpoint> {
        self.endpoint(self.internal(kind)?.coordinator_of(key), listener)
    }

    /// The partition of `__consumer_offsets` to which a group belongs if `node` leads it. `None` is NOT_COORDINATOR.
    pub fn offsets_partition_led_by(&self, node: NodeIndex, group_id: &str) -> Option<i32> {
        let offsets = self.offsets.as_ref()?;
        let partition = offsets.partition_of(group_id);
        (offsets.leaders[partition as usize] == node).then_some(partition)
    }
}

impl Epoch for Table {
    fn epoch(&self) -> u64 {
        self.epoch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leadership::assign::leader_of;

    fn table() -> Table {
        let endpoint =
            |host: &str, port| Some(Endpoint { host: host.into(), port, coordinator: EncodedCoordinator::default() });
        Table {
            epoch: 1,
            nodes: (0..2)
                .map(|i| Node {
                    id: 1 + i,
                    endpoints: vec![endpoint("in", 9092 + i as u16), (i == 0).then(|| endpoint("out", 1)).flatten()],
                })
                .collect(),
            brokers: Vec::new(),
            offsets: Some(InternalTopic {
                id: TopicId([1; 16]),
                leaders: (0..50).map(|p| leader_of(p, NodeIndex(0), 2)).collect(),
                leader_epochs: vec![0; 50],
            }),
            transactions: None,
            share_state: None,
        }
    }

    #[test]
    fn a_key_leads_to_the_endpoint_of_its_partitions_leader() {
        let table = table();
        let port = |kind, key, listener| table.look_up(kind, key, listener).map(|endpoint| endpoint.port);
        // "my-group" is in partition 12, "group-id" in 13.
        assert_eq!(port(InternalTopicKind::Offsets, "my-group", 0), Some(9092));
        assert_eq!(port(InternalTopicKind::Offsets, "group-id", 0), Some(9093));
        assert_eq!(port(InternalTopicKind::Offsets, "my-group", 1), Some(1));
        assert_eq!(port(InternalTopicKind::Offsets, "group-id", 1), None);
        assert_eq!(port(InternalTopicKind::Offsets, "my-group", 2), None);
        assert_eq!(port(InternalTopicKind::Transactions, "my-group", 0), None);
    }

    #[test]
    fn only_the_leader_owns_a_group() {
        let table = table();
        assert_eq!(table.offsets_partition_led_by(NodeIndex(0), "my-group"), Some(12));
        assert_eq!(table.offsets_partition_led_by(NodeIndex(1), "my-group"), None);
        assert_eq!(Table { offsets: None, ..table }.offsets_partition_led_by(NodeIndex(0), "my-group"), None);
    }
}

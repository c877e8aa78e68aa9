//! What control shows to the cores: two snapshots, each found by any core at any time in [`Views`]. The bytes that the
//! leadership table carries are encoded here, because `leadership` does not know the wire.

use std::sync::Arc;

use super::state::State;
use crate::ids::{InternalTopicKind, TopicId};
use crate::leadership::{
    EncodedBrokers, EncodedCoordinator, Endpoint, Epoch, Guard, InternalTopic, Node, Published, Table,
};
use crate::topics::{Catalogue, Topic};
use crate::wire::find_coordinator::{Coordinator, FindCoordinatorResponse};
use crate::wire::metadata::MetadataResponseBroker;
use crate::wire::{ApiKey, Uuid, Wire, Writer};

/// Where clients reach a node: by listener index, the advertised host and port.
pub type NodeEndpoints = Vec<(String, u16)>;

/// The newest snapshots; one for the whole machine.
#[derive(Debug)]
pub struct Views {
    table: Published<Table>,
    catalogue: Published<Catalogue>,
}

/// Snapshots that are to be published: whatever they say is durable.
#[derive(Debug)]
pub struct Snapshots {
    /// Always, because every change so far concerns topics.
    pub catalogue: Catalogue,
    /// When an internal topic has come or gone.
    pub table: Option<Table>,
}

impl Views {
    /// With what a start has found.
    pub fn new(table: Table, catalogue: Catalogue) -> Arc<Views> {
        Arc::new(Views { table: Published::new(table), catalogue: Published::new(catalogue) })
    }

    /// Who leads what.
    pub fn table<'g>(&self, guard: &'g Guard) -> &'g Table {
        self.table.load(guard)
    }

    /// The topics that there are.
    pub fn catalogue<'g>(&self, guard: &'g Guard) -> &'g Catalogue {
        self.catalogue.load(guard)
    }

    /// Publishes newer snapshots. The catalogue goes first: a group whose coordinator is named finds its topic.
    ///
    /// # Panics
    /// If they are not newer; control alone publishes, in order.
    pub fn publish(&self, snapshots: Snapshots) {
        assert!(self.catalogue.publish(snapshots.catalogue).is_ok(), "catalogues are published in order");
        if let Some(table) = snapshots.table {
            assert!(self.table.publish(table).is_ok(), "tables are published in order");
        }
    }
}

impl Epoch for Catalogue {
    fn epoch(&self) -> u64 {
        self.epoch()
    }
}

impl From<TopicId> for Uuid {
    fn from(id: TopicId) -> Self {
        Uuid(id.0)
    }
}

impl From<Uuid> for TopicId {
    fn from(id: Uuid) -> Self {
        TopicId(id.0)
    }
}

/// The table that follows from a state; `endpoints` has a row for each node.
pub(super) fn table(epoch: u64, state: &State, endpoints: &[NodeEndpoints]) -> Table {
    let internal =
        |kind: InternalTopicKind| state.catalogue().by_name(kind.topic_name()).map(|topic| internal_topic(topic));
    let node_id = |place: usize| state.first_node_id() + place as i32;
    let listeners = endpoints.first().map_or(0, Vec::len);
    Table {
        epoch,
        nodes: endpoints
            .iter()
            .enumerate()
            .map(|(place, row)| Node {
                id: node_id(place),
                endpoints: row.iter().map(|(host, port)| Some(endpoint(node_id(place), host, *port))).collect(),
            })
            .collect(),
        brokers: (0..listeners)
            .map(|listener| {
                let row = |(place, row): (usize, &NodeEndpoints)| (node_id(place), row[listener].clone());
                brokers(&endpoints.iter().enumerate().map(row).collect::<Vec<_>>())
            })
            .collect(),
        offsets: internal(InternalTopicKind::Offsets),
        transactions: internal(InternalTopicKind::Transactions),
        share_state: internal(InternalTopicKind::ShareState),
    }
}

/// The internal topics that a table knows; another table is due when these change.
pub(super) fn internal_ids(state: &State) -> [Option<TopicId>; 3] {
    InternalTopicKind::ALL.map(|kind| state.catalogue().by_name(kind.topic_name()).map(|topic| topic.id))
}

fn internal_topic(topic: &Topic) -> InternalTopic {
    InternalTopic {
        id: topic.id,
        leaders: topic.partitions.iter().map(|partition| partition.leader).collect(),
        leader_epochs: topic.partitions.iter().map(|partition| partition.leader_epoch).collect(),
    }
}

fn endpoint(node_id: i32, host: &str, port: u16) -> Endpoint {
    let single = |version: i16| {
        let answer = FindCoordinatorResponse {
            error_message: Some("NONE".into()),
            node_id,
            host: host.into(),
            port: port.into(),
            ..Default::default()
        };
        encode(&answer, ApiKey::FindCoordinator, version)
    };
    let row = Coordinator { node_id, host: host.into(), port: port.into(), ..Default::default() };
    let row = encode(&row, ApiKey::FindCoordinator, 4);
    Endpoint {
        host: host.into(),
        port,
        coordinator: EncodedCoordinator {
            v0: single(0),
            v1: single(1),
            v3: single(3),
            // Without the key, which is empty here and so one byte.
            v4_row: row[1..].into(),
        },
    }
}

fn brokers(nodes: &[(i32, (String, u16))]) -> EncodedBrokers {
    let rows = |version: i16| {
        let mut bytes = Vec::new();
        for (node_id, (host, port)) in nodes {
            let row = MetadataResponseBroker {
                node_id: *node_id,
                host: host.into(),
                port: (*port).into(),
                ..Default::default()
            };
            bytes.extend(encode(&row, ApiKey::Metadata, version));
        }
        bytes.into()
    };
    EncodedBrokers { len: nodes.len(), v0: rows(0), v1: rows(1), v9: rows(9) }
}

fn encode<'a>(message: &impl Wire<'a>, api: ApiKey, version: i16) -> Box<[u8]> {
    let mut bytes = Vec::new();
    message.write(&mut Writer::new(&mut bytes), api.version(version));
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::record::Record;
    use crate::wire::Cursor;

    fn two_nodes() -> Table {
        let mut state = State::new(10);
        state.apply(&Record::Cluster { id: [1; 16], first_node_id: 7 });
        state.apply(&Record::Nodes { count: 2, generation: 0 });
        let node = |node: u16| vec![("in".to_string(), 9092 + node), ("out.example".to_string(), 19092 + node)];
        table(3, &state, &[node(0), node(1)])
    }

    fn read<'a, T: Wire<'a>>(bytes: &'a [u8], api: ApiKey, version: i16) -> (T, usize) {
        let mut cursor = Cursor::new(bytes);
        let message = T::read(&mut cursor, api.version(version)).expect("well formed");
        (message, cursor.remaining())
    }

    #[test]
    fn the_encoded_answers_name_node_host_and_port_in_every_version() {
        let table = two_nodes();
        let endpoint = table.nodes[1].endpoints[1].as_ref().expect("an endpoint");
        let coordinator = &endpoint.coordinator;
        for version in 0..=3 {
            let bytes = match version {
                0 => &coordinator.v0,
                1 | 2 => &coordinator.v1,
                _ => &coordinator.v3,
            };
            let (answer, rest) = read::<FindCoordinatorResponse<'_>>(bytes, ApiKey::FindCoordinator, version);
            assert_eq!((answer.error_code, answer.node_id, &*answer.host, answer.port), (0, 8, "out.example", 19093));
            assert_eq!(answer.error_message.as_deref(), Some(if version == 0 { "" } else { "NONE" }));
            assert_eq!(rest, 0, "v{version}");
        }
        for version in 4..=6 {
            let bytes = [b"\x04key", &coordinator.v4_row[..]].concat();
            let (row, rest) = read::<Coordinator<'_>>(&bytes, ApiKey::FindCoordinator, version);
            assert_eq!(
                (&*row.key, row.error_code, row.node_id, &*row.host, row.port),
                ("key", 0, 8, "out.example", 19093)
            );
            assert_eq!((row.error_message.as_deref(), rest), (Some(""), 0), "v{version}");
        }
    }

    #[test]
    fn the_encoded_brokers_are_all_nodes_of_a_listener() {
        let table = two_nodes();
        assert_eq!(table.brokers.len(), 2);
        for version in 0..=13 {
            let mut bytes = match version {
                0 => &table.brokers[0].v0[..],
                1..=8 => &table.brokers[0].v1[..],
                _ => &table.brokers[0].v9[..],
            };
            for node in 0..table.brokers[0].len as i32 {
                let (row, rest) = read::<MetadataResponseBroker<'_>>(bytes, ApiKey::Metadata, version);
                assert_eq!((row.node_id, &*row.host, row.port, row.rack), (7 + node, "in", 9092 + node, None));
                bytes = &bytes[bytes.len() - rest..];
            }
            assert!(bytes.is_empty(), "v{version}");
        }
    }
}

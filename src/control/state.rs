//! What the control log adds up to. [`State::apply`] is the only way in, for a record that has just been made and for one
//! that is read back at a start. The catalogue of topics is kept beside the facts; who leads a partition follows from the
//! topic and the nodes that there are, so a start with another number of cores leads everything anew and keeps all ids.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::record::{Record, TopicRecord};
use crate::ids::{InternalTopicKind, NodeIndex, TopicId};
use crate::leadership::assign::{first_leader_of, leader_of};
use crate::topics::configs::RECORDS_KEY;
use crate::topics::{Catalogue, Partition, Topic};

/// The facts, and the catalogue that follows from them.
#[derive(Clone, Debug, Default)]
pub struct State {
    cluster_id: [u8; 16],
    first_node_id: i32,
    nodes: u16,
    /// How often the number of nodes has changed.
    generation: u32,
    topics: HashMap<TopicId, TopicRecord, FxBuildHasher>,
    catalogue: Catalogue,
    default_records: i64,
}

impl State {
    /// Nothing yet. Topics without a setting of their own hold `default_records` records in each partition.
    pub fn new(default_records: i64) -> Self {
        State { default_records, ..State::default() }
    }

    /// All zero until there is one.
    pub fn cluster_id(&self) -> [u8; 16] {
        self.cluster_id
    }

    /// The node id of core 0.
    pub fn first_node_id(&self) -> i32 {
        self.first_node_id
    }

    /// The number of nodes; 0 until it has been said.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Grows when the number of nodes changes.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// All topics.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The place of a node by its node id.
    pub fn node_index(&self, node_id: i32) -> Option<NodeIndex> {
        let place = u16::try_from(node_id.checked_sub(self.first_node_id)?).ok()?;
        (place < self.nodes).then_some(NodeIndex(place))
    }

    /// Takes a fact in.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Cluster { id, first_node_id } => {
                self.cluster_id = *id;
                self.first_node_id = *first_node_id;
            }
            Record::Nodes { count, generation } => {
                (self.nodes, self.generation) = (*count, *generation);
                let topics: Vec<Topic> = self.topics.values().map(|topic| self.lead(topic)).collect();
                for topic in topics {
                    self.catalogue.remove(topic.id);
                    self.catalogue.insert(topic);
                }
            }
            Record::Topic(topic) => {
                self.catalogue.insert(self.lead(topic));
                self.topics.insert(topic.id, topic.clone());
            }
            Record::TopicDeleted { id } => {
                self.topics.remove(id);
                self.catalogue.remove(*id);
            }
        }
    }

    /// What takes a change of the topics back that is about to be applied.
    ///
    /// # Panics
    /// On the deletion of a topic that is not there, and on what concerns no topic: that is only said at a start.
    pub fn reverse_of(&self, change: &Record) -> Record {
        match change {
            Record::Topic(topic) => Record::TopicDeleted { id: topic.id },
            Record::TopicDeleted { id } => Record::Topic(self.topics[id].clone()),
            Record::Cluster { .. } | Record::Nodes { .. } => unreachable!("no topic in {change:?}"),
        }
    }

    /// What to record when there are `count` nodes now; nothing if that is not new.
    pub fn nodes_record(&self, count: u16) -> Option<Record> {
        let generation = self.generation + (self.nodes != 0) as u32;
        (self.nodes != count).then_some(Record::Nodes { count, generation })
    }

    /// The fewest records that add up to this state.
    pub fn records(&self) -> Vec<Record> {
        let mut topics: Vec<&TopicRecord> = self.topics.values().collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        let head = [
            Record::Cluster { id: self.cluster_id, first_node_id: self.first_node_id },
            Record::Nodes { count: self.nodes, generation: self.generation },
        ];
        head.into_iter().chain(topics.into_iter().cloned().map(Record::Topic)).collect()
    }

    fn lead(&self, topic: &TopicRecord) -> Topic {
        let nodes = self.nodes.max(1);
        // The records of groups lie where the rule says: it alone counts for the topics that they belong to.
        let (first, assigned_leaders) = match InternalTopicKind::of_topic_name(&topic.name) {
            Some(_) => (NodeIndex(0), &[][..]),
            None => (first_leader_of(topic.id, nodes), &topic.assigned_leaders[..]),
        };
        let leader = |partition: u32| {
            let assigned = assigned_leaders.get(partition as usize);
            let assigned = assigned.and_then(|&node_id| self.node_index(node_id));
            assigned.unwrap_or_else(|| leader_of(partition as i32, first, nodes))
        };
        let leader_epoch = self.generation.saturating_sub(topic.created_generation) as i32;
        let own_records = topic.configs.get(RECORDS_KEY).and_then(|value| value.trim().parse().ok());
        Topic {
            name: topic.name.clone(),
            id: topic.id,
            replication_factor: topic.replication_factor,
            partitions: (0..topic.partitions).map(|p| Partition { leader: leader(p), leader_epoch }).collect(),
            configs: topic.configs.clone(),
            records: match InternalTopicKind::of_topic_name(&topic.name) {
                Some(_) => 0,
                None => own_records.unwrap_or(self.default_records),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, id: u8, partitions: u32) -> TopicRecord {
        TopicRecord {
            id: TopicId([id; 16]),
            name: name.into(),
            partitions,
            replication_factor: 1,
            created_generation: 0,
            assigned_leaders: Vec::new(),
            configs: Default::default(),
        }
    }

    fn state(nodes: u16) -> State {
        let mut state = State::new(1_000);
        state.apply(&Record::Cluster { id: [9; 16], first_node_id: 1 });
        state.apply(&Record::Nodes { count: nodes, generation: 0 });
        state
    }

    fn leaders(state: &State, name: &str) -> Vec<(u16, i32)> {
        let topic = state.catalogue().by_name(name).expect("the topic");
        topic.partitions.iter().map(|partition| (partition.leader.0, partition.leader_epoch)).collect()
    }

    #[test]
    fn partitions_are_led_in_turn_and_anew_by_other_nodes() {
        let mut state = state(2);
        state.apply(&Record::Topic(topic("__consumer_offsets", 1, 4)));
        state.apply(&Record::Topic(topic("t", 3, 3)));
        assert_eq!(leaders(&state, "__consumer_offsets"), [(0, 0), (1, 0), (0, 0), (1, 0)]);
        assert_eq!(leaders(&state, "t"), [(1, 0), (0, 0), (1, 0)]);
        assert_eq!(state.nodes_record(2), None);
        let more = state.nodes_record(3).expect("another number");
        state.apply(&more);
        assert_eq!(leaders(&state, "__consumer_offsets"), [(0, 1), (1, 1), (2, 1), (0, 1)]);
        state.apply(&Record::Topic(TopicRecord { created_generation: state.generation(), ..topic("new", 4, 1) }));
        assert_eq!(leaders(&state, "new")[0].1, 0, "a new topic begins at epoch 0");
    }

    #[test]
    fn assigned_leaders_hold_while_their_nodes_are_there() {
        let mut state = state(3);
        state.apply(&Record::Topic(TopicRecord { assigned_leaders: vec![3, 3, 2], ..topic("t", 6, 3) }));
        assert_eq!(leaders(&state, "t"), [(2, 0), (2, 0), (1, 0)]);
        let fewer = state.nodes_record(2).expect("another number");
        state.apply(&fewer);
        assert!(leaders(&state, "t").iter().all(|&(leader, epoch)| leader < 2 && epoch == 1));
    }

    /// The journal's streams go by the rule, so an internal topic's leaders must.
    #[test]
    fn internal_topics_are_led_by_the_rule_whatever_was_assigned() {
        let mut state = state(2);
        let assigned_leaders = vec![2, 2, 1];
        state.apply(&Record::Topic(TopicRecord { assigned_leaders, ..topic("__consumer_offsets", 1, 3) }));
        assert_eq!(leaders(&state, "__consumer_offsets"), [(0, 0), (1, 0), (0, 0)]);
        let more = state.nodes_record(3).expect("another number");
        state.apply(&more);
        assert_eq!(leaders(&state, "__consumer_offsets"), [(0, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn records_of_a_state_add_up_to_it() {
        let mut state = state(2);
        for (name, id) in [("b", 1), ("a", 2), ("gone", 3)] {
            state.apply(&Record::Topic(topic(name, id, 2)));
        }
        state.apply(&Record::TopicDeleted { id: TopicId([3; 16]) });
        let more = state.nodes_record(4).expect("another number");
        state.apply(&more);
        let mut again = State::new(1_000);
        state.records().iter().for_each(|record| again.apply(record));
        assert_eq!(again.records(), state.records());
        assert_eq!(again.cluster_id(), [9; 16]);
        let topics = |state: &State| state.catalogue().topics().cloned().collect::<Vec<_>>();
        assert_eq!(topics(&again), topics(&state));
        assert_eq!(topics(&again).len(), 2);
    }

    #[test]
    fn records_per_partition_come_from_the_topic_or_the_server() {
        let mut state = state(1);
        let configs = [(RECORDS_KEY.into(), "7".into())].into();
        state.apply(&Record::Topic(TopicRecord { configs, ..topic("own", 1, 1) }));
        state.apply(&Record::Topic(topic("default", 2, 1)));
        state.apply(&Record::Topic(topic("__consumer_offsets", 3, 1)));
        let records = |name| state.catalogue().by_name(name).map(|topic| topic.records);
        assert_eq!(records("own"), Some(7));
        assert_eq!(records("default"), Some(1_000));
        assert_eq!(records("__consumer_offsets"), Some(0));
    }

    #[test]
    fn node_ids_count_from_the_first() {
        let state = state(2);
        assert_eq!(
            [0, 1, 2, 3, i32::MIN, i32::MAX].map(|id| state.node_index(id).map(|node| node.0)),
            [None, Some(0), Some(1), None, None, None]
        );
    }
}

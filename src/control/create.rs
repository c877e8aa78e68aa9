//! May this topic be created, and as what? The rules of CreateTopics, in Kafka's order. Says only yes or no: what is
//! recorded and when it is answered is the business of [`super::machine`].

use super::record::TopicRecord;
use super::request::{NewAssignment, NewTopic};
use super::state::State;
use crate::config::{InternalTopicSettings, Settings};
use crate::errors::ErrorCode;
use crate::ids::{InternalTopicKind, TopicId};
use crate::limits::{CREATE_PARTITIONS_MAX, PARTITIONS_MAX, TOPIC_CONFIGS_MAX_BYTES, TOPICS_MAX};
use crate::topics::{configs, name};

/// Why not; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kafka's code.
    pub error_code: ErrorCode,
    /// One sentence.
    pub message: String,
}

fn refuse<T>(error_code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { error_code, message: message.into() })
}

/// Kafka's own topic of the controllers; nobody may create it.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// What is used where a request says -1.
#[derive(Clone, Debug)]
pub struct Defaults {
    num_partitions: i32,
    replication_factor: i16,
    offsets: InternalTopicSettings,
    transactions: InternalTopicSettings,
    share_state: InternalTopicSettings,
}

impl Defaults {
    /// As the server is set.
    pub fn new(settings: &Settings) -> Self {
        Defaults {
            num_partitions: settings.num_partitions,
            replication_factor: settings.default_replication_factor,
            offsets: settings.offsets_topic.clone(),
            transactions: settings.transaction_topic.clone(),
            share_state: settings.share_state_topic.clone(),
        }
    }

    /// What to create when an internal topic is needed, with the configs that Kafka gives it.
    pub fn internal_topic(&self, kind: InternalTopicKind) -> NewTopic {
        let (settings, configs): (_, &[(&str, &str)]) = match kind {
            InternalTopicKind::Offsets => (
                &self.offsets,
                &[("cleanup.policy", "compact"), ("compression.type", "producer"), ("segment.bytes", "104857600")],
            ),
            InternalTopicKind::Transactions => (
                &self.transactions,
                &[("cleanup.policy", "compact"), ("compression.type", "uncompressed"), ("segment.bytes", "104857600")],
            ),
            InternalTopicKind::ShareState => (
                &self.share_state,
                &[("cleanup.policy", "delete"), ("retention.ms", "-1"), ("segment.bytes", "104857600")],
            ),
        };
        NewTopic {
            name: kind.topic_name().into(),
            num_partitions: settings.partitions,
            replication_factor: settings.replication_factor,
            assignments: Vec::new(),
            configs: configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect(),
        }
    }

    /// What to create when Metadata names a topic that does not exist.
    pub fn auto_topic(&self, name: &str) -> NewTopic {
        match InternalTopicKind::of_topic_name(name) {
            Some(kind) => self.internal_topic(kind),
            None => NewTopic { name: name.into(), num_partitions: -1, replication_factor: -1, ..NewTopic::default() },
        }
    }
}

/// Whether all topics of a request together ask for too many partitions; it is refused as a whole then.
pub fn check_total<'a>(topics: impl Iterator<Item = &'a NewTopic>, defaults: &Defaults) -> Result<(), Refusal> {
    let partitions = |topic: &NewTopic| match topic.num_partitions {
        -1 if topic.assignments.is_empty() => defaults.num_partitions as usize,
        -1 => topic.assignments.len(),
        count => usize::try_from(count).unwrap_or(0),
    };
    let total = topics.map(partitions).fold(0usize, usize::saturating_add);
    if total > CREATE_PARTITIONS_MAX {
        let message = format!("{total} partitions in one request, at most {CREATE_PARTITIONS_MAX} are allowed");
        return refuse(ErrorCode::POLICY_VIOLATION, message);
    }
    Ok(())
}

/// What would be recorded of a new topic.
pub fn validate(topic: &NewTopic, id: TopicId, state: &State, defaults: &Defaults) -> Result<TopicRecord, Refusal> {
    check_name(&topic.name, state)?;
    let null = topic.configs.iter().find(|(_, value)| value.is_none());
    if let Some((key, _)) = null {
        return refuse(ErrorCode::INVALID_CONFIG, format!("{key} may not be null"));
    }
    let placement = if topic.assignments.is_empty() {
        place_in_turn(topic, state, defaults)?
    } else {
        place_as_assigned(topic, state)?
    };
    check_configs(&topic.configs)?;
    let catalogue = state.catalogue();
    if catalogue.len() >= TOPICS_MAX || catalogue.partitions() + placement.partitions as usize > PARTITIONS_MAX {
        let message = format!("at most {TOPICS_MAX} topics with {PARTITIONS_MAX} partitions in all are allowed");
        return refuse(ErrorCode::POLICY_VIOLATION, message);
    }
    Ok(TopicRecord {
        id,
        name: topic.name.as_str().into(),
        partitions: placement.partitions,
        replication_factor: placement.replication_factor,
        created_generation: state.generation(),
        assigned_leaders: placement.assigned_leaders,
        // A key that is given twice has its last value, as in Kafka.
        configs: topic
            .configs
            .iter()
            .filter_map(|(key, value)| Some((key.as_str().into(), value.as_deref()?.into())))
            .collect(),
    })
}

fn check_name(name: &str, state: &State) -> Result<(), Refusal> {
    if name == METADATA_TOPIC {
        return refuse(ErrorCode::INVALID_REQUEST, format!("{METADATA_TOPIC} cannot be created"));
    }
    if !name::is_legal(name) {
        return refuse(
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            "a topic name has 1 to 249 letters, digits, dots, underscores and dashes, and is not . or ..",
        );
    }
    if state.catalogue().by_name(name).is_some() {
        return refuse(ErrorCode::TOPIC_ALREADY_EXISTS, format!("topic {name} exists"));
    }
    if state.catalogue().collides(name) {
        let message = format!("{name} differs from an existing topic only in dots and underscores");
        return refuse(ErrorCode::INVALID_TOPIC_EXCEPTION, message);
    }
    Ok(())
}

fn check_configs(configs: &[(String, Option<String>)]) -> Result<(), Refusal> {
    let bytes: usize = configs.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, String::len)).sum();
    if bytes > TOPIC_CONFIGS_MAX_BYTES {
        let message = format!("configs of {bytes} bytes, at most {TOPIC_CONFIGS_MAX_BYTES} are allowed");
        return refuse(ErrorCode::INVALID_CONFIG, message);
    }
    let pairs = configs.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
    configs::validate(pairs).or_else(|message| refuse(ErrorCode::INVALID_CONFIG, message))
}

struct Placement {
    partitions: u32,
    replication_factor: i16,
    assigned_leaders: Vec<i32>,
}

fn place_in_turn(topic: &NewTopic, state: &State, defaults: &Defaults) -> Result<Placement, Refusal> {
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        let message = "the replication factor must be above 0, or -1 for the default";
        return refuse(ErrorCode::INVALID_REPLICATION_FACTOR, message);
    }
    if topic.num_partitions < -1 || topic.num_partitions == 0 {
        let message = "the number of partitions must be above 0, or -1 for the default";
        return refuse(ErrorCode::INVALID_PARTITIONS, message);
    }
    let or_default = |asked: i32, default: i32| if asked == -1 { default } else { asked };
    let partitions = or_default(topic.num_partitions, defaults.num_partitions);
    let replication_factor = or_default(topic.replication_factor.into(), defaults.replication_factor.into());
    if replication_factor > state.nodes().into() {
        let message = format!("a replication factor of {replication_factor} needs more than {} nodes", state.nodes());
        return refuse(ErrorCode::INVALID_REPLICATION_FACTOR, message);
    }
    Ok(Placement {
        partitions: partitions as u32,
        replication_factor: replication_factor as i16,
        assigned_leaders: Vec::new(),
    })
}

fn place_as_assigned(topic: &NewTopic, state: &State) -> Result<Placement, Refusal> {
    if topic.replication_factor != -1 || topic.num_partitions != -1 {
        let message = "with assignments, the number of partitions and the replication factor must be -1";
        return refuse(ErrorCode::INVALID_REQUEST, message);
    }
    let mut assignments: Vec<&NewAssignment> = topic.assignments.iter().collect();
    assignments.sort_by_key(|assignment| assignment.partition_index);
    let factor = assignments[0].broker_ids.len();
    let mut assigned_leaders = Vec::with_capacity(assignments.len());
    for (expected, assignment) in assignments.into_iter().enumerate() {
        let wrong = |what: &str| {
            let message = format!("partition {}: {what}", assignment.partition_index);
            refuse(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message)
        };
        if assignment.partition_index as i64 != expected as i64 {
            return wrong("partitions must be 0, 1, 2 and so on, each once");
        }
        let brokers = &assignment.broker_ids;
        let Some(&leader) = brokers.first() else {
            return wrong("no broker");
        };
        if brokers.iter().any(|&broker| state.node_index(broker).is_none()) {
            return wrong("an unknown broker");
        }
        let mut distinct = brokers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != brokers.len() {
            return wrong("a broker is given twice");
        }
        if brokers.len() != factor {
            return wrong("another number of brokers than partition 0");
        }
        assigned_leaders.push(leader);
    }
    Ok(Placement { partitions: assigned_leaders.len() as u32, replication_factor: factor as i16, assigned_leaders })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::record::Record;

    const ID: TopicId = TopicId([5; 16]);

    fn state() -> State {
        let mut state = State::new(10);
        state.apply(&Record::Cluster { id: [1; 16], first_node_id: 1 });
        state.apply(&Record::Nodes { count: 2, generation: 0 });
        let existing = validate(&topic("pr.obe_", 1, 1), TopicId([9; 16]), &state, &defaults());
        state.apply(&Record::Topic(existing.expect("a good topic")));
        state
    }

    fn defaults() -> Defaults {
        Defaults::new(&Settings { num_partitions: 4, ..Settings::default() })
    }

    fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> NewTopic {
        NewTopic { name: name.into(), num_partitions, replication_factor, ..NewTopic::default() }
    }

    fn answer(topic: &NewTopic) -> Result<TopicRecord, i16> {
        validate(topic, ID, &state(), &defaults()).map_err(|refusal| refusal.error_code.0)
    }

    fn assigned(rows: &[(i32, &[i32])]) -> NewTopic {
        let row = |&(partition_index, ids): &(i32, &[i32])| NewAssignment { partition_index, broker_ids: ids.to_vec() };
        NewTopic { assignments: rows.iter().map(row).collect(), ..topic("z", -1, -1) }
    }

    #[test]
    fn names() {
        for (name, code) in
            [("", 17), ("..", 17), ("bad name", 17), ("pr_obe.", 17), ("pr.obe_", 36), (METADATA_TOPIC, 42)]
        {
            assert_eq!(answer(&topic(name, 1, 1)), Err(code), "{name:?}");
        }
        assert_eq!(answer(&topic("pr-obe", 1, 1)).map(|topic| topic.name), Ok("pr-obe".into()));
    }

    #[test]
    fn counts_and_factors() {
        for (partitions, factor, code) in
            [(0, 1, 37), (-2, 1, 37), (1, 0, 38), (1, -2, 38), (1, 3, 38), (1, 30, 38), (0, 0, 38)]
        {
            assert_eq!(answer(&topic("z", partitions, factor)), Err(code), "{partitions} {factor}");
        }
        for (partitions, factor, expected) in [(-1, -1, (4, 1)), (3, 2, (3, 2)), (1, -1, (1, 1))] {
            let made =
                answer(&topic("z", partitions, factor)).map(|topic| (topic.partitions, topic.replication_factor));
            assert_eq!(made, Ok(expected));
        }
    }

    #[test]
    fn assignments() {
        assert_eq!(answer(&NewTopic { num_partitions: 1, ..assigned(&[(0, &[1])]) }), Err(42));
        assert_eq!(answer(&NewTopic { replication_factor: 1, ..assigned(&[(0, &[1])]) }), Err(42));
        let bad: [&[(i32, &[i32])]; 8] = [
            &[(1, &[1])],
            &[(0, &[])],
            &[(0, &[77])],
            &[(0, &[0])],
            &[(0, &[1, 1])],
            &[(0, &[1]), (0, &[1])],
            &[(-1, &[1]), (0, &[1])],
            &[(0, &[1]), (1, &[1, 2])],
        ];
        for rows in bad {
            assert_eq!(answer(&assigned(rows)), Err(39), "{rows:?}");
        }
        let made = answer(&assigned(&[(1, &[2, 1]), (0, &[1, 2])])).expect("a good topic");
        assert_eq!((made.partitions, made.replication_factor, made.assigned_leaders), (2, 2, vec![1, 2]));
    }

    #[test]
    fn configs_are_checked_and_kept() {
        let with = |pairs: &[(&str, Option<&str>)]| NewTopic {
            configs: pairs.iter().map(|(key, value)| (key.to_string(), value.map(Into::into))).collect(),
            ..topic("z", 1, 1)
        };
        for bad in [("no.such.key", Some("1")), ("retention.ms", Some("soon")), ("retention.ms", None)] {
            assert_eq!(answer(&with(&[bad])), Err(40), "{bad:?}");
        }
        let made = answer(&with(&[("retention.ms", Some("1")), ("retention.ms", Some("2"))])).expect("a good topic");
        assert_eq!(made.configs, [("retention.ms".into(), "2".into())].into());
    }

    #[test]
    fn configs_at_their_limit() {
        let key = "follower.replication.throttled.replicas";
        let with = |bytes: usize| NewTopic {
            configs: vec![(key.into(), Some(" ".repeat(bytes - key.len())))],
            ..topic("z", 1, 1)
        };
        assert!(answer(&with(TOPIC_CONFIGS_MAX_BYTES)).is_ok());
        assert_eq!(answer(&with(TOPIC_CONFIGS_MAX_BYTES + 1)), Err(40));
    }

    #[test]
    fn partitions_of_a_request_at_their_limit() {
        let total =
            |topics: &[NewTopic]| check_total(topics.iter(), &defaults()).map_err(|refusal| refusal.error_code.0);
        let most = CREATE_PARTITIONS_MAX as i32;
        assert_eq!(
            total(&[topic("a", most - 5, 1), topic("b", -1, 1), assigned(&[(0, &[1])]), topic("c", -7, 1)]),
            Ok(())
        );
        assert_eq!(total(&[topic("a", most - 4, 1), topic("b", -1, 1), assigned(&[(0, &[1])])]), Err(44));
        assert_eq!(total(&[topic("a", i32::MAX, 1), topic("b", i32::MAX, 1)]), Err(44));
    }

    #[test]
    fn topics_and_partitions_at_their_limit() {
        let mut state = State::new(10);
        state.apply(&Record::Nodes { count: 1, generation: 0 });
        let record = validate(&topic("wide", 1, 1), ID, &state, &defaults()).expect("a good topic");
        state.apply(&Record::Topic(TopicRecord { partitions: PARTITIONS_MAX as u32 - 2, ..record }));
        let code = |state: &State, partitions| {
            validate(&topic("z", partitions, 1), TopicId([6; 16]), state, &defaults()).err().map(|r| r.error_code.0)
        };
        assert_eq!((code(&state, 2), code(&state, 3)), (None, Some(44)));

        let mut state = State::new(10);
        state.apply(&Record::Nodes { count: 1, generation: 0 });
        let record = validate(&topic("t", 1, 1), ID, &state, &defaults()).expect("a good topic");
        for number in 0..TOPICS_MAX {
            assert_eq!(code(&state, 1), None, "with {number} topics");
            let id = TopicId((number as u128 + 1).to_be_bytes());
            let name = format!("t{number}").into();
            state.apply(&Record::Topic(TopicRecord { id, name, ..record.clone() }));
        }
        assert_eq!(code(&state, 1), Some(44));
    }

    #[test]
    fn internal_topics_have_their_own_settings() {
        let settings = Settings {
            offsets_topic: InternalTopicSettings { partitions: 9, replication_factor: 1 },
            transaction_topic: InternalTopicSettings { partitions: 7, replication_factor: 30 },
            ..Settings::default()
        };
        let defaults = Defaults::new(&settings);
        let made = |name| validate(&defaults.auto_topic(name), ID, &state(), &defaults).map_err(|r| r.error_code.0);
        assert_eq!(made("__consumer_offsets").map(|topic| topic.partitions), Ok(9));
        assert_eq!(made("__transaction_state"), Err(38));
        assert_eq!(made("__share_group_state").map(|topic| topic.partitions), Ok(50));
        assert_eq!(made("other").map(|topic| topic.partitions), Ok(1));
    }
}

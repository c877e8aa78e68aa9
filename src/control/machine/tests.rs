//! The machine, driven as a core drives it, over a log in memory.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::*;
use crate::config::{DeclaredTopic, InternalTopicSettings};
use crate::control::log::replay;
use crate::ids::InternalTopicKind;
use crate::leadership::pin;

/// The owner with a log in memory and views, as a core drives it.
struct World {
    control: Control,
    views: std::sync::Arc<Views>,
    log: Vec<u8>,
}

const TAG: Tag = Tag { core: 1, token: 7 };

fn endpoints(nodes: u16) -> Vec<NodeEndpoints> {
    (0..nodes).map(|node| vec![("in".into(), 9092 + node), ("out".into(), 19092 + node)]).collect()
}

fn random_ids(seed: u64) -> RandomIds {
    let mut random = SmallRng::seed_from_u64(seed);
    Box::new(move || random.random())
}

impl World {
    fn start(log: &[u8], settings: &Settings, nodes: u16) -> World {
        let replayed = replay(log).expect("a good log");
        let mut log = log[..replayed.end as usize].to_vec();
        let (control, frame) =
            Control::start(&replayed, settings, endpoints(nodes), random_ids(log.len() as u64)).expect("a start");
        log.extend(frame);
        World { views: control.views(), control, log }
    }

    fn new(settings: &Settings) -> World {
        World::start(FILE_HEADER, settings, 2)
    }

    /// Does what outputs say, but for the write.
    fn take(&mut self, outputs: Outputs) -> (Vec<(Tag, Reply)>, Option<Append>) {
        if let Some(snapshots) = outputs.snapshots {
            self.views.publish(snapshots);
        }
        (outputs.replies, outputs.append)
    }

    fn handle(&mut self, request: Request) -> (Vec<(Tag, Reply)>, Option<Append>) {
        let outputs = self.control.handle(request, TAG);
        self.take(outputs)
    }

    fn write(&mut self, append: &Append) {
        assert_eq!(append.offset, self.log.len() as u64, "writes go to the end");
        self.log.extend_from_slice(&append.bytes);
    }

    fn synced(&mut self, append: Append) -> (Vec<(Tag, Reply)>, Option<Append>) {
        self.write(&append);
        let outputs = self.control.synced(append.token, Ok(()));
        self.take(outputs)
    }

    /// A request from beginning to end.
    fn ask(&mut self, request: Request) -> Reply {
        let (mut replies, mut append) = self.handle(request);
        while let Some(write) = append {
            assert!(replies.is_empty(), "nothing is told before it is durable");
            (replies, append) = self.synced(write);
        }
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].0, TAG);
        replies.remove(0).1
    }

    fn names(&self) -> Vec<String> {
        self.views.catalogue(&pin()).topics().map(|topic| topic.name.to_string()).collect()
    }

    fn leaders(&self, kind: InternalTopicKind) -> Option<Vec<u16>> {
        let guard = pin();
        self.views.table(&guard).internal(kind).map(|topic| topic.leaders.iter().map(|leader| leader.0).collect())
    }

    fn table_epoch(&self) -> u64 {
        self.views.table(&pin()).epoch
    }
}

fn create(names: &[&str]) -> Request {
    let topic = |name: &&str| NewTopic {
        name: name.to_string(),
        num_partitions: 3,
        replication_factor: 1,
        ..NewTopic::default()
    };
    let topics = names.iter().map(topic).collect();
    Request::CreateTopics(CreateTopics { topics, timeout_ms: 1_000, validate_only: false })
}

fn delete(topics: Vec<TopicReference>) -> Request {
    Request::DeleteTopics(DeleteTopics { topics, timeout_ms: 1_000 })
}

fn codes(reply: &Reply) -> Vec<i16> {
    match reply {
        Reply::CreatedTopics(topics) => topics.iter().map(|topic| topic.error_code.0).collect(),
        Reply::DeletedTopics(topics) => topics.iter().map(|topic| topic.error_code.0).collect(),
        Reply::AutoCreated { .. } | Reply::CreatedInternal(_) => panic!("no codes in {reply:?}"),
    }
}

#[test]
fn the_offsets_topic_is_shown_once_it_is_durable() {
    let mut world = World::new(&Settings::default());
    assert_eq!(world.leaders(InternalTopicKind::Offsets), None);
    let (replies, append) = world.handle(Request::CreateInternal(InternalTopicKind::Offsets));
    assert_eq!((replies.len(), world.leaders(InternalTopicKind::Offsets)), (0, None));
    let (replies, append) = world.synced(append.expect("a creation is written"));
    assert_eq!((replies, append), (vec![(TAG, Reply::CreatedInternal(InternalTopicKind::Offsets))], None));
    let leaders: Vec<u16> = (0..50).map(|partition| partition % 2).collect();
    assert_eq!(world.leaders(InternalTopicKind::Offsets), Some(leaders));
    assert_eq!(world.leaders(InternalTopicKind::Transactions), None);
    assert_eq!(world.names(), ["__consumer_offsets"]);
}

#[test]
fn what_is_asked_for_twice_is_created_once() {
    let mut world = World::new(&Settings::default());
    let (_, append) = world.handle(Request::CreateInternal(InternalTopicKind::Offsets));
    for request in [
        Request::CreateInternal(InternalTopicKind::Offsets),
        Request::AutoCreate { names: vec!["__consumer_offsets".into()] },
    ] {
        assert_eq!(world.handle(request), (vec![], None), "it waits for the write under way");
    }
    let (replies, append) = world.synced(append.expect("a creation is written"));
    assert_eq!((replies.len(), append), (3, None));
    assert_eq!(world.names().len(), 1);
}

#[test]
fn a_factor_above_the_nodes_is_refused_each_time() {
    let offsets_topic = InternalTopicSettings { partitions: 50, replication_factor: 30 };
    let mut world = World::new(&Settings { offsets_topic, ..Settings::default() });
    for _ in 0..3 {
        let reply = world.ask(Request::CreateInternal(InternalTopicKind::Offsets));
        assert_eq!(reply, Reply::CreatedInternal(InternalTopicKind::Offsets));
        assert_eq!(world.leaders(InternalTopicKind::Offsets), None);
    }
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn what_comes_during_a_write_goes_with_the_next_one() {
    let mut world = World::new(&Settings::default());
    let (replies, first) = world.handle(create(&["a"]));
    assert!(replies.is_empty());
    for name in ["b", "c"] {
        assert_eq!(world.handle(create(&[name])), (vec![], None));
    }
    assert_eq!(world.handle(create(&["a"])), (vec![], None), "that it exists is not durable yet");
    let (replies, second) = world.synced(first.expect("a write"));
    assert_eq!(replies.iter().map(|(_, reply)| codes(reply)).collect::<Vec<_>>(), [[0]]);
    assert_eq!(world.names(), ["a"], "only what is durable is shown");
    let (replies, third) = world.synced(second.expect("a write of what was collected"));
    assert_eq!(replies.iter().map(|(_, reply)| codes(reply)).collect::<Vec<_>>(), [[0], [0], [36]]);
    assert_eq!(world.names(), ["a", "b", "c"]);
    assert_eq!(third, None);
}

#[test]
fn topics_of_one_request_are_answered_each() {
    let mut world = World::new(&Settings::default());
    let reply = world.ask(create(&["a", "bad name", "a.b", "a_b"]));
    assert_eq!(codes(&reply), [0, 17, 0, 17]);
    let Reply::CreatedTopics(topics) = reply else { panic!("another reply") };
    assert_eq!((topics[0].num_partitions, topics[0].replication_factor), (3, 1));
    assert_eq!((topics[1].num_partitions, topics[1].replication_factor, topics[1].id), (-1, -1, TopicId::ZERO));
    assert_eq!(Some(topics[0].id), world.views.catalogue(&pin()).by_name("a").map(|topic| topic.id));
    assert!(topics[1].error_message.is_some() && topics[0].error_message.is_none());
}

#[test]
fn asking_only_and_having_no_time_change_nothing() {
    let mut world = World::new(&Settings::default());
    let Request::CreateTopics(request) = create(&["a", "bad name"]) else { panic!("another request") };
    let only_asked = CreateTopics { validate_only: true, ..request.clone() };
    let reply = world.ask(Request::CreateTopics(only_asked));
    assert_eq!(codes(&reply), [0, 17]);
    for timeout_ms in [0, -5] {
        let hasty = CreateTopics { timeout_ms, ..request.clone() };
        assert_eq!(codes(&world.ask(Request::CreateTopics(hasty))), [7, 7]);
    }
    let log = world.log.len();
    world.ask(create(&["a"]));
    assert!(world.log.len() > log);
    let hasty = DeleteTopics { topics: vec![TopicReference::Name("a".into())], timeout_ms: 0 };
    assert_eq!(codes(&world.ask(Request::DeleteTopics(hasty))), [7]);
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn too_many_partitions_refuse_the_whole_request() {
    let mut world = World::new(&Settings::default());
    let Request::CreateTopics(mut request) = create(&["a", "b"]) else { panic!("another request") };
    request.topics[1].num_partitions = crate::limits::CREATE_PARTITIONS_MAX as i32;
    assert_eq!(codes(&world.ask(Request::CreateTopics(request))), [44, 44]);
    assert_eq!(world.names(), [""; 0]);
}

#[test]
fn deleted_topics_are_gone_and_come_back_with_another_id() {
    let mut world = World::new(&Settings::default());
    world.ask(create(&["a", "b", "__consumer_offsets"]));
    let id = |world: &World, name: &str| world.views.catalogue(&pin()).by_name(name).map(|topic| topic.id);
    let (a, b) = (id(&world, "a").expect("a"), id(&world, "b").expect("b"));
    let reply = world.ask(delete(vec![
        TopicReference::Name("a".into()),
        TopicReference::Id(b),
        TopicReference::Name("none".into()),
        TopicReference::Id(TopicId([3; 16])),
        TopicReference::Name("__consumer_offsets".into()),
    ]));
    assert_eq!(codes(&reply), [0, 0, 3, 100, 42]);
    let Reply::DeletedTopics(topics) = reply else { panic!("another reply") };
    let rows: Vec<_> = topics.iter().take(4).map(|topic| (topic.name.as_deref(), topic.id)).collect();
    assert_eq!(rows, [(Some("a"), a), (Some("b"), b), (Some("none"), TopicId::ZERO), (None, TopicId([3; 16]))]);
    assert_eq!(world.names(), ["__consumer_offsets"]);
    world.ask(create(&["a"]));
    assert_ne!(id(&world, "a"), Some(a));
    assert!(world.views.catalogue(&pin()).by_id(a).is_none());
}

#[test]
fn a_new_table_only_when_an_internal_topic_comes() {
    let mut world = World::new(&Settings::default());
    world.ask(create(&["a"]));
    assert_eq!(world.table_epoch(), 1);
    world.ask(Request::CreateInternal(InternalTopicKind::Transactions));
    assert_eq!(world.table_epoch(), 2);
    world.ask(Request::CreateInternal(InternalTopicKind::Transactions));
    world.ask(create(&["b"]));
    assert_eq!(world.table_epoch(), 2);
}

fn full() -> WriteFailure {
    WriteFailure::Write(std::io::Error::from_raw_os_error(28))
}

#[test]
fn a_failed_write_takes_back_what_waited_and_refuses_what_comes() {
    let mut world = World::new(&Settings::default());
    world.ask(create(&["before"]));
    let (_, append) = world.handle(create(&["lost", "bad name"]));
    world.handle(create(&["waiting"]));
    world.handle(delete(vec![TopicReference::Name("before".into())]));
    let token = append.expect("a write").token;
    let outputs = world.control.synced(token, Err(WriteFailure::Sync(std::io::Error::from_raw_os_error(28))));
    let (replies, append) = world.take(outputs);
    assert_eq!(append, None, "a failed write is not tried again");
    assert_eq!(replies.iter().map(|(_, reply)| codes(reply)).collect::<Vec<_>>(), [vec![56, 17], vec![56], vec![56]]);
    assert_eq!(world.names(), ["before"], "what was published stays");
    assert_eq!(codes(&world.ask(create(&["after"]))), [56]);
    assert_eq!(codes(&world.ask(delete(vec![TopicReference::Name("before".into())]))), [56]);
    let kind = InternalTopicKind::Offsets;
    assert_eq!(world.ask(Request::CreateInternal(kind)), Reply::CreatedInternal(kind));
    assert_eq!(world.names(), ["before"]);
}

#[test]
fn a_full_disk_changes_nothing_and_is_tried_again() {
    let mut world = World::new(&Settings::default());
    world.ask(create(&["before"]));
    let before = world.log.len();
    for _ in 0..2 {
        let (_, append) = world.handle(create(&["lost", "bad name"]));
        let names = ["lost", "before", "before"].map(|name| TopicReference::Name(name.into()));
        world.handle(create(&["lost"]));
        world.handle(delete(names.into()));
        world.handle(Request::CreateInternal(InternalTopicKind::Offsets));
        let append = append.expect("a write");
        assert_eq!(append.offset, before as u64);
        let outputs = world.control.synced(append.token, Err(full()));
        let (replies, append) = world.take(outputs);
        assert_eq!((replies.len(), append), (4, None));
        let answers = replies.iter().take(3).map(|(_, reply)| codes(reply)).collect::<Vec<_>>();
        assert_eq!(answers, [vec![56, 17], vec![56], vec![56, 56, 56]]);
        assert_eq!((world.names(), world.log.len()), (vec!["before".to_owned()], before));
    }
    assert_eq!(codes(&world.ask(delete(vec![TopicReference::Name("lost".into())]))), [3]);
    world.ask(Request::CreateInternal(InternalTopicKind::Offsets));
    assert!(world.leaders(InternalTopicKind::Offsets).is_some());
    assert_eq!(codes(&world.ask(create(&["lost"]))), [0]);
    assert_eq!(codes(&world.ask(delete(vec![TopicReference::Name("before".into())]))), [0]);
    assert_eq!(world.names(), ["__consumer_offsets", "lost"]);
    let again = World::start(&world.log, &Settings::default(), 2);
    assert_eq!(again.names(), world.names());
}

#[test]
fn declared_topics_are_there_from_the_start() {
    let declared = |partitions| {
        let topic = |name: &str, partitions| DeclaredTopic { name: name.into(), partitions };
        let topics = vec![topic("demo", Some(partitions)), topic("plain", None)];
        Settings { topics, num_partitions: 4, ..Settings::default() }
    };
    let world = World::new(&declared(6));
    let partitions =
        |world: &World, name: &str| world.views.catalogue(&pin()).by_name(name).map(|topic| topic.partitions.len());
    assert_eq!((partitions(&world, "demo"), partitions(&world, "plain")), (Some(6), Some(4)));
    let again = World::start(&world.log, &declared(8), 2);
    assert_eq!(partitions(&again, "demo"), Some(6), "what exists stays as it is");
    assert_eq!(again.log, world.log, "nothing new, nothing written");
}

#[test]
fn ids_do_not_begin_with_a_dash() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut ids: RandomIds = Box::new(move || random.random());
    for _ in 0..2_000 {
        let id = new_id(&mut ids);
        assert!(!crate::wire::Uuid::from(id).to_string().starts_with('-'), "{id:?}");
    }
}

#[test]
fn a_log_without_its_beginning_is_not_gone_on_with() {
    let records = vec![Record::Nodes { count: 1, generation: 0 }];
    let result = Control::start(&Replay { records, end: 100 }, &Settings::default(), endpoints(1), random_ids(1));
    assert_eq!(result.map(drop), Err(Mismatch::Incomplete));
}

/// Random changes with a kill at any byte: whatever was answered is there afterwards, and nothing half.
#[test]
fn what_was_answered_survives_a_kill_at_every_byte() {
    for seed in 0..6 {
        let mut random = SmallRng::seed_from_u64(seed);
        let settings = Settings::default();
        let mut world = World::new(&settings);
        // The names that were shown at each length of the log.
        let mut shown = vec![(world.log.len(), world.names())];
        for _ in 0..12 {
            let names: Vec<String> =
                (0..random.random_range(1..4)).map(|_| random.random_range(0..9).to_string()).collect();
            let request = match random.random_range(0..4) {
                0 => delete(vec![TopicReference::Name(names[0].clone())]),
                1 => Request::CreateInternal(*InternalTopicKind::ALL.choose(&mut random).expect("three")),
                2 => Request::AutoCreate { names },
                _ => create(&names.iter().map(String::as_str).collect::<Vec<_>>()),
            };
            world.ask(request);
            shown.push((world.log.len(), world.names()));
        }
        for end in shown[0].0..=world.log.len() {
            let nodes = random.random_range(1..4);
            let after = World::start(&world.log[..end], &settings, nodes);
            let expected = shown.iter().rfind(|(length, _)| *length <= end).expect("the first is short enough");
            assert_eq!(after.names(), expected.1, "seed {seed}, killed at byte {end}");
            assert_eq!(after.control.cluster_id(), world.control.cluster_id());
        }
    }
}

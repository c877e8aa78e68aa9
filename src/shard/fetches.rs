//! Fetches: what one asks for, what it gets, and those that wait. A Fetch waits while there is less than it wants and
//! nothing is wrong; as synthetic partitions stand still, only time ends the wait. There are no fetch sessions: each request
//! is answered in full, with session id 0, which clients take as "ask in full again".

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use hashbrown::HashMap;

use super::dispatch::led::led_by;
use super::service::{ConnectionId, ListenerIndex};
use crate::errors::ErrorCode;
use crate::ids::{NodeIndex, TopicId};
use crate::limits;
use crate::topics::message_set::Magic;
use crate::topics::{Catalogue, IfTooLarge, Records, Topic};

/// What a partition may have in versions 0 to 2 at least: more than any message of ours. It is kept for so many partitions;
/// those beyond get nothing before the others have come to their end.
const LEAST_SHARE_BYTES: usize = 1_024;
const LEAST_SHARES: usize = 4_096;

/// A Fetch, kept as long as it may have to be answered again.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) listener: ListenerIndex,
    /// Never above `max_bytes`.
    pub(super) min_bytes: usize,
    /// Of all records together, but for the first batch.
    pub(super) max_bytes: usize,
    pub(super) is_read_committed: bool,
    pub(super) topics: Vec<FetchTopic>,
}

/// A topic of a Fetch.
#[derive(Debug)]
pub(super) struct FetchTopic {
    pub(super) name: TopicName,
    /// Whether its sender may read the topic.
    pub(super) is_allowed: bool,
    pub(super) partitions: Vec<FetchPartition>,
}

/// How a topic is named: to v12 by name, from v13 on by id.
#[derive(Debug)]
pub(super) enum TopicName {
    Name(Box<str>),
    Id(TopicId),
}

/// A partition of a Fetch; epochs are -1 where none is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchPartition {
    pub(super) index: i32,
    pub(super) current_leader_epoch: i32,
    pub(super) last_fetched_epoch: i32,
    pub(super) offset: i64,
    pub(super) max_bytes: usize,
}

/// What a Fetch gets.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// By topic and partition, as asked.
    pub(super) rows: Vec<Vec<FetchedPartition>>,
    /// The record batches of all rows.
    pub(super) records: Vec<u8>,
    /// Whether there is something else to tell than records: then it is told at once.
    pub(super) has_news: bool,
}

/// What a partition has for a Fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchedPartition {
    pub(super) error: ErrorCode,
    /// -1 on an error.
    pub(super) high_watermark: i64,
    /// Where its batches are in [`Fetched::records`].
    pub(super) records: Range<usize>,
    /// The epoch and offset at which the client's log and ours part.
    pub(super) diverging: Option<(i32, i64)>,
    /// Leader and leader epoch, for a client that is mistaken about them.
    pub(super) leader: Option<(NodeIndex, i32)>,
}

impl From<ErrorCode> for FetchedPartition {
    fn from(error: ErrorCode) -> Self {
        FetchedPartition { error, high_watermark: -1, records: 0..0, diverging: None, leader: None }
    }
}

impl Fetch {
    /// Reads what there is for `node` now.
    pub(super) fn read(&self, catalogue: &Catalogue, node: NodeIndex) -> Fetched {
        let mut fetched = Fetched::default();
        let share_bytes = (self.max_bytes / self.partitions().max(1)).max(LEAST_SHARE_BYTES);
        for topic in &self.topics {
            let mut rows = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let row = self.read_partition(topic, partition, catalogue, node, share_bytes, &mut fetched.records);
                fetched.has_news |= !row.error.is_none() || row.diverging.is_some();
                rows.push(row);
            }
            fetched.rows.push(rows);
        }
        fetched
    }

    /// Whether this is to wait, rather than be answered with what there is.
    pub(super) fn waits_for_more(&self, fetched: &Fetched) -> bool {
        // What waits is kept, so what is very large is answered now, as if its time were over.
        let is_kept = (1..=limits::WAITING_FETCH_PARTITIONS_MAX).contains(&self.partitions());
        is_kept && !fetched.has_news && fetched.records.len() < self.min_bytes
    }

    /// `share_bytes` is what a partition may have in versions 0 to 2: these clients ask in the same order each time and know no
    /// limit for all partitions together, so each of them gets its share of ours.
    fn read_records(&self, source: &Records, asked: &FetchPartition, share_bytes: usize, records: &mut Vec<u8>) {
        // The first batch of all goes even if it is too large, so that every client gets on.
        let is_first = records.is_empty();
        let rest_bytes = self.max_bytes.saturating_sub(records.len());
        let max_bytes = asked.max_bytes.min(rest_bytes);
        match self.version {
            0..=2 => {
                let magic = if self.version == 2 { Magic::One } else { Magic::Zero };
                let is_over = records.len() >= LEAST_SHARE_BYTES * LEAST_SHARES;
                let max_bytes = if is_over { 0 } else { asked.max_bytes.min(share_bytes) };
                source.append_messages_from(asked.offset, magic, max_bytes, IfTooLarge::Cut, records)
            }
            3 => {
                let if_too_large = if is_first { IfTooLarge::Whole } else { IfTooLarge::Nothing };
                source.append_messages_from(asked.offset, Magic::One, max_bytes, if_too_large, records)
            }
            _ => source.append_from(asked.offset, max_bytes, is_first, records),
        };
    }

    fn partitions(&self) -> usize {
        self.topics.iter().map(|topic| topic.partitions.len()).sum()
    }

    fn read_partition(
        &self,
        topic: &FetchTopic,
        asked: &FetchPartition,
        catalogue: &Catalogue,
        node: NodeIndex,
        share_bytes: usize,
        records: &mut Vec<u8>,
    ) -> FetchedPartition {
        let (found, unknown) = match &topic.name {
            TopicName::Name(name) => (catalogue.by_name(name), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            TopicName::Id(id) => (catalogue.by_id(*id), ErrorCode::UNKNOWN_TOPIC_ID),
        };
        let found: &Topic = match found {
            _ if !topic.is_allowed => return ErrorCode::TOPIC_AUTHORIZATION_FAILED.into(),
            None => return unknown.into(),
            Some(found) => found,
        };
        let led = match led_by(node, Some(found), asked.index, asked.current_leader_epoch) {
            Ok(led) => led,
            Err(error) => {
                let tells_leader = [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::FENCED_LEADER_EPOCH].contains(&error);
                let partition = found.partition(asked.index).filter(|_| tells_leader);
                let leader = partition.map(|partition| (partition.leader, partition.leader_epoch));
                return FetchedPartition { leader, ..error.into() };
            }
        };
        let high_watermark = led.records.high_watermark();
        let whole = FetchedPartition { high_watermark, ..ErrorCode::NONE.into() };
        match asked.last_fetched_epoch {
            epoch if epoch > led.leader_epoch => return ErrorCode::OFFSET_OUT_OF_RANGE.into(),
            epoch if epoch >= 0 && asked.offset > high_watermark => {
                return FetchedPartition { diverging: Some((epoch, high_watermark)), ..whole };
            }
            _ => {}
        }
        if !(0..=high_watermark).contains(&asked.offset) {
            return ErrorCode::OFFSET_OUT_OF_RANGE.into();
        }
        let start = records.len();
        self.read_records(&led.records, asked, share_bytes, records);
        FetchedPartition { records: start..records.len(), ..whole }
    }
}

/// Fetches that wait: at most one of a connection.
#[derive(Debug, Default)]
pub(super) struct WaitingFetches {
    by_connection: HashMap<ConnectionId, (u64, Fetch)>,
    /// Rising; of connections that are gone, a deadline stays until it has come.
    deadlines: BinaryHeap<Reverse<(u64, ConnectionId)>>,
    /// Of all that wait.
    partitions: usize,
}

impl WaitingFetches {
    /// Whether one more may wait.
    pub(super) fn has_room_for(&self, fetch: &Fetch) -> bool {
        self.partitions + fetch.partitions() <= limits::WAITING_FETCHES_PARTITIONS_MAX
    }

    /// Keeps a Fetch until `deadline_ms` on the monotonic clock.
    pub(super) fn wait(&mut self, connection: ConnectionId, deadline_ms: u64, fetch: Fetch) {
        self.partitions += fetch.partitions();
        let before = self.by_connection.insert(connection, (deadline_ms, fetch));
        assert!(before.is_none(), "a connection has one parked request");
        self.deadlines.push(Reverse((deadline_ms, connection)));
    }

    /// The connection is gone.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.take(connection);
        // Clients that come and go leave deadlines behind, each for as long as its client would have waited.
        if self.deadlines.len() > 2 * self.by_connection.len() + 64 {
            let waiting = &self.by_connection;
            self.deadlines.retain(|Reverse((_, connection))| waiting.contains_key(connection));
        }
    }

    /// One whose time is over.
    pub(super) fn due(&mut self, now_ms: u64) -> Option<(ConnectionId, Fetch)> {
        while let Some(&Reverse((deadline_ms, connection))) = self.deadlines.peek() {
            if deadline_ms > now_ms {
                return None;
            }
            self.deadlines.pop();
            if self.by_connection.get(&connection).is_some_and(|(deadline, _)| *deadline == deadline_ms) {
                return self.take(connection).map(|fetch| (connection, fetch));
            }
        }
        None
    }

    fn take(&mut self, connection: ConnectionId) -> Option<Fetch> {
        let (_, fetch) = self.by_connection.remove(&connection)?;
        self.partitions -= fetch.partitions();
        Some(fetch)
    }

    /// When the next one's time is over, at the earliest.
    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((deadline_ms, _))| *deadline_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::Partition;

    const NODE: NodeIndex = NodeIndex(0);

    fn catalogue() -> Catalogue {
        let mut catalogue = Catalogue::default();
        catalogue.insert(Topic {
            name: "t".into(),
            id: TopicId([1; 16]),
            replication_factor: 1,
            partitions: [0, 0, 1].map(|leader| Partition { leader: NodeIndex(leader), leader_epoch: 2 }).into(),
            configs: Default::default(),
            records: 100,
        });
        catalogue
    }

    fn partition(index: i32, offset: i64) -> FetchPartition {
        FetchPartition { index, current_leader_epoch: -1, last_fetched_epoch: -1, offset, max_bytes: 1 << 20 }
    }

    fn fetch(name: TopicName, partitions: &[FetchPartition]) -> Fetch {
        Fetch {
            version: 18,
            correlation_id: 1,
            listener: ListenerIndex(0),
            min_bytes: 1,
            max_bytes: 1 << 20,
            is_read_committed: false,
            topics: vec![FetchTopic { name, is_allowed: true, partitions: partitions.to_vec() }],
        }
    }

    fn by_id(partitions: &[FetchPartition]) -> Fetch {
        fetch(TopicName::Id(TopicId([1; 16])), partitions)
    }

    fn errors(fetch: &Fetch) -> Vec<i16> {
        let fetched = fetch.read(&catalogue(), NODE);
        let codes: Vec<i16> = fetched.rows[0].iter().map(|row| row.error.0).collect();
        assert_eq!(fetched.has_news, codes.iter().any(|&code| code != 0));
        assert_eq!(fetch.waits_for_more(&fetched), fetched.records.is_empty() && !fetched.has_news);
        codes
    }

    #[test]
    fn each_partition_has_its_own_error() {
        assert_eq!(errors(&by_id(&[partition(0, 0)])), [0]);
        assert_eq!(
            errors(&by_id(&[partition(0, 0), partition(2, 0), partition(3, 0), partition(-1, 0)])),
            [0, 6, 3, 3]
        );
        assert_eq!(errors(&by_id(&[partition(0, -1), partition(0, 100), partition(0, 101)])), [1, 0, 1]);
        assert_eq!(errors(&fetch(TopicName::Name("t".into()), &[partition(0, 0)])), [0]);
        assert_eq!(errors(&fetch(TopicName::Name("none".into()), &[partition(0, 0)])), [3]);
        assert_eq!(errors(&fetch(TopicName::Id(TopicId([2; 16])), &[partition(0, 0)])), [100]);
        let mut denied = fetch(TopicName::Name("t".into()), &[partition(0, 0)]);
        denied.topics[0].is_allowed = false;
        assert_eq!(errors(&denied), [29]);
    }

    #[test]
    fn epochs_are_compared() {
        let with = |current_leader_epoch, last_fetched_epoch, offset| {
            let partition = FetchPartition { current_leader_epoch, last_fetched_epoch, ..partition(0, offset) };
            by_id(&[partition]).read(&catalogue(), NODE).rows[0][0].clone()
        };
        assert_eq!([1, 2, 3].map(|epoch| with(epoch, -1, 0).error.0), [74, 0, 75]);
        assert_eq!(with(1, -1, 0).leader, Some((NODE, 2)));
        assert_eq!(with(3, -1, 0).leader, None);
        assert_eq!((with(-1, 2, 0).error.0, with(-1, 3, 0).error.0), (0, 1));
        let diverging = with(-1, 1, 101);
        assert_eq!((diverging.error.0, diverging.diverging, diverging.records), (0, Some((1, 100)), 0..0));
    }

    #[test]
    fn a_partition_led_elsewhere_names_its_leader() {
        let row = &by_id(&[partition(2, 0)]).read(&catalogue(), NODE).rows[0][0];
        assert_eq!((row.error.0, row.high_watermark, row.leader), (6, -1, Some((NodeIndex(1), 2))));
    }

    #[test]
    fn the_first_batch_is_free_and_the_limits_hold_for_the_rest() {
        let whole = by_id(&[partition(0, 0), partition(1, 0)]).read(&catalogue(), NODE);
        let whole = whole.rows[0][0].records.len();
        let one = Fetch { max_bytes: 0, ..by_id(&[partition(0, 0)]) }.read(&catalogue(), NODE).records.len();
        let batches = |bytes: usize| [0, one, whole].iter().position(|&size| size == bytes);
        let read = |max_bytes: usize, partition_max_bytes: usize| {
            let part = |index| FetchPartition { max_bytes: partition_max_bytes, ..partition(index, 0) };
            let fetched = Fetch { max_bytes, ..by_id(&[part(0), part(1)]) }.read(&catalogue(), NODE);
            fetched.rows[0].iter().map(|row| batches(row.records.len()).expect("whole batches")).collect::<Vec<_>>()
        };
        assert_eq!(read(1 << 20, 1 << 20), [2, 2]);
        assert_eq!(read(0, 1 << 20), [1, 0]);
        assert_eq!(read(1 << 20, 0), [1, 0]);
        assert_eq!(read(whole, 1 << 20), [2, 0]);
        assert_eq!(read(whole + one - 1, 1 << 20), [2, 0]);
        assert_eq!(read(whole + one, 1 << 20), [2, 1]);
        assert_eq!(read(1 << 20, one), [1, 1]);
    }

    #[test]
    fn old_clients_get_a_share_of_each_partition() {
        let sizes = |version: i16, partitions: usize, max_bytes: usize| -> Vec<usize> {
            let fetch =
                Fetch { version, max_bytes, ..fetch(TopicName::Name("t".into()), &vec![partition(0, 0); partitions]) };
            fetch.read(&catalogue(), NODE).rows[0].iter().map(|row| row.records.len()).collect()
        };
        for version in 0..=2 {
            let shares = sizes(version, 4, 12_000);
            assert!(shares.iter().all(|&bytes| (2_000..=3_000).contains(&bytes)), "v{version}: {shares:?}");
            let least = sizes(version, LEAST_SHARES + 500, 12_000);
            assert!(least.iter().take(LEAST_SHARES).all(|&bytes| (500..=1_024).contains(&bytes)), "v{version}");
            assert!(least.iter().sum::<usize>() <= LEAST_SHARE_BYTES * (LEAST_SHARES + 1));
        }
    }

    /// A client of version 3 gives up on a message that was cut off.
    #[test]
    fn from_v3_on_messages_are_whole_where_the_answer_ends() {
        let sizes = |partitions: usize, max_bytes: usize| -> Vec<usize> {
            let name = TopicName::Name("t".into());
            let fetch = Fetch { version: 3, max_bytes, ..fetch(name, &vec![partition(0, 0); partitions]) };
            fetch.read(&catalogue(), NODE).rows[0].iter().map(|row| row.records.len()).collect()
        };
        let (one, whole) = (sizes(1, 1)[0], sizes(1, 1 << 20)[0]);
        assert!(one > 1 && whole > 90 * one);
        assert_eq!(sizes(3, 1), [one, 0, 0]);
        assert_eq!(sizes(3, whole), [whole, 0, 0]);
        assert_eq!(sizes(3, whole + one - 1), [whole, 0, 0]);
        assert_eq!(sizes(3, whole + one), [whole, one, 0]);
    }

    #[test]
    fn it_waits_at_the_end_but_not_when_it_is_large() {
        let waits = |partitions: usize| {
            let fetch = by_id(&vec![partition(0, 100); partitions]);
            fetch.waits_for_more(&fetch.read(&catalogue(), NODE))
        };
        assert!(!waits(0));
        assert!(waits(1));
        assert!(waits(limits::WAITING_FETCH_PARTITIONS_MAX));
        assert!(!waits(limits::WAITING_FETCH_PARTITIONS_MAX + 1));
        let content = Fetch { min_bytes: 0, ..by_id(&[partition(0, 100)]) };
        assert!(!content.waits_for_more(&content.read(&catalogue(), NODE)));
        let greedy = Fetch { min_bytes: 1 << 19, ..by_id(&[partition(0, 0)]) };
        assert!(greedy.waits_for_more(&greedy.read(&catalogue(), NODE)));
    }

    #[test]
    fn those_whose_time_is_over_come_in_order_and_those_that_are_gone_do_not() {
        let mut waiting = WaitingFetches::default();
        for (connection, deadline_ms) in [(1, 50), (2, 30), (3, 40), (4, 30)] {
            waiting.wait(ConnectionId(connection), deadline_ms, by_id(&[]));
        }
        waiting.forget(ConnectionId(3));
        assert_eq!(waiting.next_deadline_ms(), Some(30));
        assert!(waiting.due(29).is_none());
        // A connection that is answered and asks again has another deadline.
        assert_eq!(waiting.due(30).map(|(connection, _)| connection), Some(ConnectionId(2)));
        waiting.wait(ConnectionId(2), 60, by_id(&[]));
        let due: Vec<u64> = std::iter::from_fn(|| waiting.due(55)).map(|(connection, _)| connection.0).collect();
        assert_eq!(due, [4, 1]);
        assert_eq!(waiting.next_deadline_ms(), Some(60));
        assert!(waiting.due(60).is_some() && waiting.next_deadline_ms().is_none());
    }

    #[test]
    fn the_partitions_of_all_that_wait_are_bounded() {
        let most = limits::WAITING_FETCHES_PARTITIONS_MAX;
        let mut waiting = WaitingFetches::default();
        let each = limits::WAITING_FETCH_PARTITIONS_MAX;
        for connection in 0..most / each {
            let fetch = by_id(&vec![partition(0, 100); each]);
            assert!(waiting.has_room_for(&fetch), "{connection}");
            waiting.wait(ConnectionId(connection as u64), 10, fetch);
        }
        assert!(!waiting.has_room_for(&by_id(&[partition(0, 100)])));
        waiting.forget(ConnectionId(0));
        assert!(waiting.has_room_for(&by_id(&vec![partition(0, 100); each])));
        assert!(waiting.due(10).is_some());
        assert!(waiting.has_room_for(&by_id(&vec![partition(0, 100); 2 * each])));
    }

    #[test]
    fn connections_that_come_and_go_leave_nothing_behind() {
        let mut waiting = WaitingFetches::default();
        for connection in 0..10_000 {
            waiting.wait(ConnectionId(connection), u64::MAX, by_id(&[]));
            waiting.forget(ConnectionId(connection));
        }
        assert!(waiting.deadlines.len() <= 64 && waiting.by_connection.is_empty());
    }
}

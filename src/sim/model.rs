//! The shadow model: it sees every request that a core executes and every reply that leaves, knows nothing of how they are
//! made, and says what cannot be.
//!
//! - Every request is answered once, in order, or its connection closes; a parked one within its time ([`Model::turn_ended`]).
//! - What a reply has promised is never taken back, not even by a crash ([`offsets`], [`group`]).
//! - Generations grow; each has one leader, one protocol, and hands out what its leader dealt ([`group`]).
//! - Only the coordinator of a group answers for it; ids never change ([`cluster`]).
//!
//! What replies look like, and which of these rules they touch, is in [`judge`].

mod asked;
mod cluster;
mod group;
mod judge;
mod offsets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

pub(super) use self::asked::Asked;
use self::asked::What;
use self::cluster::Cluster;
use self::group::Group;
use self::offsets::Shown;
use super::conversation::Place;
use super::trace::Trace;
use crate::clock::Now;
use crate::config::Settings;
use crate::wire::Uuid;

/// What became of a request at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome<'a> {
    /// The frame of its reply, its size in front.
    Replied(&'a [u8]),
    Parked,
    /// The connection closes, for this reason.
    Refused(&'a str),
}

pub(super) struct Model {
    pub(super) now: Now,
    /// The lowest and the highest ever.
    unix_ms: (i64, i64),
    /// `group.initial.rebalance.delay.ms`.
    initial_delay_ms: u64,
    /// `offsets.retention.minutes`.
    retention_ms: i64,
    first_node_id: i32,
    /// In a turn of which core; of its node id.
    core: usize,
    /// That a parked request may wait beyond its time.
    slack_ms: u64,
    links: FxHashMap<u64, Link>,
    groups: BTreeMap<String, Group>,
    cluster: Cluster,
    /// Parked requests by when they must be answered: deadline, connection, place.
    deadlines: BTreeSet<(u64, u64, Place)>,
    /// Groups for which their coordinator has spoken since the start: it no longer reads what a former run has left of them.
    loaded: BTreeSet<String>,
    next_id: u64,
    /// Groups without members or offsets may have gone.
    are_groups_swept: bool,
    faults: Vec<String>,
    pub(super) trace: Trace,
    /// Of all that was seen.
    pub(super) digest: u64,
    pub(super) requests: u64,
}

/// A connection at its server's end.
#[derive(Debug, Default)]
struct Link {
    core: usize,
    /// Requests whose replies have not left.
    open: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    place: Place,
    asked: Asked,
    /// While it is parked.
    deadline_ms: Option<u64>,
    /// To be kept from when its reply leaves; `None` until there is a reply.
    promises: Option<Vec<Promise>>,
}

/// What a reply promises.
#[derive(Debug)]
enum Promise {
    /// A change of an offset.
    Changed { group_id: String, key: (String, i32), id: u64 },
    /// What an offset is.
    Shown { group_id: String, key: (String, i32), shown: Shown, newest: u64 },
    /// A generation that was written.
    Generation { group_id: String, generation_id: i32 },
}

impl Model {
    pub(super) fn new(settings: &Settings, slack_ms: u64, trace: Trace) -> Model {
        Model {
            now: Now::default(),
            unix_ms: (i64::MAX, 0),
            initial_delay_ms: settings.group.initial_rebalance_delay_ms as u64,
            retention_ms: i64::from(settings.offsets.retention_minutes) * 60_000,
            first_node_id: settings.node_id,
            core: 0,
            slack_ms,
            links: FxHashMap::default(),
            groups: BTreeMap::new(),
            cluster: Cluster::default(),
            deadlines: BTreeSet::new(),
            loaded: BTreeSet::new(),
            next_id: 1,
            are_groups_swept: false,
            faults: Vec::new(),
            trace,
            digest: 0,
            requests: 0,
        }
    }

    /// Something cannot be.
    pub(super) fn fault(&mut self, what: String) {
        self.trace.note(self.now, || format!("FAULT: {what}"));
        self.faults.push(what);
    }

    pub(super) fn first_fault(&self) -> Option<&str> {
        self.faults.first().map(String::as_str)
    }

    pub(super) fn turn_begins(&mut self, core: usize, now: Now) {
        self.core = core;
        self.set_now(now);
    }

    pub(super) fn set_now(&mut self, now: Now) {
        self.now = now;
        self.unix_ms = (self.unix_ms.0.min(now.unix_ms), self.unix_ms.1.max(now.unix_ms));
    }

    pub(super) fn opened(&mut self, connection: u64, core: usize) {
        self.links.insert(connection, Link { core, open: VecDeque::new() });
    }

    /// A request was executed.
    pub(super) fn executed(&mut self, connection: u64, place: Place, frame: &[u8], outcome: Outcome<'_>) {
        self.requests += 1;
        self.digest(frame);
        let asked = Asked::read(frame);
        self.trace.request(self.now, self.core, connection, place, frame, &asked, &outcome);
        let asked = match (asked, outcome) {
            (Err(_), Outcome::Refused(_)) => return,
            (Ok(asked), Outcome::Refused(reason)) => {
                return self.fault(format!("a good {} was refused: {reason}", asked.api.name()));
            }
            (Err(malformed), _) => return self.fault(format!("a bad request was taken: {malformed}")),
            (Ok(asked), _) => asked,
        };
        self.note_asked(&asked);
        let mut open = Open { place, asked, deadline_ms: None, promises: None };
        match outcome {
            Outcome::Parked => {
                self.parked(&open.asked, connection);
                let deadline_ms = self.now.monotonic_ms + self.patience_ms(&open.asked) + self.slack_ms;
                open.deadline_ms = Some(deadline_ms);
                self.deadlines.insert((deadline_ms, connection, place));
            }
            Outcome::Replied(reply) => open.promises = Some(self.judged(&open.asked, false, reply)),
            Outcome::Refused(_) => unreachable!("it was looked at above"),
        }
        match self.links.get_mut(&connection) {
            Some(link) => link.open.push_back(open),
            None => self.fault(format!("connection {connection} is closed, but requests of it are executed")),
        }
    }

    /// A parked request was answered.
    pub(super) fn answered(&mut self, connection: u64, place: Place, reply: &[u8]) {
        let Some(mut open) = self.take_open(connection, place) else {
            return self.fault(format!("request {place} of connection {connection} is answered, but does not wait"));
        };
        if let Some(deadline_ms) = open.deadline_ms.take() {
            self.deadlines.remove(&(deadline_ms, connection, place));
        }
        if open.promises.is_some() {
            return self.fault(format!("{} is answered twice", open.asked.api.name()));
        }
        self.trace.reply(self.now, self.core, connection, place, &open.asked, reply);
        open.promises = Some(self.judged(&open.asked, true, reply));
        self.put_open(connection, open);
    }

    /// The reply has left: the client may have it from now on.
    pub(super) fn left(&mut self, connection: u64, place: Place) {
        let Some(open) = self.links.get_mut(&connection).and_then(|link| link.open.pop_front()) else {
            return self.fault(format!("a reply leaves on connection {connection} that nobody asked for"));
        };
        if open.place != place {
            let wanted = open.place;
            return self.fault(format!("the reply to request {place} leaves, that to {wanted} is due"));
        }
        let Some(promises) = open.promises else {
            return self.fault(format!("the reply to {} leaves, but there is none", open.asked.api.name()));
        };
        if !promises.is_empty() {
            self.trace.note(self.now, || format!("core {}  {connection}.{place}  its reply leaves", self.core));
        }
        promises.into_iter().for_each(|promise| self.promise(promise));
    }

    fn promise(&mut self, promise: Promise) {
        match promise {
            Promise::Changed { group_id, key, id } => {
                if let Some(trail) = self.group(&group_id).trails.get_mut(&key) {
                    trail.promise(id);
                }
            }
            Promise::Shown { group_id, key, shown, newest } => {
                if let Some(trail) = self.group(&group_id).trails.get_mut(&key) {
                    trail.promise_shown(&shown, newest);
                }
            }
            Promise::Generation { group_id, generation_id } => self.group(&group_id).promise(generation_id),
        }
    }

    /// The connection is gone at the server's end.
    pub(super) fn closed(&mut self, connection: u64) {
        let Some(link) = self.links.remove(&connection) else { return };
        for open in link.open {
            if let Some(deadline_ms) = open.deadline_ms {
                self.deadlines.remove(&(deadline_ms, connection, open.place));
            }
        }
    }

    /// A turn of a core is over: whatever was due has been answered.
    pub(super) fn turn_ended(&mut self) {
        let now_ms = self.now.monotonic_ms;
        let late = self
            .deadlines
            .range(..(now_ms, 0, 0))
            .find(|(_, connection, _)| self.links.get(connection).is_some_and(|link| link.core == self.core));
        if let Some(&(deadline_ms, connection, place)) = late {
            let open = self.links.get(&connection).and_then(|link| link.open.iter().find(|open| open.place == place));
            let name = open.map_or("a request", |open| open.asked.api.name());
            self.fault(format!(
                "{name}, request {place} of connection {connection}, was to be answered until {deadline_ms} ms"
            ));
        }
        for group in self.groups.values_mut() {
            group.told_before = group.told_before.max(group.told);
            group.is_deleted = false;
        }
    }

    /// Nothing went on for a while: all deadlines are so much later.
    pub(super) fn stood_still(&mut self, ms: u64) {
        self.deadlines.clear();
        for (connection, link) in &mut self.links {
            for open in &mut link.open {
                if let Some(deadline_ms) = &mut open.deadline_ms {
                    *deadline_ms += ms;
                    self.deadlines.insert((*deadline_ms, *connection, open.place));
                }
            }
        }
        self.groups.values_mut().for_each(|group| group.standings.clear());
    }

    /// Groups without members or offsets may have gone.
    pub(super) fn groups_may_have_gone(&mut self) {
        self.are_groups_swept = true;
        self.groups.values_mut().for_each(|group| group.may_begin_again = true);
    }

    /// A write of the core's journal has failed: what was not promised may be undone.
    pub(super) fn write_failed(&mut self) {
        let (core, first_node_id) = (self.core, self.first_node_id);
        self.trace.note(self.now, || format!("core {core}  a write has failed"));
        for (group_id, group) in &mut self.groups {
            let owner = self.cluster.coordinator(group_id).map(|node_id| (node_id - first_node_id) as usize);
            if owner.is_none_or(|owner| owner == core) {
                group.may_begin_again = true;
                group.trails.values_mut().for_each(offsets::Trail::write_failed);
            }
        }
    }

    /// The process has ended; `keeps`: what was promised must be there again.
    pub(super) fn crashed(&mut self, keeps: bool, changes_cores: bool) {
        self.trace.note(self.now, || format!("crash, {}", if keeps { "what was promised stays" } else { "groups go" }));
        self.links.clear();
        self.deadlines.clear();
        self.loaded.clear();
        let now_ms = self.now.monotonic_ms;
        self.groups.values_mut().for_each(|group| group.crashed(keeps, now_ms));
        self.cluster.crashed();
        if changes_cores {
            self.cluster.forget_coordinators();
        }
    }

    /// The request at this place, while its reply has not left.
    pub(super) fn asked(&self, connection: u64, place: Place) -> Option<&Asked> {
        let open = &self.links.get(&connection)?.open;
        open.iter().find(|open| open.place == place).map(|open| &open.asked)
    }

    /// The newest generation of a group that was told.
    pub(super) fn newest_generation(&self, group_id: &str) -> i32 {
        self.groups.get(group_id).map_or(0, |group| group.told)
    }

    /// Some member id of a group, old or new, and the newest generation.
    pub(super) fn some_member(&self, group_id: &str, choose: u64) -> Option<(String, i32)> {
        let group = self.groups.get(group_id)?;
        let place = choose.checked_rem(group.member_ids.len() as u64)?;
        group.member_ids.iter().nth(place as usize).map(|id| (id.clone(), group.told))
    }

    /// The core that coordinates a group, if it is known.
    pub(super) fn owner(&self, group_id: &str) -> Option<usize> {
        self.cluster.coordinator(group_id).map(|node_id| (node_id - self.first_node_id) as usize)
    }

    /// The id of a topic, as far as it was told; else zero.
    pub(super) fn topic_id(&self, name: &str) -> Uuid {
        self.cluster.id_of(name)
    }

    fn group(&mut self, group_id: &str) -> &mut Group {
        if !self.groups.contains_key(group_id) {
            let mut group = Group::default();
            group.may_begin_again = self.are_groups_swept;
            self.groups.insert(group_id.into(), group);
        }
        self.groups.get_mut(group_id).expect("it was added")
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn digest(&mut self, bytes: &[u8]) {
        self.digest = self.digest.rotate_left(5) ^ u64::from(crc32c::crc32c(bytes)) ^ self.now.monotonic_ms;
    }

    fn take_open(&mut self, connection: u64, place: Place) -> Option<Open> {
        let open = &mut self.links.get_mut(&connection)?.open;
        let at = open.iter().position(|open| open.place == place)?;
        open.remove(at)
    }

    fn put_open(&mut self, connection: u64, open: Open) {
        let link = self.links.get_mut(&connection).expect("it was there just now");
        let at = link.open.partition_point(|other| other.place < open.place);
        link.open.insert(at, open);
    }

    /// What a request means to the model before it is answered.
    fn note_asked(&mut self, asked: &Asked) {
        match &asked.what {
            What::Join(join) => self.group(&join.group_id).join_asked(join),
            What::Leave { group_id, members } => {
                let group = self.group(group_id);
                members.iter().for_each(|(member_id, _)| group.left(member_id));
            }
            What::DeleteTopics { topics } => {
                for topic in topics {
                    if let Some(name) = self.cluster.deletion_asked(topic) {
                        self.topic_may_go(&name);
                    }
                }
            }
            _ => {}
        }
    }

    fn topic_may_go(&mut self, name: &str) {
        for group in self.groups.values_mut() {
            let trails = group.trails.iter_mut().filter(|((topic, _), _)| topic == name);
            trails.for_each(|(_, trail)| trail.vanish_some_time());
        }
    }

    /// How long a request may be parked.
    fn patience_ms(&mut self, asked: &Asked) -> u64 {
        match &asked.what {
            What::Join(join) => self.rebalance_timeout_ms(&join.group_id),
            What::Sync(sync) => self.rebalance_timeout_ms(&sync.speaker.group_id),
            _ => 0,
        }
    }

    fn rebalance_timeout_ms(&mut self, group_id: &str) -> u64 {
        self.initial_delay_ms + u64::try_from(self.group(group_id).rebalance_timeout_ms).unwrap_or(0)
    }

    /// A request waits. An older one of the same member does not any more: as in Kafka it is not answered.
    fn parked(&mut self, asked: &Asked, connection: u64) {
        let (group_id, member_id) = match &asked.what {
            What::Join(join) => (&join.group_id, &join.member_id),
            What::Sync(sync) => (&sync.speaker.group_id, &sync.speaker.member_id),
            _ => return,
        };
        if let What::Sync(sync) = &asked.what {
            self.group(group_id).sync_taken(sync);
        }
        if member_id.is_empty() {
            return;
        }
        let deadlines = &mut self.deadlines;
        for (id, link) in self.links.iter_mut().filter(|(id, _)| **id != connection) {
            for open in link.open.iter_mut().filter(|open| open.asked.speaks_for(group_id, member_id)) {
                if let Some(deadline_ms) = open.deadline_ms.take() {
                    deadlines.remove(&(deadline_ms, *id, open.place));
                }
            }
        }
    }
}

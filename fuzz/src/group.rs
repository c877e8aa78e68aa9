//! The group machine, driven by bytes: the first byte chooses the settings, then each four are a request, a piece of time, or something that happens to the
//! journal. The machine checks its own invariants after each (debug assertions); here it is checked that no request is
//! answered twice, that time empties every group, and that a restart finds what was written.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rallypoint::clock::Now;
use rallypoint::errors::ErrorCode;
use rallypoint::group::settings::{GroupSettings, OffsetSettings};
use rallypoint::group::{
    CommitRequest, CopiedAssignments, DeletedTopics, Groups, Ids, JoinRequest, LeavingMember, Output, PartitionCommit,
    Record, SyncRequest, Ticket, WriteId,
};

const GROUPS: [&str; 2] = ["one", "two"];
const INSTANCES: [Option<&str>; 8] = [None, None, None, Some("s"), Some("s"), Some("t"), None, Some("")];
const PROTOCOLS: [&[(&str, &[u8])]; 6] = [
    &[("range", b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"), ("robin", b"b")],
    &[("range", b"other")],
    &[("robin", b"b"), ("range", b"a")],
    &[("robin", b"")],
    &[("range", b"a"), ("range", b"again"), ("x", b"")],
    &[],
];
const TOPICS: [&str; 2] = ["t", "u"];

/// Checks one input.
pub fn run(data: &[u8]) {
    let (settings, steps) = data.split_first().unwrap_or((&0, &[]));
    let mut world = World::new(*settings);
    for step in steps.chunks_exact(4) {
        world.step([step[0], step[1], step[2], step[3]]);
        world.settle();
    }
    world.end();
}

struct CountedIds(u64);

impl Ids for CountedIds {
    fn next(&mut self) -> [u8; 16] {
        self.0 += 1;
        (u128::from(self.0) << 80).to_be_bytes()
    }
}

#[derive(Default)]
struct Client {
    id: String,
    generation: i32,
}

#[derive(Clone, Copy, PartialEq)]
enum Disk {
    Works,
    Fails,
    Stalls,
}

struct World {
    groups: Groups,
    settings: (GroupSettings, OffsetSettings),
    now: Now,
    clients: [Client; 8],
    /// Whose request a ticket is; taken out when it is answered.
    open: BTreeMap<i32, usize>,
    last_ticket: i32,
    disk: Disk,
    stalled: Vec<(WriteId, Vec<Record>)>,
    journal: Vec<Record>,
    /// A record of a group was lost, so the journal may know less of the groups than they do.
    has_lost: bool,
    starts: u64,
}

impl World {
    fn new(choice: u8) -> World {
        let group = GroupSettings {
            min_session_timeout_ms: 1,
            initial_rebalance_delay_ms: [0, 1, 700, 3_000][usize::from(choice % 4)],
            max_size: if choice & 4 == 0 { i32::MAX } else { 2 },
            members_per_piece: if choice & 16 == 0 { 2_000 } else { 1 },
            ..GroupSettings::default()
        };
        let offsets = OffsetSettings {
            retention_minutes: 1,
            retention_check_interval_ms: if choice & 8 == 0 { 20_000 } else { 600_000 },
            ..OffsetSettings::default()
        };
        let now = Now { monotonic_ms: 1, unix_ms: 1_700_000_000_000 };
        World {
            groups: Groups::new(group.clone(), offsets.clone(), Box::new(CountedIds(0)), now),
            settings: (group, offsets),
            now,
            clients: Default::default(),
            open: BTreeMap::new(),
            last_ticket: 0,
            disk: Disk::Works,
            stalled: Vec::new(),
            journal: Vec::new(),
            has_lost: false,
            starts: 1,
        }
    }

    fn step(&mut self, [what, who, a, b]: [u8; 4]) {
        let (who, other) = (usize::from(who % 8), who / 8);
        match what % 12 {
            0 | 1 => self.join(who, a, b, other % 4 == 3),
            2 | 3 => self.sync(who, a),
            4 => {
                let Client { id, generation } = &self.clients[who];
                self.groups.heartbeat(
                    group_of(who),
                    generation + i32::from(a as i8) / 64,
                    id,
                    instance(who, b),
                    self.now,
                );
            }
            5 => self.leave(who, usize::from(a % 8), b % 2 == 0),
            6 => self.commit(who, a, b),
            7 => self.pass(u64::from(a) << (b % 14)),
            8 => self.disk = [Disk::Works, Disk::Fails, Disk::Stalls][usize::from(a % 3)],
            9 => self.end_a_write(a, b % 3 > 0),
            10 => self.restart(),
            _ => self.administer(who, a, b),
        }
    }

    fn join(&mut self, who: usize, choice: u8, version: u8, starts_over: bool) {
        let version = i16::from(version % 10);
        let ticket = self.ticket(who, version);
        let Client { id, .. } = &self.clients[who];
        let request = JoinRequest {
            group_id: group_of(who),
            member_id: if starts_over { "" } else { id },
            group_instance_id: INSTANCES[who].filter(|_| version >= 5),
            client_id: "c",
            client_host: "/h",
            session_timeout_ms: 500 << (choice % 8),
            rebalance_timeout_ms: 1_000 << (choice / 64),
            protocol_type: ["consumer", "consumer", "connect", ""][usize::from(choice / 16 % 4)],
            protocols: PROTOCOLS[usize::from(choice) % PROTOCOLS.len()].iter().copied(),
            requires_known_member_id: version >= 4,
            knows_skip_assignment: version >= 9,
        };
        if let Some(answer) = self.groups.join(&request, ticket, self.now) {
            self.answered(Output::Join(ticket, answer));
        }
    }

    fn sync(&mut self, who: usize, choice: u8) {
        let ticket = self.ticket(who, 5);
        let members: Vec<String> = self.members(group_of(who));
        let plan =
            members.iter().take(usize::from(choice % 4)).map(|id| (id, &b"assignment"[..usize::from(choice % 8)]));
        let Client { id, generation } = &self.clients[who];
        let request = SyncRequest {
            group_id: group_of(who),
            generation_id: generation + i32::from(choice as i8) / 100,
            member_id: id,
            group_instance_id: INSTANCES[who],
            protocol_type: (choice & 32 == 0).then_some("consumer"),
            protocol_name: None,
            assignments: plan.clone(),
            keep: &|| CopiedAssignments::of(plan.clone()),
        };
        if let Some(answer) = self.groups.sync(&request, ticket, self.now) {
            self.answered(Output::Sync(ticket, answer));
        }
    }

    fn leave(&mut self, who: usize, too: usize, by_instance: bool) {
        let leaving = [who, too].map(|who| {
            let group_instance_id = INSTANCES[who];
            let member_id = if by_instance && group_instance_id.is_some() { "" } else { &*self.clients[who].id };
            LeavingMember { member_id, group_instance_id }
        });
        let mut entries = 0;
        self.groups.leave(group_of(who), leaving.into_iter(), self.now, |_| entries += 1);
        assert_eq!(entries, 2, "each entry is answered");
    }

    fn commit(&mut self, who: usize, a: u8, b: u8) {
        let Client { id, generation } = &self.clients[who];
        let is_outsider = a & 64 == 0;
        let request = CommitRequest {
            group_id: group_of(who),
            member_id: if is_outsider { "" } else { id },
            group_instance_id: if is_outsider { None } else { INSTANCES[who] },
            generation_id: if is_outsider { -1 } else { *generation },
            knows_group_id_not_found: b & 1 == 0,
        };
        let Ok(mut committer) = self.groups.begin_commit(&request, self.now) else { return };
        for i in 0..i32::from(a % 4) {
            let commit = PartitionCommit {
                partition: i - i32::from(b & 2),
                offset: i64::from(b),
                leader_epoch: -1,
                metadata: (b & 4 == 0).then_some("text"),
                commit_timestamp_ms: (b & 8 == 0).then_some(5_555),
                retention_ms: (b & 16 == 0).then_some(i64::from(b)),
            };
            committer.commit(TOPICS[usize::from(b / 32) % 2], [b / 128; 16], commit);
        }
    }

    fn administer(&mut self, who: usize, a: u8, b: u8) {
        let topic = TOPICS[usize::from(b % 2)];
        match a % 4 {
            0 => drop(self.groups.delete_group(group_of(who), self.now)),
            1 => {
                let mut topics = DeletedTopics::default();
                topics.add(topic.to_owned(), [1; 16]);
                let mut slot = Some(0);
                while let Some(from) = slot {
                    slot = self.groups.delete_offsets_of(&topics, from);
                }
            }
            2 => {
                if let Ok(mut deleter) = self.groups.begin_offset_delete(group_of(who)) {
                    deleter.delete(topic, i32::from(b / 2 % 4));
                }
            }
            // The partition goes to another node, and comes back with what is written.
            _ => {
                let gone = group_of(who);
                self.groups.unload(|group_id| group_id == gone, self.now);
                self.journal.retain(|record| **record.group_id() != *gone);
                self.stalled.iter_mut().for_each(|(_, records)| records.retain(|record| **record.group_id() != *gone));
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        let end_ms = self.now.monotonic_ms + ms;
        while self.now.monotonic_ms < end_ms {
            let next_ms = self.groups.next_deadline_ms().unwrap_or(end_ms).clamp(self.now.monotonic_ms, end_ms);
            self.now = self.now.after(Duration::from_millis(next_ms - self.now.monotonic_ms));
            self.settle();
        }
    }

    /// A journal ends its writes in order. If one fails on its way, so do those behind it; they are told of it from either end.
    fn end_a_write(&mut self, choice: u8, succeeds: bool) {
        if !succeeds {
            let mut failed = std::mem::take(&mut self.stalled);
            if choice.is_multiple_of(2) {
                failed.reverse();
            }
            for (write, records) in failed {
                self.end_write(write, records, false);
            }
            return;
        }
        for _ in 0..=choice % 3 {
            if !self.stalled.is_empty() {
                let (write, records) = self.stalled.remove(0);
                self.end_write(write, records, true);
            }
        }
    }

    fn end_write(&mut self, write: WriteId, mut records: Vec<Record>, succeeds: bool) {
        if succeeds {
            self.journal.append(&mut records);
            self.groups.written(write, Ok(()), self.now);
        } else {
            self.has_lost |= records.iter().any(|record| matches!(record, Record::GroupMetadata { .. }));
            self.groups.written(write, Err(ErrorCode::KAFKA_STORAGE_ERROR), self.now);
        }
    }

    fn restart(&mut self) {
        // What is on its way to the disk is lost, and nobody was told that it is there.
        if !self.stalled.is_empty() {
            self.has_lost = true;
            while let Some((write, records)) = self.stalled.pop() {
                self.end_write(write, records, false);
            }
            self.settle();
        }
        let again = self.replay();
        self.compare(&again);
        self.groups = again;
        self.open.clear();
        self.has_lost = false;
    }

    fn replay(&mut self) -> Groups {
        self.starts += 1;
        let (group, offsets) = self.settings.clone();
        let mut again = Groups::new(group, offsets, Box::new(CountedIds(self.starts << 32)), self.now);
        for record in &self.journal {
            again.apply(0, record);
        }
        while again.start_loaded(0, self.now) {}
        again
    }

    /// What is written is what is there: all offsets, and the members of every Stable group.
    fn compare(&self, again: &Groups) {
        for group in GROUPS {
            assert_eq!(offsets(&self.groups, group), offsets(again, group), "offsets of {group}");
            let Some(before) = self.groups.describe(group).filter(|group| group.state() == "Stable") else { continue };
            let after = again.describe(group).filter(|_| !self.has_lost);
            if let Some(after) = after.filter(|after| after.state() == "Stable") {
                let shown = |group: rallypoint::group::GroupDescription<'_>| {
                    let members = group.members().map(|m| format!("{m:?} {:?} {:?}", m.metadata(), m.assignment()));
                    let ids: BTreeSet<String> = group.members().map(|m| m.member_id().to_owned()).collect();
                    (ids, members.count(), group.protocol_data().to_owned())
                };
                assert_eq!(shown(before), shown(after), "members of {group}");
            }
        }
    }

    fn settle(&mut self) {
        loop {
            let mut records = Vec::new();
            if let Some(taken) = self.groups.take_records(&mut records) {
                match self.disk {
                    Disk::Stalls => self.stalled.push((taken.write, records)),
                    // A journal ends its writes in order.
                    _ if !self.stalled.is_empty() => self.stalled.push((taken.write, records)),
                    disk => self.end_write(taken.write, records, disk == Disk::Works),
                }
            }
            while let Some(output) = self.groups.poll_output() {
                self.answered(output);
            }
            self.groups.advance(self.now);
            self.groups.do_a_piece(self.now);
            let is_due = self.groups.next_deadline_ms().is_some_and(|ms| ms <= self.now.monotonic_ms);
            if !is_due && !self.groups.has_records() && !self.groups.has_output() {
                return;
            }
        }
    }

    fn answered(&mut self, output: Output) {
        let (Output::Join(ticket, _) | Output::Sync(ticket, _)) = output;
        let who = self.open.remove(&ticket.correlation_id).expect("a request is answered once");
        if let Output::Join(_, answer) = output {
            let client = &mut self.clients[who];
            client.id = if matches!(answer.error.0, 25 | 82) { String::new() } else { answer.member_id.to_string() };
            client.generation = answer.generation_id;
        }
    }

    /// Nobody asks for anything any more: all members go, then all groups with their offsets, and no timer is left.
    fn end(&mut self) {
        self.disk = Disk::Works;
        while !self.stalled.is_empty() {
            self.end_a_write(2, true);
        }
        self.settle();
        let again = self.replay();
        self.compare(&again);
        self.pass(400_000);
        assert!(self.groups.list().all(|group| group.state == "Empty"), "everybody's session has ended");
        self.pass(1_800_000);
        assert_eq!(self.groups.len(), 0, "nothing outlives its retention");
        let again = self.replay();
        assert_eq!(again.len(), 0, "and the journal says so");
    }

    fn members(&self, group: &str) -> Vec<String> {
        let group = self.groups.describe(group);
        group.iter().flat_map(|group| group.members()).map(|member| member.member_id().to_owned()).collect()
    }

    fn ticket(&mut self, who: usize, version: i16) -> Ticket {
        self.last_ticket += 1;
        self.open.insert(self.last_ticket, who);
        Ticket { connection: who as u64, correlation_id: self.last_ticket, version }
    }
}

fn group_of(who: usize) -> &'static str {
    GROUPS[usize::from(who >= 6)]
}

fn instance(who: usize, choice: u8) -> Option<&'static str> {
    if choice < 200 { INSTANCES[who] } else { Some("s") }
}

fn offsets(groups: &Groups, group: &str) -> BTreeMap<(String, i32), (i64, String)> {
    let Some(offsets) = groups.offsets(group) else { return BTreeMap::new() };
    let topics = offsets.topics().flat_map(|topic| topic.partitions().map(move |found| (topic.topic(), found)));
    topics
        .map(|(topic, found)| ((topic.to_owned(), found.partition), (found.offset, found.metadata.to_owned())))
        .collect()
}

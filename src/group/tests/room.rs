//! Clients, a clock and a journal around one core's groups.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::settings::{GroupSettings, OffsetSettings};
use crate::group::*;

/// Ids from a counter.
pub(super) struct CountedIds(pub(super) u64);

impl Ids for CountedIds {
    fn next(&mut self) -> [u8; 16] {
        self.0 += 1;
        // Above the bits that say which kind of UUID it is.
        (u128::from(self.0) << 80 | 7).to_be_bytes()
    }
}

/// What becomes of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// Each is durable at once.
    Works,
    /// Each is refused at once.
    Fails(ErrorCode),
    /// They stay until [`Room::end_writes`].
    Stalls,
}

/// One core's groups and everything around them.
pub(super) struct Room {
    pub(super) groups: Groups,
    pub(super) now: Now,
    pub(super) disk: Disk,
    /// All records that were ever written.
    pub(super) journal: Vec<Record>,
    pub(super) stalled: Vec<(WriteId, Vec<Record>)>,
    answers: HashMap<i32, Output>,
    last_ticket: i32,
    restarts: u64,
    pub(super) settings: (GroupSettings, OffsetSettings),
}

/// A client and what it knows.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) group: String,
    pub(super) id: String,
    pub(super) instance: Option<String>,
    pub(super) client_id: String,
    pub(super) protocol_type: String,
    pub(super) protocols: Vec<(String, Vec<u8>)>,
    pub(super) session_ms: i32,
    pub(super) rebalance_ms: i32,
    pub(super) version: i16,
    pub(super) generation: i32,
}

pub(super) fn settings() -> GroupSettings {
    GroupSettings { min_session_timeout_ms: 1, initial_rebalance_delay_ms: 0, ..GroupSettings::default() }
}

pub(super) fn client(group: &str) -> Client {
    Client {
        group: group.into(),
        id: String::new(),
        instance: None,
        client_id: "client".into(),
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), b"meta".to_vec())],
        session_ms: 10_000,
        rebalance_ms: 60_000,
        version: 3,
        generation: -1,
    }
}

impl Client {
    pub(super) fn with_id(mut self, id: &str) -> Client {
        self.id = id.into();
        self
    }

    pub(super) fn with_instance(mut self, instance: &str) -> Client {
        self.instance = Some(instance.into());
        self.version = self.version.max(5);
        self
    }

    pub(super) fn with_version(mut self, version: i16) -> Client {
        self.version = version;
        self
    }

    pub(super) fn with_session(mut self, session_ms: i32) -> Client {
        self.session_ms = session_ms;
        self
    }

    pub(super) fn with_rebalance(mut self, rebalance_ms: i32) -> Client {
        self.rebalance_ms = rebalance_ms;
        self
    }

    /// `range:x,robin:y`
    pub(super) fn with_protocols(mut self, protocols: &str) -> Client {
        self.protocols = protocols
            .split(',')
            .filter(|one| !one.is_empty())
            .map(|one| one.split_once(':').unwrap_or((one, "")))
            .map(|(name, metadata)| (name.to_owned(), metadata.as_bytes().to_vec()))
            .collect();
        self
    }

    pub(super) fn with_type(mut self, protocol_type: &str) -> Client {
        self.protocol_type = protocol_type.into();
        self
    }

    /// After a restart of a static member: it knows its instance id only.
    pub(super) fn restarted(&self) -> Client {
        Client { id: String::new(), generation: -1, ..self.clone() }
    }
}

impl Room {
    pub(super) fn new() -> Room {
        Room::with(settings(), OffsetSettings::default())
    }

    pub(super) fn with_delay(initial_rebalance_delay_ms: i32) -> Room {
        Room::with(GroupSettings { initial_rebalance_delay_ms, ..settings() }, OffsetSettings::default())
    }

    pub(super) fn with_max_size(max_size: i32, initial_rebalance_delay_ms: i32) -> Room {
        Room::with(GroupSettings { max_size, initial_rebalance_delay_ms, ..settings() }, OffsetSettings::default())
    }

    pub(super) fn with(group: GroupSettings, offsets: OffsetSettings) -> Room {
        let now = Now { monotonic_ms: 1_000, unix_ms: 1_700_000_000_000 };
        Room {
            groups: Groups::new(group.clone(), offsets.clone(), Box::new(CountedIds(0)), now),
            now,
            disk: Disk::Works,
            journal: Vec::new(),
            stalled: Vec::new(),
            answers: HashMap::new(),
            last_ticket: 0,
            restarts: 0,
            settings: (group, offsets),
        }
    }

    /// A topic is gone, of whose id no offset knows.
    pub(super) fn delete_topic(&mut self, topic: &str) {
        let mut topics = DeletedTopics::default();
        topics.add(topic.into(), [9; 16]);
        let mut slot = Some(0);
        while let Some(from) = slot {
            slot = self.groups.delete_offsets_of(&topics, from);
        }
    }

    /// The same after a restart: what the journal says, everything else forgotten.
    pub(super) fn restart(&mut self) {
        let (group, offsets) = self.settings.clone();
        self.restarts += 1;
        self.groups = Groups::new(group, offsets, Box::new(CountedIds(self.restarts << 32)), self.now);
        for record in &self.journal {
            self.groups.apply(0, record);
        }
        while self.groups.start_loaded(0, self.now) {}
        self.answers.clear();
        self.settle();
    }

    /// The journal becomes what lives of it, as a snapshot would have it.
    pub(super) fn compact(&mut self) {
        let (mut walk, mut records) = (self.groups.begin_walk(), Vec::new());
        while self.groups.walk(&mut walk, |_| true, &mut records) {}
        self.journal = records;
    }

    // ---- what clients send; the number finds the answer ------------------------------------------------------------

    pub(super) fn join(&mut self, client: &Client) -> i32 {
        let ticket = self.ticket(client.version);
        let request = JoinRequest {
            group_id: &client.group,
            member_id: &client.id,
            group_instance_id: client.instance.as_deref(),
            client_id: &client.client_id,
            client_host: "/127.0.0.1",
            session_timeout_ms: client.session_ms,
            rebalance_timeout_ms: client.rebalance_ms,
            protocol_type: &client.protocol_type,
            protocols: client.protocols.iter().map(|(name, metadata)| (name, &metadata[..])),
            requires_known_member_id: client.version >= 4,
            knows_skip_assignment: client.version >= 9,
        };
        if let Some(answer) = self.groups.join(&request, ticket, self.now) {
            self.answers.insert(ticket.correlation_id, Output::Join(ticket, answer));
        }
        self.settle();
        ticket.correlation_id
    }

    pub(super) fn sync(&mut self, client: &Client, assignments: &[(&str, &str)]) -> i32 {
        self.sync_as(client, None, None, assignments)
    }

    pub(super) fn sync_as(
        &mut self,
        client: &Client,
        protocol_type: Option<&str>,
        protocol_name: Option<&str>,
        assignments: &[(&str, &str)],
    ) -> i32 {
        let ticket = self.ticket(client.version);
        let rows = assignments.iter().map(|(id, assignment)| (*id, assignment.as_bytes()));
        let request = SyncRequest {
            group_id: &client.group,
            generation_id: client.generation,
            member_id: &client.id,
            group_instance_id: client.instance.as_deref(),
            protocol_type,
            protocol_name,
            assignments: rows.clone(),
            keep: &|| CopiedAssignments::of(rows.clone()),
        };
        if let Some(answer) = self.groups.sync(&request, ticket, self.now) {
            self.answers.insert(ticket.correlation_id, Output::Sync(ticket, answer));
        }
        self.settle();
        ticket.correlation_id
    }

    pub(super) fn heartbeat(&mut self, client: &Client) -> i16 {
        let Client { group, generation, id, instance, .. } = client;
        let code = self.groups.heartbeat(group, *generation, id, instance.as_deref(), self.now);
        self.settle();
        code.0
    }

    /// LeaveGroup of these; the top-level code, then those of the entries.
    pub(super) fn leave(&mut self, group: &str, members: &[(&str, Option<&str>)]) -> (i16, Vec<i16>) {
        let members = members.iter().map(|(member_id, group_instance_id)| LeavingMember {
            member_id: *member_id,
            group_instance_id: *group_instance_id,
        });
        let mut codes = Vec::new();
        let top = self.groups.leave(group, members, self.now, |code| codes.push(code.0));
        self.settle();
        (top.0, codes)
    }

    pub(super) fn commit(&mut self, client: &Client, topic: &str, partition: i32, offset: i64) -> i16 {
        let commit = PartitionCommit {
            partition,
            offset,
            leader_epoch: -1,
            metadata: None,
            commit_timestamp_ms: None,
            retention_ms: None,
        };
        self.commit_as(client, topic, commit)
    }

    pub(super) fn commit_as(&mut self, client: &Client, topic: &str, commit: PartitionCommit<'_>) -> i16 {
        let request = CommitRequest {
            group_id: &client.group,
            member_id: &client.id,
            group_instance_id: client.instance.as_deref(),
            generation_id: client.generation,
            knows_group_id_not_found: client.version >= 9,
        };
        let code = match self.groups.begin_commit(&request, self.now) {
            Ok(mut committer) => committer.commit(topic, [0; 16], commit),
            Err(error) => error,
        };
        self.settle();
        code.0
    }

    // ---- what comes back -------------------------------------------------------------------------------------------

    /// The answer of a JoinGroup, if it is there.
    pub(super) fn joined(&mut self, ticket: i32) -> Option<JoinAnswer> {
        match self.answers.remove(&ticket)? {
            Output::Join(_, answer) => Some(answer),
            Output::Sync(..) => panic!("a SyncGroup"),
        }
    }

    /// The answer of a SyncGroup, if it is there.
    pub(super) fn synced(&mut self, ticket: i32) -> Option<SyncAnswer> {
        match self.answers.remove(&ticket)? {
            Output::Sync(_, answer) => Some(answer),
            Output::Join(..) => panic!("a JoinGroup"),
        }
    }

    /// All answers that were not taken yet, by ticket.
    pub(super) fn take_answers(&mut self) -> Vec<(i32, Output)> {
        let mut answers: Vec<(i32, Output)> = self.answers.drain().collect();
        answers.sort_by_key(|(ticket, _)| *ticket);
        answers
    }

    pub(super) fn is_answered(&self, ticket: i32) -> bool {
        self.answers.contains_key(&ticket)
    }

    pub(super) fn state(&self, group: &str) -> &'static str {
        self.groups.describe(group).map_or("Dead", |group| group.state())
    }

    pub(super) fn offset(&self, group: &str, topic: &str, partition: i32) -> i64 {
        self.groups
            .offsets(group)
            .and_then(|offsets| offsets.get(topic, None, partition))
            .map_or(-1, |offset| offset.offset)
    }

    /// Member ids and assignments, sorted.
    pub(super) fn members(&self, group: &str) -> Vec<(String, String)> {
        let mut members: Vec<(String, String)> = self
            .groups
            .describe(group)
            .iter()
            .flat_map(|group| group.members())
            .map(|member| (member.member_id().to_owned(), String::from_utf8(member.assignment().to_vec()).unwrap()))
            .collect();
        members.sort();
        members
    }

    // ---- whole conversations ---------------------------------------------------------------------------------------

    /// Joins, with a second request if an id is handed out first, and takes the answer, which must be there.
    pub(super) fn join_through(&mut self, client: &mut Client) -> JoinAnswer {
        let mut ticket = self.join(client);
        if let Some(Output::Join(_, answer)) = self.answers.get(&ticket)
            && answer.error == ErrorCode::MEMBER_ID_REQUIRED
        {
            client.id = answer.member_id.to_string();
            ticket = self.join(client);
        }
        let answer = self.joined(ticket).expect("the JoinGroup is answered");
        (client.id, client.generation) = (answer.member_id.to_string(), answer.generation_id);
        answer
    }

    /// A CompletingRebalance group of these clients; the first leads.
    pub(super) fn join_all(&mut self, clients: &mut [Client]) {
        let (first, rest) = clients.split_first_mut().unwrap();
        assert_eq!(self.join_through(first).error, ErrorCode::NONE);
        let mut tickets = Vec::new();
        for client in &mut *rest {
            let mut ticket = self.join(client);
            if let Some(answer) = self.joined(ticket) {
                client.id = answer.member_id.to_string();
                ticket = self.join(client);
            }
            tickets.push(ticket);
        }
        if !rest.is_empty() {
            assert_eq!(self.join_through(first).error, ErrorCode::NONE);
        }
        for (client, ticket) in rest.iter_mut().zip(tickets) {
            let answer = self.joined(ticket).expect("the JoinGroup is answered");
            assert_eq!(answer.error, ErrorCode::NONE);
            (client.id, client.generation) = (answer.member_id.to_string(), answer.generation_id);
        }
    }

    /// A Stable group of these clients; the first leads, and they have the assignments part-0, part-1, ...
    pub(super) fn stable(&mut self, clients: &mut [Client]) {
        self.join_all(clients);
        let assignments: Vec<String> = (0..clients.len()).map(|i| format!("part-{i}")).collect();
        let plan: Vec<(&str, &str)> =
            clients.iter().zip(&assignments).map(|(client, part)| (&*client.id, &**part)).collect();
        let tickets: Vec<i32> = clients.iter().rev().map(|client| self.sync(client, &plan)).collect();
        for (ticket, part) in tickets.into_iter().rev().zip(&assignments) {
            let answer = self.synced(ticket).expect("the SyncGroup is answered");
            assert_eq!((answer.error, &*answer.assignment), (ErrorCode::NONE, part.as_bytes()));
        }
        assert_eq!(self.state(&clients[0].group), "Stable");
    }

    // ---- time and disk ---------------------------------------------------------------------------------------------

    /// Lets time pass, each timer at its moment.
    pub(super) fn pass(&mut self, ms: u64) {
        let end_ms = self.now.monotonic_ms + ms;
        loop {
            let deadline_ms = self.groups.next_deadline_ms().unwrap_or(u64::MAX);
            let to_ms = deadline_ms.clamp(self.now.monotonic_ms, end_ms);
            self.now = self.now.after(Duration::from_millis(to_ms - self.now.monotonic_ms));
            self.settle();
            if self.now.monotonic_ms == end_ms {
                return;
            }
        }
    }

    /// All writes that stalled end like this, oldest first.
    pub(super) fn end_writes(&mut self, result: Result<(), ErrorCode>) {
        for (write, mut records) in std::mem::take(&mut self.stalled) {
            if result.is_ok() {
                self.journal.append(&mut records);
            }
            self.groups.written(write, result, self.now);
        }
        self.settle();
    }

    /// Everything that is due now.
    pub(super) fn settle(&mut self) {
        loop {
            let mut records = Vec::new();
            if let Some(taken) = self.groups.take_records(&mut records) {
                match self.disk {
                    Disk::Works => {
                        self.journal.append(&mut records);
                        self.groups.written(taken.write, Ok(()), self.now);
                    }
                    Disk::Fails(error) => self.groups.written(taken.write, Err(error), self.now),
                    Disk::Stalls => self.stalled.push((taken.write, records)),
                }
            }
            while let Some(output) = self.groups.poll_output() {
                let (Output::Join(ticket, _) | Output::Sync(ticket, _)) = output;
                let before = self.answers.insert(ticket.correlation_id, output);
                assert!(before.is_none(), "answered twice: {before:?}");
            }
            self.groups.advance(self.now);
            self.groups.do_a_piece(self.now);
            let is_due = self.groups.next_deadline_ms().is_some_and(|ms| ms <= self.now.monotonic_ms);
            if !is_due && !self.groups.has_records() && self.groups.core.outputs.is_empty() {
                self.check_census();
                return;
            }
        }
    }

    /// What is counted along the way is what one finds by counting.
    fn check_census(&self) {
        let census = self.groups.census();
        if census.groups > 100 || census.members > 1_000 {
            return;
        }
        let counted = Census {
            groups: self.groups.iter().count(),
            members: self.groups.iter().map(|group| group.classic.member_count()).sum(),
            offsets: self.groups.iter().map(|group| group.offsets.keys().count()).sum(),
            pending_members: self.groups.iter().map(|group| group.classic.pending_members()).sum(),
        };
        assert_eq!(census, counted);
        let bytes: usize = self.groups.iter().map(|group| group.bytes()).sum();
        assert_eq!(self.groups.core.memory.used_bytes(), bytes);
    }

    fn ticket(&mut self, version: i16) -> Ticket {
        self.last_ticket += 1;
        Ticket { connection: 1, correlation_id: self.last_ticket, version }
    }
}

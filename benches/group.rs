//! The group machine alone, without network and journal: time for each operation and memory for each group, member and offset.
//!
//! `cargo bench --no-default-features --bench group`. Times are CPU time, except where a single piece of work is measured; compare
//! them with the same run of another revision only. Memory is resident memory, malloc's overhead included; each part has a
//! process of its own.

#![allow(clippy::disallowed_methods, reason = "measures time, and reads /proc")]

use std::time::{Duration, Instant};

use rallypoint::clock::Now;
use rallypoint::group::settings::{GroupSettings, OffsetSettings};
use rallypoint::group::{
    CommitRequest, CopiedAssignments, Groups, Ids, JoinRequest, Output, PartitionCommit, Record, SyncRequest, Ticket,
};

struct CountedIds(u64);

impl Ids for CountedIds {
    fn next(&mut self) -> [u8; 16] {
        self.0 += 1;
        (u128::from(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(self.0)).to_be_bytes()
    }
}

struct Core {
    groups: Groups,
    now: Now,
    records: Vec<Record>,
    tickets: i32,
    longest: Duration,
}

const METADATA: [u8; 100] = [7; 100];

const PARTS: [(&str, fn()); 3] = [("groups", groups_of_one), ("large", one_large_group), ("offsets", offsets)];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, part) in PARTS {
        if asked.iter().any(|asked| asked == name) {
            part();
        } else if asked.is_empty() {
            let itself = std::env::current_exe().expect("its own path");
            let status = std::process::Command::new(itself).arg(name).status().expect("it starts again");
            assert!(status.success(), "{name}");
        }
    }
}

fn groups_of_one() {
    const COUNT: usize = 100_000;
    let ids: Vec<String> = (0..COUNT).map(|i| format!("consumer-group-{i:07}")).collect();
    let mut core = Core::new(0);
    let before = resident_bytes();
    let start = cpu_time();
    let mut members = Vec::with_capacity(COUNT);
    for chunk in ids.chunks(64) {
        let handed_out: Vec<String> =
            chunk.iter().map(|group| core.join(group, "").expect("an id").member_id.to_string()).collect();
        for (group, member) in chunk.iter().zip(&handed_out) {
            core.join(group, member);
        }
        core.turn();
        for (group, member) in chunk.iter().zip(&handed_out) {
            core.sync(group, member, 1, &[(member, &METADATA)]);
        }
        core.turn();
        members.extend(handed_out);
    }
    report("groups of one, from the first JoinGroup to the SyncGroup", cpu_time() - start, COUNT);
    let mine = members.iter().map(|id| id.len() + 24 + 8).sum::<usize>();
    let grown = resident_bytes().saturating_sub(before + mine);
    println!("{:>58}: {} bytes a group", "memory of a group of one", grown / COUNT);

    let start = cpu_time();
    for round in 0..10 {
        core.pass(2_000 + round);
        for (group, member) in ids.iter().zip(&members) {
            assert!(core.groups.heartbeat(group, 1, member, None, core.now).is_none());
        }
    }
    report("heartbeats over all groups, and their timers", cpu_time() - start, 10 * COUNT);
    let start = cpu_time();
    for _ in 0..10 {
        for (group, member) in ids[..100].iter().zip(&members) {
            assert!(core.groups.heartbeat(group, 1, member, None, core.now).is_none());
        }
    }
    report("heartbeats of a hundred groups", cpu_time() - start, 1_000);
    core.longest = Duration::ZERO;
    let start = cpu_time();
    core.pass(60_000);
    report("sessions that end", cpu_time() - start, COUNT);
    assert!(core.groups.list().all(|group| group.state == "Empty"));
    println!("{:>58}: {:?}", "the longest piece of it", core.longest);
}

fn one_large_group() {
    let count = 10_000;
    let mut core = Core::new(0);
    let before = resident_bytes();
    let start = cpu_time();
    let members: Vec<String> =
        (0..count).map(|_| core.join("large", "").expect("an id").member_id.to_string()).collect();
    report("ids handed out in one group", cpu_time() - start, count);
    let start = cpu_time();
    for member in &members {
        core.join("large", member);
    }
    report("joins of one group", cpu_time() - start, count);
    core.measured_turn("the join phase ends");
    let plan: Vec<(&str, &[u8])> = members.iter().map(|member| (&**member, &METADATA[..])).collect();
    let start = cpu_time();
    for member in members[1..].iter() {
        core.sync("large", member, 1, &[]);
    }
    report("followers' syncs", cpu_time() - start, count - 1);
    let start = Instant::now();
    core.sync("large", &members[0], 1, &plan);
    println!("{:>58}: {:?}", "the leader's sync, written at once", start.elapsed());
    core.measured_turn("what is left of it");
    let mine = count * (60 + 24 + 16);
    println!(
        "{:>58}: {} bytes a member",
        "memory of a large group",
        resident_bytes().saturating_sub(before + mine) / count
    );
    let start = cpu_time();
    for member in &members {
        core.join("large", member);
    }
    report("rejoins, the leader first", cpu_time() - start, count);
    core.measured_turn("the join phase ends again");
}

fn offsets() {
    const GROUPS: usize = 1_000;
    const PARTITIONS: i32 = 1_000;
    let mut core = Core::new(0);
    let before = resident_bytes();
    let ids: Vec<String> = (0..GROUPS).map(|i| format!("group-{i}")).collect();
    let start = cpu_time();
    for group in &ids {
        for partition in 0..PARTITIONS {
            core.commit(group, partition);
        }
    }
    let count = GROUPS * PARTITIONS as usize;
    report("commits of new partitions", cpu_time() - start, count);
    println!("{:>58}: {} bytes", "memory of an offset", resident_bytes().saturating_sub(before) / count);
    let start = cpu_time();
    for partition in 0..PARTITIONS {
        for group in &ids {
            core.commit(group, partition);
        }
    }
    report("commits of known partitions, another group each time", cpu_time() - start, count);
}

impl Core {
    fn new(initial_rebalance_delay_ms: i32) -> Core {
        let now = Now { monotonic_ms: 1, unix_ms: 1_700_000_000_000 };
        let settings = GroupSettings { initial_rebalance_delay_ms, ..GroupSettings::default() };
        let groups = Groups::new(settings, OffsetSettings::default(), Box::new(CountedIds(0)), now);
        Core { groups, now, records: Vec::new(), tickets: 0, longest: Duration::ZERO }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket { connection: 1, correlation_id: self.tickets, version: 9 }
    }

    fn join(&mut self, group_id: &str, member_id: &str) -> Option<rallypoint::group::JoinAnswer> {
        let ticket = self.ticket();
        let request = JoinRequest {
            group_id,
            member_id,
            group_instance_id: None,
            client_id: "rdkafka",
            client_host: "/127.0.0.1",
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            protocol_type: "consumer",
            protocols: [("range", &METADATA[..]), ("roundrobin", &METADATA[..0])].into_iter(),
            requires_known_member_id: true,
            knows_skip_assignment: true,
        };
        let answer = self.groups.join(&request, ticket, self.now);
        self.write();
        answer
    }

    fn sync(&mut self, group_id: &str, member_id: &str, generation_id: i32, plan: &[(&str, &[u8])]) {
        let ticket = self.ticket();
        let request = SyncRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: plan.iter().copied(),
            keep: &|| CopiedAssignments::of(plan.iter().copied()),
        };
        assert!(self.groups.sync(&request, ticket, self.now).is_none());
        self.write();
    }

    fn commit(&mut self, group_id: &str, partition: i32) {
        let request = CommitRequest {
            group_id,
            member_id: "",
            group_instance_id: None,
            generation_id: -1,
            knows_group_id_not_found: true,
        };
        let commit = PartitionCommit {
            partition,
            offset: 1,
            leader_epoch: -1,
            metadata: None,
            commit_timestamp_ms: None,
            retention_ms: None,
        };
        let mut committer = self.groups.begin_commit(&request, self.now).expect("a simple group");
        assert!(committer.commit("a-topic", [1; 16], commit).is_none());
        self.write();
    }

    /// A journal that is durable at once and keeps nothing.
    fn write(&mut self) {
        if let Some(taken) = self.groups.take_records(&mut self.records) {
            self.records.clear();
            self.groups.written(taken.write, Ok(()), self.now);
        }
    }

    fn turn(&mut self) {
        self.groups.advance(self.now);
        self.write();
        self.groups.do_a_piece(self.now);
        self.write();
        while let Some(output) = self.groups.poll_output() {
            let (Output::Join(_, _) | Output::Sync(_, _)) = output;
        }
    }

    /// A turn in its parts: what is done at once, and the answers, which can be taken piece by piece.
    fn measured_turn(&mut self, what: &str) {
        let start = Instant::now();
        self.groups.advance(self.now);
        self.write();
        self.groups.do_a_piece(self.now);
        self.write();
        let at_once = start.elapsed();
        let start = Instant::now();
        let mut answers = 0;
        while let Some(output) = self.groups.poll_output() {
            std::hint::black_box(output);
            answers += 1;
        }
        println!("{what:>58}: {at_once:?}, then {answers} answers in {:?}", start.elapsed());
    }

    fn pass(&mut self, ms: u64) {
        let end_ms = self.now.monotonic_ms + ms;
        while self.now.monotonic_ms < end_ms {
            let deadline_ms = self.groups.next_deadline_ms().unwrap_or(end_ms).clamp(self.now.monotonic_ms, end_ms);
            self.now = self.now.after(Duration::from_millis(deadline_ms - self.now.monotonic_ms));
            while self.groups.next_deadline_ms().is_some_and(|ms| ms <= self.now.monotonic_ms) {
                let start = Instant::now();
                self.groups.advance(self.now);
                self.write();
                self.groups.do_a_piece(self.now);
                self.longest = self.longest.max(start.elapsed());
                self.write();
            }
        }
    }
}

fn report(what: &str, elapsed: Duration, count: usize) {
    println!("{what:>58}: {:.0} ns each, {count} in {elapsed:?}", elapsed.as_nanos() as f64 / count as f64);
}

/// What this thread has run so far.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4_096
}

//! Random clients against the naive model: joins, syncs, heartbeats, leaves, commits, lost connections, restarts of clients and of
//! the server, a disk that fails, time that passes. Every answer and every description must be what the model says.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::naive::{self, Answer, Joining, Naive};
use super::naive_group::State;
use super::room::*;
use crate::group::settings::{GroupSettings, OffsetSettings};
use crate::group::{JoinAnswer, Output};

#[derive(Clone, Debug)]
enum Step {
    Join {
        client: usize,
        protocols: usize,
        protocol_type: usize,
        version: i16,
        without_id: bool,
    },
    Sync {
        client: usize,
        generation: i32,
        leaves_out: usize,
    },
    /// Everybody of a group joins, and again if an id was handed out.
    JoinAll {
        group: usize,
        version: i16,
        from: usize,
    },
    /// Everybody of a group syncs.
    SyncAll {
        group: usize,
        leaves_out: usize,
        is_backwards: bool,
    },
    Heartbeat {
        client: usize,
        generation: i32,
        is_stranger: bool,
    },
    Leave {
        clients: Vec<(usize, bool)>,
    },
    Commit {
        client: usize,
        generation: i32,
        is_outsider: bool,
    },
    Pass {
        ms: u64,
    },
    /// The client is killed: whatever it is told from now on is lost, and it starts over.
    Kill {
        client: usize,
    },
    Disk {
        fails: bool,
    },
    /// Of a snapshot instead of the journal that it stands for.
    Compact,
    Restart,
    Delete {
        group: usize,
    },
}

const PROTOCOLS: [&str; 6] =
    ["range:a,robin:b", "range:a", "robin:b,range:a", "range:other,robin:b", "robin:b", "x:1,range:a"];
const TYPES: [&str; 3] = ["consumer", "connect", ""];
const GROUPS: [&str; 2] = ["one", "two"];
/// Group and instance id; some share one.
const CLIENTS: [(usize, Option<&str>); 8] =
    [(0, None), (0, None), (0, None), (0, Some("s")), (0, Some("s")), (0, Some("t")), (1, None), (1, Some("s"))];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..CLIENTS.len();
    let generation = || prop_oneof![8 => Just(0), 1 => Just(1), 1 => Just(-1)];
    let join = (
        client(),
        0..PROTOCOLS.len(),
        prop_oneof![20 => Just(0), 1 => 1..3usize],
        0..10i16,
        prop::bool::weighted(0.25),
    )
        .prop_map(|(client, protocols, protocol_type, version, without_id)| {
            let protocols = if protocols > 2 && version % 3 > 0 { 0 } else { protocols };
            Step::Join { client, protocols, protocol_type, version, without_id }
        });
    let sync = (client(), generation(), 0..12usize).prop_map(|(client, generation, leaves_out)| Step::Sync {
        client,
        generation,
        leaves_out,
    });
    let join_all = (prop_oneof![4 => Just(0), 1 => Just(1)], 0..10i16, 0..3usize)
        .prop_map(|(group, version, from)| Step::JoinAll { group, version, from });
    let sync_all = (prop_oneof![4 => Just(0), 1 => Just(1)], 0..12usize, any::<bool>())
        .prop_map(|(group, leaves_out, is_backwards)| Step::SyncAll { group, leaves_out, is_backwards });
    let heartbeat = (client(), generation(), prop::bool::weighted(0.05))
        .prop_map(|(client, generation, is_stranger)| Step::Heartbeat { client, generation, is_stranger });
    let leave = prop::collection::vec((client(), any::<bool>()), 0..3).prop_map(|clients| Step::Leave { clients });
    let commit = (client(), generation(), prop::bool::weighted(0.2))
        .prop_map(|(client, generation, is_outsider)| Step::Commit { client, generation, is_outsider });
    let pass = prop_oneof![4 => 1..400u64, 4 => 400..5_000u64, 1 => 5_000..400_000u64];
    let step = prop_oneof![
        25 => join,
        8 => sync,
        8 => join_all,
        20 => sync_all,
        10 => heartbeat,
        4 => leave,
        6 => commit,
        20 => pass.prop_map(|ms| Step::Pass { ms }),
        2 => client().prop_map(|client| Step::Kill { client }),
        2 => prop::bool::weighted(0.3).prop_map(|fails| Step::Disk { fails }),
        2 => Just(Step::Compact),
        1 => Just(Step::Restart),
        1 => (0..2usize).prop_map(|group| Step::Delete { group }),
    ];
    prop::collection::vec(step, 1..120)
}

struct Both {
    room: Room,
    naive: Naive,
    clients: Vec<Client>,
    /// Whose answer a ticket is.
    asked: Vec<(i32, usize)>,
    offset: i64,
    restarts: u64,
    last_join_error: i16,
}

impl Both {
    fn new(delay_ms: i32, max_size: i32, members_per_piece: u32) -> Both {
        let group = GroupSettings { initial_rebalance_delay_ms: delay_ms, max_size, members_per_piece, ..settings() };
        // No look for expired offsets: it has tests of its own.
        let offsets = OffsetSettings { retention_check_interval_ms: 1 << 40, ..OffsetSettings::default() };
        let room = Room::with(group, offsets);
        let naive = Naive {
            groups: Vec::new(),
            answers: Vec::new(),
            now: room.now.monotonic_ms,
            delay_ms: delay_ms as u64,
            max_size: max_size as usize,
            next_id: 1,
            disk_fails: false,
            is_ambiguous: false,
        };
        let clients = (0i32..)
            .zip(CLIENTS)
            .map(|(i, (group, instance))| Client {
                instance: instance.map(Into::into),
                ..client(GROUPS[group]).with_session(4_001 + 37 * i).with_rebalance(6_007 + 1_013 * i)
            })
            .collect();
        Both { room, naive, clients, asked: Vec::new(), offset: 0, restarts: 0, last_join_error: 0 }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Join { client, protocols, protocol_type, version, without_id } => {
                let mut joining = self.clients[*client].clone().with_protocols(PROTOCOLS[*protocols]);
                joining.protocol_type = TYPES[*protocol_type].into();
                joining.version = *version;
                if *without_id {
                    joining.id.clear();
                }
                if joining.version < 5 {
                    joining.instance = None;
                }
                self.join(*client, &joining);
            }
            Step::Sync { client, generation, leaves_out } => self.sync(*client, *generation, *leaves_out),
            Step::JoinAll { group, version, from } => self.join_all(*group, *version, *from),
            Step::SyncAll { group, leaves_out, is_backwards } => self.sync_all(*group, *leaves_out, *is_backwards),
            Step::Heartbeat { client, generation, is_stranger } => self.heartbeat(*client, *generation, *is_stranger),
            Step::Leave { clients } => self.leave(clients),
            Step::Commit { client, generation, is_outsider } => self.commit(*client, *generation, *is_outsider),
            Step::Pass { ms } => self.pass(*ms),
            Step::Kill { client } => {
                let killed = &mut self.clients[*client];
                killed.id.clear();
                killed.generation = -1;
                self.asked.retain(|(_, asking)| asking != client);
            }
            Step::Disk { fails } => {
                self.naive.disk_fails = *fails;
                let error = crate::errors::ErrorCode::NOT_ENOUGH_REPLICAS;
                self.room.disk = if *fails { Disk::Fails(error) } else { Disk::Works };
            }
            Step::Compact => {
                self.naive.compact();
                self.room.compact();
            }
            Step::Restart => {
                self.restarts += 1;
                self.naive.next_id = (self.restarts << 32) + 1;
                self.naive.restart();
                self.room.restart();
                self.asked.clear();
            }
            Step::Delete { group } => {
                let expected = self.naive.delete(GROUPS[*group]);
                let now = self.room.now;
                assert_eq!(self.room.groups.delete_group(GROUPS[*group], now).0, expected, "DeleteGroups");
                self.room.settle();
            }
        }
    }

    fn join_all(&mut self, group: usize, version: i16, from: usize) {
        for client in clients_of(group).skip(from) {
            for _ in 0..2 {
                self.step(&Step::Join { client, protocols: 0, protocol_type: 0, version, without_id: false });
                self.compare();
                if self.last_join_error != 79 {
                    break;
                }
            }
        }
    }

    fn sync_all(&mut self, group: usize, leaves_out: usize, is_backwards: bool) {
        let mut clients: Vec<usize> =
            clients_of(group).filter(|client| self.clients[*client].generation >= 0).collect();
        if is_backwards {
            clients.reverse();
        }
        for client in clients {
            self.sync(client, 0, leaves_out);
            self.compare();
        }
    }

    fn heartbeat(&mut self, client: usize, generation: i32, is_stranger: bool) {
        let mut beating = self.clients[client].clone();
        beating.generation += generation;
        if is_stranger {
            beating.id = "stranger".into();
        }
        let Client { group, id, instance, generation, .. } = &beating;
        let expected = self.naive.heartbeat(group, id, instance.as_deref(), *generation);
        assert_eq!(self.room.heartbeat(&beating), expected, "Heartbeat of {beating:?}");
    }

    fn commit(&mut self, client: usize, generation: i32, is_outsider: bool) {
        let mut committing = self.clients[client].clone();
        committing.version = 3;
        committing.generation += generation;
        if is_outsider {
            committing = client_of(&committing.group);
        }
        self.offset += 1;
        let Client { group, id, instance, generation, .. } = &committing;
        let expected = self.naive.commit(group, id, instance.as_deref(), *generation, self.offset);
        assert_eq!(self.room.commit(&committing, "t", 0, self.offset), expected, "OffsetCommit of {committing:?}");
    }

    /// From deadline to deadline, so that each answer is compared while what led to it still stands.
    fn pass(&mut self, ms: u64) {
        let end = self.naive.now + ms;
        while self.naive.now < end && self.compare() {
            let next = self.naive.next_deadline().unwrap_or(end).clamp(self.naive.now, end);
            self.room.pass(next - self.naive.now);
            self.naive.go_to(next);
        }
    }

    fn join(&mut self, asking: usize, joining: &Client) {
        self.last_join_error = 0;
        let ticket = self.room.join(joining);
        self.asked.push((ticket, asking));
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).unwrap();
        self.naive.join(Joining {
            group: joining.group.clone(),
            id: joining.id.clone(),
            instance: joining.instance.clone(),
            version: joining.version,
            protocol_type: joining.protocol_type.clone(),
            protocols: joining.protocols.iter().map(|(name, metadata)| (name.clone(), text(metadata))).collect(),
            session_ms: joining.session_ms as u64,
            rebalance_ms: joining.rebalance_ms as u64,
            ticket,
        });
    }

    fn sync(&mut self, asking: usize, generation: i32, leaves_out: usize) {
        let mut syncing = self.clients[asking].clone();
        syncing.generation += generation;
        let members: Vec<String> = self.room.members(&syncing.group).into_iter().map(|(id, _)| id).collect();
        let plan: Vec<(String, String)> = (0..)
            .zip(members)
            .filter(|(i, _)| *i != leaves_out)
            .map(|(i, id)| (id, format!("part-{i}-of-{}", syncing.generation)))
            .collect();
        let borrowed: Vec<(&str, &str)> = plan.iter().map(|(id, part)| (&**id, &**part)).collect();
        let ticket = self.room.sync(&syncing, &borrowed);
        self.asked.push((ticket, asking));
        let Client { group, id, instance, generation, .. } = &syncing;
        self.naive.sync(group, id, instance.as_deref(), *generation, &plan, ticket);
    }

    fn leave(&mut self, clients: &[(usize, bool)]) {
        let group = GROUPS[clients.first().map_or(0, |(client, _)| CLIENTS[*client].0)];
        let leaving: Vec<(String, Option<String>)> = clients
            .iter()
            .map(|(client, by_instance)| match &self.clients[*client] {
                Client { instance: Some(instance), .. } if *by_instance => (String::new(), Some(instance.clone())),
                Client { id, instance, .. } => (id.clone(), instance.clone()),
            })
            .collect();
        let borrowed: Vec<(&str, Option<&str>)> =
            leaving.iter().map(|(id, instance)| (&**id, instance.as_deref())).collect();
        let codes = self.room.leave(group, &borrowed);
        assert_eq!(codes, (0, self.naive.leave(group, &leaving)), "LeaveGroup of {leaving:?}");
    }

    /// Whether the comparison can go on.
    fn compare(&mut self) -> bool {
        if self.naive.is_ambiguous {
            return false;
        }
        let mut expected = std::mem::take(&mut self.naive.answers);
        expected.sort_by_key(|(ticket, _)| *ticket);
        let seen = self.room.take_answers();
        assert_eq!(
            seen.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(),
            expected.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(),
            "answered requests; the model: {expected:?}"
        );
        for ((ticket, output), (_, expected)) in seen.into_iter().zip(expected) {
            self.compare_answer(ticket, output, expected);
        }
        for group in GROUPS {
            self.compare_group(group);
        }
        true
    }

    fn compare_answer(&mut self, ticket: i32, output: Output, expected: Answer) {
        let asking = self.asked.iter().find(|(asked, _)| *asked == ticket).map(|(_, client)| *client);
        match (output, expected) {
            (Output::Sync(_, seen), Answer::Sync { error, assignment }) => {
                assert_eq!((seen.error.0, &*seen.assignment), (error, assignment.as_bytes()), "SyncGroup {ticket}");
                assert_eq!(seen.protocol_name.is_some(), error == 0);
            }
            (Output::Join(_, seen), expected) => {
                self.last_join_error = seen.error.0;
                let expected = self.fill_in_leader(asking, &seen, expected);
                assert_eq!(as_model(&seen), expected, "JoinGroup {ticket}");
                if let Some(client) = asking.map(|asking| &mut self.clients[asking]) {
                    // As clients do: whoever is unknown or too many starts over.
                    let starts_over = matches!(seen.error.0, 25 | 81 | 82);
                    client.id = if starts_over { String::new() } else { seen.member_id.to_string() };
                    client.generation = seen.generation_id;
                }
            }
            (output, expected) => panic!("{output:?} instead of {expected:?}"),
        }
    }

    /// Who leads may be open, and members are told to whoever leads.
    fn fill_in_leader(&mut self, asking: Option<usize>, seen: &JoinAnswer, expected: Answer) -> Answer {
        let Answer::Join { error, generation, protocol, leader, member_id, skip_assignment, members } = expected else {
            panic!("{seen:?} instead of {expected:?}");
        };
        let group = self.group_of(asking, &member_id);
        let leader = match (leader, group) {
            (Some(leader), _) => leader,
            (None, Some(group)) => {
                let group = self.naive.group(&group).unwrap();
                let has_rejoined = |id: &str| group.members.iter().any(|member| member.id == id && member.owes);
                let adopted = group.leader.get_or_insert_with(|| seen.leader.to_string()).clone();
                assert!(has_rejoined(&adopted), "{adopted} leads");
                adopted
            }
            (None, None) => panic!("nobody's group"),
        };
        let members = if member_id == leader { members } else { BTreeSet::new() };
        Answer::Join { error, generation, protocol, leader: Some(leader), member_id, skip_assignment, members }
    }

    fn group_of(&mut self, asking: Option<usize>, member_id: &str) -> Option<String> {
        let of_client = asking.map(|asking| self.clients[asking].group.clone());
        let with_member =
            self.naive.groups.iter().find(|(_, group)| group.members.iter().any(|member| member.id == *member_id));
        of_client.or(with_member.map(|(id, _)| id.clone()))
    }

    fn compare_group(&mut self, id: &str) {
        let seen = self.room.groups.describe(id).map(|group| {
            let members: BTreeSet<(String, String)> = group
                .members()
                .map(|m| (m.member_id().to_owned(), String::from_utf8(m.assignment().to_vec()).unwrap()))
                .collect();
            (group.state(), group.protocol_type().to_owned(), group.protocol_data().to_owned(), members)
        });
        let offset = self.room.offset(id, "t", 0);
        let expected = self.naive.group(id).map(|group| {
            let state = match group.state {
                State::Empty => "Empty",
                State::Preparing(_) => "PreparingRebalance",
                State::Completing => "CompletingRebalance",
                State::Stable => "Stable",
            };
            let protocol = group.protocol.clone().filter(|_| group.state == State::Stable).unwrap_or_default();
            let members: BTreeSet<(String, String)> =
                group.members.iter().map(|member| (member.id.clone(), member.assignment.clone())).collect();
            (state, group.protocol_type.clone(), protocol, members)
        });
        assert_eq!(seen, expected, "group {id}");
        assert_eq!(offset, self.naive.group(id).map_or(-1, |group| group.offset), "offset of group {id}");
    }
}

fn clients_of(group: usize) -> impl Iterator<Item = usize> {
    (0..CLIENTS.len()).filter(move |client| CLIENTS[*client].0 == group)
}

fn client_of(group: &str) -> Client {
    client(group)
}

fn as_model(answer: &JoinAnswer) -> Answer {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Answer::Join {
        error: answer.error.0,
        generation: answer.generation_id,
        protocol: answer.protocol_name.as_deref().map(Into::into),
        leader: Some(answer.leader.to_string()),
        member_id: answer.member_id.to_string(),
        skip_assignment: answer.skip_assignment,
        members: answer
            .members
            .iter()
            .map(|m| (m.member_id().into(), m.group_instance_id().map(Into::into), text(m.metadata())))
            .collect(),
    }
}

/// PROPTEST_CASES, or as many as take a few seconds.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_what_the_naive_model_says(
        steps in steps(),
        delay_ms in prop_oneof![Just(1), Just(701)],
        max_size in prop_oneof![Just(3), Just(100)],
        members_per_piece in prop_oneof![Just(1), Just(2), Just(100)],
    ) {
        let mut both = Both::new(delay_ms, max_size, members_per_piece);
        for step in &steps {
            both.step(step);
            if !both.compare() {
                break;
            }
        }
    }
}

/// The comparison must be able to fail.
#[test]
fn the_model_is_refused_by_a_wrong_answer() {
    let mut both = Both::new(1, 100, 100);
    both.step(&Step::Join { client: 0, protocols: 0, protocol_type: 0, version: 3, without_id: false });
    both.naive.answers.push((1, naive::refused(25, "")));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| both.compare()));
    assert!(outcome.is_err());
}

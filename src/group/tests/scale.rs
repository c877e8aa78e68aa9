//! Ten thousand members in one group: work is counted, in looks at members and in what is kept, not in time.

use std::rc::Rc;

use super::room::*;
use crate::clock::Now;
use crate::group::slab::VISITS;
use crate::group::{Groups, JoinRequest, JoinedMember, Output, Record, SyncRequest, Ticket};

const MEMBERS: usize = 10_000;
const METADATA: [u8; 100] = [7; 100];

struct Core {
    groups: Groups,
    now: Now,
    records: Vec<Record>,
}

impl Core {
    fn new() -> Core {
        let now = Now { monotonic_ms: 1, unix_ms: 1 };
        let groups = Groups::new(settings(), Default::default(), Box::new(CountedIds(0)), now);
        Core { groups, now, records: Vec::new() }
    }

    fn join(&mut self, member_id: &str, number: usize) -> Option<String> {
        let request = JoinRequest {
            group_id: "large",
            member_id,
            group_instance_id: None,
            client_id: "client",
            client_host: "/127.0.0.1",
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            protocol_type: "consumer",
            protocols: [("range", &METADATA[..]), ("robin", &METADATA[..number % 3])].into_iter(),
            requires_known_member_id: true,
            knows_skip_assignment: true,
        };
        let answer = self.groups.join(&request, ticket(number), self.now);
        answer.map(|answer| answer.member_id.to_string())
    }

    fn sync(&mut self, member_id: &str, number: usize, plan: &[(String, Vec<u8>)]) {
        let request = SyncRequest {
            group_id: "large",
            generation_id: 1,
            member_id,
            group_instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: plan.iter().map(|(id, assignment)| (id, &assignment[..])),
        };
        assert!(self.groups.sync(&request, ticket(number), self.now).is_none());
    }

    fn write(&mut self) {
        while let Some(taken) = self.groups.take_records(&mut self.records) {
            self.groups.written(taken.write, Ok(()), self.now);
        }
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.groups.poll_output()).collect()
    }
}

fn ticket(number: usize) -> Ticket {
    Ticket { connection: number as u64, correlation_id: 1, version: 9 }
}

/// How often slots of members are looked at meanwhile, for each of so many.
fn visits_each(count: usize, work: impl FnOnce()) -> f64 {
    let before = VISITS.get();
    work();
    (VISITS.get() - before) as f64 / count as f64
}

#[test]
fn ten_thousand_members_cost_each_other_nothing() {
    let mut core = Core::new();
    let mut ids = Vec::new();
    let each = visits_each(MEMBERS, || {
        ids = (0..MEMBERS).map(|number| core.join("", number).unwrap()).collect();
    });
    assert!(each < 20.0, "an id is handed out: {each} looks");
    let each = visits_each(MEMBERS, || {
        for (number, id) in ids.iter().enumerate() {
            assert_eq!(core.join(id, number), None);
        }
    });
    assert!(each < 40.0, "a join: {each} looks");
    assert!(core.groups.poll_output().is_none());

    let each = visits_each(MEMBERS, || core.groups.advance(core.now));
    assert!(each < 20.0, "the end of the join phase: {each} looks for each member");
    assert_eq!(core.groups.core.timers.len(), MEMBERS + 1, "a session each, and the sync phase");
    let joined = core.outputs();
    assert_eq!(joined.len(), MEMBERS);
    let mut leaders = joined.iter().filter_map(|output| match output {
        Output::Join(_, answer) if !answer.members.is_empty() => Some(&answer.members),
        _ => None,
    });
    let told: &[JoinedMember] = leaders.next().unwrap();
    assert_eq!((told.len(), leaders.count()), (MEMBERS, 0), "one answer has the members");

    let plan: Vec<(String, Vec<u8>)> =
        ids.iter().enumerate().map(|(number, id)| (id.clone(), vec![number as u8; 100])).collect();
    let each = visits_each(MEMBERS, || {
        for (number, id) in ids.iter().enumerate().skip(1) {
            core.sync(id, number, &[]);
        }
    });
    assert!(each < 20.0, "a follower's sync: {each} looks");
    let each = visits_each(MEMBERS, || {
        core.sync(&ids[0], 0, &plan);
        core.write();
        core.groups.advance(core.now);
        for turn in ["placed", "written"] {
            core.write();
            assert_eq!(core.outputs().len(), 0, "{turn} in a turn of its own");
            assert!(core.groups.next_deadline_ms() <= Some(core.now.monotonic_ms));
            core.groups.advance(core.now);
        }
        core.write();
    });
    assert!(each < 20.0, "the leader's sync and what follows: {each} looks for each member");
    let synced = core.outputs();
    assert_eq!(synced.len(), MEMBERS);
    for output in &synced {
        let Output::Sync(ticket, answer) = output else { panic!("{output:?}") };
        assert_eq!(&*answer.assignment, vec![ticket.connection as u8; 100]);
    }
    let whole = |output: &Output| match output {
        Output::Sync(_, answer) => answer.assignment.whole().unwrap().clone(),
        other => panic!("{other:?}"),
    };
    let first = whole(&synced[0]);
    assert!(synced.iter().all(|output| Rc::ptr_eq(&first, &whole(output))), "one copy of all assignments");
    assert_eq!(first.len(), MEMBERS * 100, "and of nothing else that the leader sent");
    assert_eq!(core.groups.core.timers.len(), MEMBERS, "nobody owes a sync");
    assert_eq!(core.records.len(), 2, "the new group, and its first generation");
    heartbeats_and_leaves(&mut core, &ids);
}

#[test]
fn assignments_that_wait_for_their_turn_go_with_their_generation() {
    (1..3).for_each(gone_after);
}

fn gone_after(turns: usize) {
    const MEMBERS: usize = 2_001;
    let mut core = Core::new();
    let ids: Vec<String> = (0..MEMBERS).map(|number| core.join("", number).unwrap()).collect();
    ids.iter().enumerate().for_each(|(number, id)| assert_eq!(core.join(id, number), None));
    core.groups.advance(core.now);
    core.write();
    let plan: Vec<(String, Vec<u8>)> = ids.iter().map(|id| (id.clone(), vec![1])).collect();
    core.sync(&ids[0], 0, &plan);
    (0..turns).for_each(|_| core.groups.advance(core.now));
    let leaving = crate::group::LeavingMember { member_id: &ids[7], group_instance_id: None };
    core.groups.leave("large", std::iter::once(leaving), core.now, |code| assert_eq!(code.0, 0));
    let written = core.records.len();
    (0..2).for_each(|_| core.groups.advance(core.now));
    core.write();
    assert_eq!(core.records.len(), written, "nothing is written of a generation that is over");
    assert_eq!(core.groups.describe("large").unwrap().state(), "PreparingRebalance");
    assert!(core.groups.next_deadline_ms() > Some(core.now.monotonic_ms));
}

fn heartbeats_and_leaves(core: &mut Core, ids: &[String]) {
    let each = visits_each(MEMBERS, || {
        for id in ids {
            assert!(core.groups.heartbeat("large", 1, id, None, core.now).is_none());
        }
    });
    assert!(each < 10.0, "a heartbeat: {each} looks");
    let each = visits_each(MEMBERS, || {
        for id in ids {
            let leaving = crate::group::LeavingMember { member_id: id, group_instance_id: None };
            let mut codes = Vec::new();
            core.groups.leave("large", std::iter::once(leaving), core.now, |code| codes.push(code.0));
            assert_eq!(codes, [0]);
        }
    });
    assert!(each < 40.0, "a member leaves: {each} looks");
    assert_eq!(core.groups.describe("large").unwrap().state(), "Empty");
    assert_eq!(core.groups.core.timers.len(), 0);
}

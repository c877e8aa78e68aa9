//! Ten thousand members in one group: work is counted, in looks at members and in what is kept, not in time.

use std::rc::Rc;

use super::room::*;
use crate::clock::Now;
use crate::group::slab::VISITS;
use crate::group::{CopiedAssignments, Groups, JoinRequest, JoinedMember, Output, Record, SyncRequest, Ticket};
use crate::limits::MEMBERS_PER_PIECE;

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
        let rows = plan.iter().map(|(id, assignment)| (id, &assignment[..]));
        let request = SyncRequest {
            group_id: "large",
            generation_id: 1,
            member_id,
            group_instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: rows.clone(),
            keep: &|| CopiedAssignments::of(rows.clone()),
        };
        assert!(self.groups.sync(&request, ticket(number), self.now).is_none());
    }

    fn write(&mut self) {
        while let Some(taken) = self.groups.take_records(&mut self.records) {
            self.groups.written(taken.write, Ok(()), self.now);
        }
    }

    /// Turns until no group has a piece to come, and how many there were: each looks at so many members and no more.
    fn pieces(&mut self) -> usize {
        let mut pieces = 0;
        while !self.groups.core.piecework.is_empty() {
            assert!(self.groups.next_deadline_ms() <= Some(self.now.monotonic_ms));
            let each = visits_each(MEMBERS_PER_PIECE as usize, || self.groups.do_a_piece(self.now));
            assert!(each < 15.0, "a piece: {each} looks for each of its members");
            pieces += usize::from(each > 0.0);
        }
        pieces
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
        assert_eq!(core.pieces(), 5 + 5, "placed, then written");
        assert!(core.groups.poll_output().is_none(), "not before it is written");
        core.write();
        assert_eq!(core.groups.describe("large").unwrap().state(), "Stable");
        heartbeat_and_ask_again(&mut core, &ids);
        assert_eq!(core.pieces(), 5, "handed out");
    });
    assert!(each < 30.0, "the leader's sync and what follows: {each} looks for each member");
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
    let mut copies: Vec<Rc<[u8]>> = synced.iter().map(whole).collect();
    copies.dedup_by(|one, other| Rc::ptr_eq(one, other));
    assert_eq!(copies.len(), 5, "one copy of all assignments, in as many parts as there were pieces");
    let bytes: usize = copies.iter().map(|copy| copy.len()).sum();
    assert_eq!(bytes, MEMBERS * 100, "and of nothing else that the leader sent");
    assert_eq!(core.groups.core.timers.len(), MEMBERS, "nobody owes a sync");
    assert_eq!(core.records.len(), 2, "the new group, and its first generation");
    heartbeats_and_leaves(&mut core, &ids);
}

#[test]
fn assignments_that_wait_for_their_turn_go_with_their_generation() {
    (1..5).for_each(gone_after);
}

/// A member whose turn to be handed its assignment has not come yet is a member as any other.
fn heartbeat_and_ask_again(core: &mut Core, ids: &[String]) {
    core.groups.do_a_piece(core.now);
    let last = MEMBERS - 1;
    assert!(core.groups.heartbeat("large", 1, &ids[last], None, core.now).is_none());
    let member = core.groups.describe("large").unwrap().members().nth(last).unwrap();
    assert_eq!((member.member_id(), member.assignment()), (&*ids[last], &[last as u8; 100][..]));
    let rows = std::iter::empty::<(&str, &[u8])>();
    let request = SyncRequest {
        group_id: "large",
        generation_id: 1,
        member_id: &ids[last],
        group_instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: rows.clone(),
        keep: &|| CopiedAssignments::of(rows.clone()),
    };
    let answer = core.groups.sync(&request, ticket(last), core.now).expect("a Stable group answers at once");
    assert_eq!((answer.error.0, &*answer.assignment), (0, &[last as u8; 100][..]));
}

#[test]
fn whoever_waits_for_an_assignment_gets_it_before_the_group_moves_on() {
    const MEMBERS: usize = 2 * MEMBERS_PER_PIECE as usize;
    let mut core = Core::new();
    let ids: Vec<String> = (0..MEMBERS).map(|number| core.join("", number).unwrap()).collect();
    ids.iter().enumerate().for_each(|(number, id)| assert_eq!(core.join(id, number), None));
    core.groups.advance(core.now);
    core.write();
    core.outputs();
    ids.iter().enumerate().skip(1).for_each(|(number, id)| core.sync(id, number, &[]));
    let plan: Vec<(String, Vec<u8>)> = ids.iter().map(|id| (id.clone(), vec![7])).collect();
    core.sync(&ids[0], 0, &plan);
    core.pieces();
    core.write();
    (0..2).for_each(|_| core.groups.do_a_piece(core.now));
    assert_eq!(core.outputs().len(), MEMBERS_PER_PIECE as usize, "the first piece");
    let leaving = crate::group::LeavingMember { member_id: &ids[MEMBERS - 1], group_instance_id: None };
    core.groups.leave("large", std::iter::once(leaving), core.now, |code| assert_eq!(code.0, 0));
    assert_eq!(core.groups.describe("large").unwrap().state(), "PreparingRebalance");
    let handed_out = core.outputs();
    assert_eq!(handed_out.len(), MEMBERS - MEMBERS_PER_PIECE as usize);
    assert!(handed_out.iter().all(|output| matches!(output, Output::Sync(_, answer) if *answer.assignment == [7])));
    core.pieces();
    assert!(core.groups.poll_output().is_none(), "nobody is answered twice");
}

#[test]
fn a_group_is_large_from_one_member_more_than_a_piece_on() {
    for (members, pieces) in [(MEMBERS_PER_PIECE, 0), (MEMBERS_PER_PIECE + 1, 4)] {
        let mut core = Core::new();
        let ids: Vec<String> = (0..members as usize).map(|number| core.join("", number).unwrap()).collect();
        ids.iter().enumerate().for_each(|(number, id)| assert_eq!(core.join(id, number), None));
        core.groups.advance(core.now);
        core.write();
        let plan: Vec<(String, Vec<u8>)> = ids.iter().map(|id| (id.clone(), vec![1])).collect();
        let before = core.groups.bytes();
        core.sync(&ids[0], 0, &plan);
        let kept = core.groups.bytes() - before;
        assert_eq!(kept > 0, pieces > 0, "what is kept of the request is counted: {kept}");
        assert_eq!(core.pieces(), pieces);
        core.write();
        core.pieces();
        assert_eq!(core.groups.bytes() - before, ids.len(), "what is assigned");
    }
}

fn gone_after(turns: usize) {
    const MEMBERS: usize = MEMBERS_PER_PIECE as usize + 1;
    let mut core = Core::new();
    let ids: Vec<String> = (0..MEMBERS).map(|number| core.join("", number).unwrap()).collect();
    ids.iter().enumerate().for_each(|(number, id)| assert_eq!(core.join(id, number), None));
    core.groups.advance(core.now);
    core.write();
    let plan: Vec<(String, Vec<u8>)> = ids.iter().map(|id| (id.clone(), vec![1])).collect();
    core.sync(&ids[0], 0, &plan);
    (0..turns).for_each(|_| core.groups.do_a_piece(core.now));
    let leaving = crate::group::LeavingMember { member_id: &ids[7], group_instance_id: None };
    core.groups.leave("large", std::iter::once(leaving), core.now, |code| assert_eq!(code.0, 0));
    let written = core.records.len();
    core.pieces();
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

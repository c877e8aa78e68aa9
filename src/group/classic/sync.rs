//! SyncGroup: the leader hands in everybody's assignment, everybody gets its own.

use std::rc::Rc;

use crate::clock::Now;
use crate::errors::ErrorCode;
use crate::group::core::{GroupKey, Turn};
use crate::group::outcome::{Queued, SharedBytes, SyncAnswer, synced};
use crate::group::records::Record;
use crate::group::writes::{Assigned, HandedIn, Unwritten, Wait};
use crate::group::{Groups, Ticket};
use crate::limits::JOURNAL_ENTRY_MAX_BYTES;

use super::member::Parked;
use super::members::MemberSlot;
use super::{ClassicGroup, State};

/// To take the assignments of more members than this, to find whose they are, and to write the group with them, are three turns
/// of the core: each takes long enough for others to notice.
const MEMBERS_ASSIGNED_AT_ONCE_MAX: usize = 2_000;

/// A SyncGroup.
#[derive(Clone, Debug)]
pub struct SyncRequest<'a, A> {
    /// The group.
    pub group_id: &'a str,
    /// The generation that the member joined.
    pub generation_id: i32,
    /// The member.
    pub member_id: &'a str,
    /// Of a static member (version 3 and above).
    pub group_instance_id: Option<&'a str>,
    /// `None`: not sent (before version 5).
    pub protocol_type: Option<&'a str>,
    /// `None`: not sent (before version 5).
    pub protocol_name: Option<&'a str>,
    /// Member ids and their assignments; the leader's alone counts.
    pub assignments: A,
}

impl Groups {
    /// SyncGroup. `None`: the request is parked, its answer comes out of [`Groups::poll_output`].
    pub fn sync<'a, A, N>(&mut self, request: &SyncRequest<'a, A>, ticket: Ticket, now: Now) -> Option<SyncAnswer>
    where
        A: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        if request.group_id.is_empty() {
            return Some(SyncAnswer::refused(ErrorCode::INVALID_GROUP_ID));
        }
        let Some(key) = self.find(request.group_id) else {
            return Some(SyncAnswer::refused(ErrorCode::UNKNOWN_MEMBER_ID));
        };
        self.with(key, now, |group, turn| match group.classic.check_sync(request) {
            Err(error) => Some(SyncAnswer::refused(error)),
            Ok(slot) => group.classic.sync(slot, request, ticket, turn),
        })
    }
}

impl ClassicGroup {
    fn check_sync<A>(&self, request: &SyncRequest<'_, A>) -> Result<MemberSlot, ErrorCode> {
        let slot = self.members.validate(request.member_id, request.group_instance_id)?;
        if request.generation_id != self.generation_id {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let protocol_name = self.round.as_ref().map(|round| &*round.protocol_name);
        let differs = |given: Option<&str>, known: Option<&str>| given.is_some() && given != known;
        if differs(request.protocol_type, self.protocol_type.as_deref())
            || differs(request.protocol_name, protocol_name)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.state {
            State::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            State::PreparingRebalance(_) => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            State::CompletingRebalance | State::Stable => Ok(slot),
        }
    }

    fn sync<'a, A, N>(
        &mut self,
        slot: MemberSlot,
        request: &SyncRequest<'a, A>,
        ticket: Ticket,
        turn: &mut Turn<'_>,
    ) -> Option<SyncAnswer>
    where
        A: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let mut assigned_bytes = None;
        if self.state != State::Stable && self.leader == Some(slot) && !self.is_assigning {
            let bytes = request.assignments.clone().map(|(_, assignment)| assignment.len()).sum();
            if !turn.core.memory.has_room(bytes) {
                return Some(SyncAnswer::refused(turn.core.memory.refuse("memory", turn.now)));
            }
            assigned_bytes = Some(bytes);
        }
        self.members.set_owes_sync(slot, false);
        if self.state == State::Stable {
            self.end_sync_phase_if_nobody_owes(turn);
            let round = self.round.as_ref().expect("a Stable group has completed a join phase");
            let assignment = self.members.get(slot).expect("it is a member").assignment.clone();
            return Some(synced(round, assignment));
        }
        self.members.park_sync(slot, ticket);
        // A leader that asks again while its assignments are being written waits for those.
        if let Some(mut bytes) = assigned_bytes {
            if bytes > JOURNAL_ENTRY_MAX_BYTES {
                bytes = self.bytes_for_members(request.assignments.clone());
            }
            // The journal would refuse it, whatever else is in the record: it need not be copied to learn that.
            if bytes > JOURNAL_ENTRY_MAX_BYTES {
                self.refuse_assignments(ErrorCode::UNKNOWN_SERVER_ERROR, turn);
                return None;
            }
            self.is_assigning = true;
            let assignments = request.assignments.clone();
            if self.members.len() > MEMBERS_ASSIGNED_AT_ONCE_MAX {
                turn.core.unwritten.push_back(Unwritten::HandedIn(self.keep_assignments(assignments, bytes, turn.key)));
            } else {
                let assigned = self.take_assignments(assignments, bytes, turn.key);
                self.write_assignments(assigned, turn);
            }
        }
        None
    }

    /// Copies the assignments as they were handed in; whose they are is looked up in a turn to come.
    fn keep_assignments<'a, A, N>(&self, assignments: A, assigned_bytes: usize, key: GroupKey) -> HandedIn
    where
        A: Iterator<Item = (N, &'a [u8])>,
        N: AsRef<str>,
    {
        let (generation_id, bytes, rows) = (self.generation_id, Vec::new(), Vec::new());
        let mut handed_in = HandedIn { group: key, generation_id, assigned_bytes, bytes, rows };
        for (member_id, assignment) in assignments {
            let start = handed_in.bytes.len();
            handed_in.bytes.extend_from_slice(member_id.as_ref().as_bytes());
            let middle = handed_in.bytes.len();
            handed_in.bytes.extend_from_slice(assignment);
            handed_in.rows.push([start, middle, handed_in.bytes.len()].map(|at| at as u32));
        }
        handed_in
    }

    /// Finds whose assignments they are, if the group still waits for these.
    pub(in crate::group) fn place_assignments(&self, handed_in: HandedIn) -> Option<Box<Assigned>> {
        let HandedIn { group, generation_id, assigned_bytes, bytes, rows } = handed_in;
        if !self.is_assigning || self.generation_id != generation_id {
            return None;
        }
        let of_row = |[start, middle, end]: [u32; 3]| {
            let member_id = std::str::from_utf8(&bytes[start as usize..middle as usize]).expect("it came as text");
            (member_id, &bytes[middle as usize..end as usize])
        };
        Some(self.take_assignments(rows.into_iter().map(of_row), assigned_bytes, group))
    }

    /// How much is assigned to members; what strangers are assigned is not kept.
    fn bytes_for_members<'a, A, N>(&self, assignments: A) -> usize
    where
        A: Iterator<Item = (N, &'a [u8])>,
        N: AsRef<str>,
    {
        let kept = assignments.filter(|(member_id, _)| self.members.find(member_id.as_ref()).is_some());
        kept.map(|(_, assignment)| assignment.len()).sum()
    }

    /// Copies the assignments, of so many bytes, once for everybody.
    fn take_assignments<'a, A, N>(&self, assignments: A, bytes: usize, key: GroupKey) -> Box<Assigned>
    where
        A: Iterator<Item = (N, &'a [u8])>,
        N: AsRef<str>,
    {
        let mut ranges = vec![(0, 0); self.members.bound() as usize];
        let mut shared: Rc<[u8]> = std::iter::repeat_n(0, bytes).collect();
        let copies = Rc::get_mut(&mut shared).expect("nobody else has it yet");
        let mut start = 0;
        for (member_id, assignment) in assignments {
            if let Some(slot) = self.members.find(member_id.as_ref()) {
                let end = start + assignment.len();
                copies[start..end].copy_from_slice(assignment);
                ranges[slot as usize] = (start as u32, end as u32);
                start = end;
            }
        }
        let generation_id = self.generation_id;
        Box::new(Assigned { group: key, generation_id, assignments: shared, ranges, written_before: None })
    }

    /// Has the group written with its assignments, if it still waits for these.
    pub(in crate::group) fn write_assignments(&mut self, mut assigned: Box<Assigned>, turn: &mut Turn<'_>) {
        if !self.is_assigning || self.generation_id != assigned.generation_id {
            return;
        }
        let group = Rc::new(self.metadata(turn.now.unix_ms, |slot| assigned.of(slot)));
        turn.core.writes.push(Record::GroupMetadata { group_id: turn.group_id.clone(), group: group.clone() });
        self.is_written = true;
        assigned.written_before = self.last_written.replace(group);
        turn.core.writes.wait(Wait::Assigned(assigned));
    }

    /// The assignments are written: everybody who waits gets its own.
    pub(super) fn hand_out_assignments(&mut self, assigned: &Assigned, turn: &mut Turn<'_>) {
        let round = self.round.clone().expect("a join phase was completed");
        self.enter(State::Stable, turn);
        self.last_written = None;
        self.assigned_bytes = assigned.assignments.len();
        for slot in 0..self.members.bound() {
            let Some(member) = self.members.get_mut(slot) else { continue };
            let assignment = assigned.of(slot);
            member.assignment = assignment.clone();
            if let Some(Parked::Sync(ticket)) = self.members.unpark(slot) {
                turn.core.outputs.push_back(Queued::Synced { ticket, round: round.clone(), assignment });
                self.renew_session(slot, turn);
            }
        }
        self.end_sync_phase_if_nobody_owes(turn);
    }

    fn end_sync_phase_if_nobody_owes(&mut self, turn: &mut Turn<'_>) {
        if self.members.owing() == 0 {
            self.cancel_phase_timer(turn);
        }
    }

    pub(super) fn refuse_parked_sync(&mut self, slot: MemberSlot, error: ErrorCode, turn: &mut Turn<'_>) {
        if !self.members.get(slot).is_some_and(|member| member.is_syncing()) {
            return;
        }
        if let Some(Parked::Sync(ticket)) = self.members.unpark(slot) {
            turn.refuse_sync(ticket, error);
            self.renew_session(slot, turn);
        }
    }

    /// Whoever waits for an assignment is told to start over, and nobody has one any more.
    pub(super) fn refuse_parked_syncs(&mut self, error: ErrorCode, turn: &mut Turn<'_>) {
        self.assigned_bytes = 0;
        for slot in 0..self.members.bound() {
            self.refuse_parked_sync(slot, error, turn);
            if let Some(member) = self.members.get_mut(slot) {
                member.assignment = SharedBytes::default();
            }
        }
    }
}

impl Assigned {
    pub(super) fn of(&self, slot: MemberSlot) -> SharedBytes {
        let (start, end) = self.ranges.get(slot as usize).copied().unwrap_or((0, 0));
        SharedBytes::new(self.assignments.clone(), start..end)
    }
}

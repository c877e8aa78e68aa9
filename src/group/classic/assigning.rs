//! A leader's assignments on their way from its SyncGroup to the members: handed in, placed, written, handed out. In a large
//! group each step is done in pieces ([`crate::group::piecework`]).

use std::rc::Rc;

use crate::errors::ErrorCode;
use crate::group::core::Turn;
use crate::group::outcome::{Queued, SharedBytes};
use crate::group::piecework::{Assigned, KeptAssignments, Piecework, Placing, Writing};
use crate::group::records::Record;
use crate::group::writes::Wait;
use crate::limits::JOURNAL_ENTRY_MAX_BYTES;

use super::member::Parked;
use super::members::MemberSlot;
use super::sync::SyncRequest;
use super::{ClassicGroup, State};

/// Assignments that a leader has just handed in.
pub(super) enum HandedIn {
    /// To be placed in pieces.
    Kept(Box<dyn KeptAssignments>),
    /// Placed.
    Placed(Box<Assigned>),
    /// More than any record can hold.
    TooMuch,
}

impl ClassicGroup {
    /// Takes a leader's assignments out of its request.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(super) fn hand_in<'a, A, N>(
        &self,
        request: &SyncRequest<'a, A>,
        turn: &mut Turn<'_>,
    ) -> Result<HandedIn, ErrorCode>
    where
        A: Iterator<Item = (N, &'a [u8])> + Clone,
        N: AsRef<str>,
    {
        let kept = self.is_large(turn).then(|| (request.keep)());
        let assignments = || request.assignments.clone();
        let bytes_at_most =
            kept.as_ref().map_or_else(|| assignments().map(|(_, bytes)| bytes.len()).sum(), |kept| kept.bytes());
        if !turn.core.memory.has_room(bytes_at_most) {
            return Err(turn.core.memory.refuse("memory", turn.now));
        }
        // What strangers are assigned is not written. The rest the journal would refuse, whatever else is in the record.
        let is_member = |member_id: &N| self.members.find(member_id.as_ref()).is_some();
        if bytes_at_most > JOURNAL_ENTRY_MAX_BYTES
            && assignments().filter(|(id, _)| is_member(id)).map(|(_, bytes)| bytes.len()).sum::<usize>()
                > JOURNAL_ENTRY_MAX_BYTES
        {
            return Ok(HandedIn::TooMuch);
        }
        Ok(match kept {
            Some(kept) => HandedIn::Kept(kept),
            None => {
                let mut assigned = self.nothing_assigned(bytes_at_most, turn);
                let mut used = 0;
                for (member_id, assignment) in assignments() {
                    if let Some(slot) = self.members.find(member_id.as_ref()) {
                        used = assigned.assign(slot, assignment, used);
                    }
                }
                HandedIn::Placed(assigned)
            }
        })
    }

    /// Sends assignments on their way.
    pub(super) fn assign(&mut self, handed_in: HandedIn, turn: &mut Turn<'_>) {
        self.is_assigning = true;
        match handed_in {
            HandedIn::TooMuch => {
                self.is_assigning = false;
                self.refuse_assignments(ErrorCode::UNKNOWN_SERVER_ERROR, turn);
            }
            HandedIn::Placed(assigned) => {
                let members = self.describe_members(0..self.members.bound(), |slot| assigned.of(slot)).collect();
                self.write(Writing { assigned, members, next: self.members.bound() }, turn);
            }
            HandedIn::Kept(kept) => {
                self.kept_bytes = kept.bytes() as u32;
                let assigned = self.nothing_assigned(0, turn);
                turn.core.piecework.push_back(Piecework::Placing(Placing { kept, assigned }));
            }
        }
    }

    /// The next piece, if the group still waits for it.
    pub(in crate::group) fn do_a_piece(&mut self, piece: Piecework, turn: &mut Turn<'_>) {
        match piece {
            Piecework::Placing(placing) if self.awaits(&placing.assigned) => self.place_some(placing, turn),
            Piecework::Writing(writing) if self.awaits(&writing.assigned) => self.describe_some(writing, turn),
            Piecework::HandingOut(group) => {
                if self.hand_out_some(turn.core.settings.members_per_piece, turn) {
                    turn.core.piecework.push_back(Piecework::HandingOut(group));
                }
            }
            Piecework::Placing(_) | Piecework::Writing(_) => {}
        }
    }

    fn awaits(&self, assigned: &Assigned) -> bool {
        self.is_assigning && self.generation_id == assigned.generation_id
    }

    fn is_large(&self, turn: &Turn<'_>) -> bool {
        self.members.len() > turn.core.settings.members_per_piece as usize
    }

    fn nothing_assigned(&self, bytes: usize, turn: &Turn<'_>) -> Box<Assigned> {
        Box::new(Assigned::new(turn.key, self.generation_id, self.members.bound(), bytes))
    }

    fn place_some(&mut self, mut placing: Placing, turn: &mut Turn<'_>) {
        let Placing { kept, assigned } = &mut placing;
        let mut buffer = Vec::new();
        let has_more = kept.take(turn.core.settings.members_per_piece as usize, &mut |member_id, assignment| {
            // What strangers are assigned is not kept.
            if let Some(slot) = self.members.find(member_id) {
                let start = buffer.len();
                buffer.extend_from_slice(assignment);
                assigned.place(slot, start, buffer.len());
            }
        });
        assigned.add_buffer(&buffer);
        turn.core.piecework.push_back(if has_more {
            Piecework::Placing(placing)
        } else {
            self.kept_bytes = 0;
            let members = Vec::with_capacity(self.members.len());
            Piecework::Writing(Writing { assigned: placing.assigned, members, next: 0 })
        });
    }

    fn describe_some(&mut self, mut writing: Writing, turn: &mut Turn<'_>) {
        let end = writing.next.saturating_add(turn.core.settings.members_per_piece).min(self.members.bound());
        let Writing { assigned, members, next } = &mut writing;
        members.extend(self.describe_members(*next..end, |slot| assigned.of(slot)));
        *next = end;
        if end < self.members.bound() {
            turn.core.piecework.push_back(Piecework::Writing(writing));
        } else {
            self.write(writing, turn);
        }
    }

    fn write(&mut self, Writing { mut assigned, members, .. }: Writing, turn: &mut Turn<'_>) {
        let group = Rc::new(self.metadata_of(members, turn.now.unix_ms));
        turn.core.writes.push(Record::GroupMetadata { group_id: turn.group_id.clone(), group: group.clone() });
        self.is_written = true;
        assigned.written_before = self.last_written.replace(group);
        turn.core.writes.wait(Wait::Assigned(assigned));
    }

    /// The assignments are written: everybody who waits gets its own, and whoever asks from now on.
    pub(super) fn hand_out_assignments(&mut self, mut assigned: Box<Assigned>, turn: &mut Turn<'_>) {
        self.enter(State::Stable, turn);
        self.assigned_bytes = assigned.bytes() as u32;
        assigned.written_before = self.last_written.take();
        self.handing_out = Some(assigned);
        self.end_sync_phase_if_nobody_owes(turn);
        if self.is_large(turn) {
            turn.core.piecework.push_back(Piecework::HandingOut(turn.key));
        } else {
            self.hand_out_the_rest(turn);
        }
    }

    /// Comes before every change of who is in a group, or of what a member has said: whoever waits gets what it waits for.
    pub(super) fn hand_out_the_rest(&mut self, turn: &mut Turn<'_>) {
        self.hand_out_some(MemberSlot::MAX, turn);
    }

    /// True if there is more to be handed out.
    fn hand_out_some(&mut self, at_most: MemberSlot, turn: &mut Turn<'_>) -> bool {
        let Some(mut assigned) = self.handing_out.take() else { return false };
        let round = self.round.clone().expect("a join phase was completed");
        let end = assigned.next.saturating_add(at_most).min(self.members.bound());
        for slot in assigned.next..end {
            let Some(member) = self.members.get_mut(slot) else { continue };
            let assignment = assigned.of(slot);
            member.assignment = assignment.clone();
            if let Some(Parked::Sync(ticket)) = self.members.unpark(slot) {
                turn.core.outputs.push_back(Queued::Synced { ticket, round: round.clone(), assignment });
                self.renew_session(slot, turn);
            }
        }
        assigned.next = end;
        let has_more = end < self.members.bound();
        self.handing_out = has_more.then_some(assigned);
        has_more
    }

    /// What a member of a Stable group was assigned.
    pub(super) fn assignment(&self, slot: MemberSlot) -> SharedBytes {
        match &self.handing_out {
            Some(assigned) if slot >= assigned.next => assigned.of(slot),
            _ => self.members.get(slot).expect("it is a member").assignment.clone(),
        }
    }
}

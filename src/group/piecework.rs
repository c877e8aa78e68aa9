//! What is done for a large group in pieces, one in each turn of the core, so that nobody waits long for it: a leader's
//! assignments on their way from its request to the members. What each piece does is in [`super::classic`].

use std::ops::Range;
use std::rc::Rc;

use super::core::GroupKey;
use super::outcome::SharedBytes;
use super::records::{GroupMetadata, MemberMetadata};

/// Assignments as a leader has handed them in, copied out of its request.
pub trait KeptAssignments: std::fmt::Debug {
    /// The memory that they take, in bytes; at least as much as the assignments alone.
    fn bytes(&self) -> usize;

    /// The next ones, at most so many: member id and assignment. False if there are no more behind them.
    fn take(&mut self, at_most: usize, each: &mut dyn FnMut(&str, &[u8])) -> bool;
}

/// A group's next piece.
#[derive(Debug)]
pub(super) enum Piecework {
    /// Assignments were handed in; whose are they?
    Placing(Placing),
    /// They have their places; the group is written with them.
    Writing(Writing),
    /// They are written; everybody gets its own.
    HandingOut(GroupKey),
}

#[derive(Debug)]
pub(super) struct Placing {
    pub(super) kept: Box<dyn KeptAssignments>,
    pub(super) assigned: Box<Assigned>,
}

#[derive(Debug)]
pub(super) struct Writing {
    pub(super) assigned: Box<Assigned>,
    /// As far as they are described.
    pub(super) members: Vec<MemberMetadata>,
    /// The slot that is looked at next.
    pub(super) next: u32,
}

impl Piecework {
    pub(super) fn group(&self) -> GroupKey {
        match self {
            Piecework::Placing(placing) => placing.assigned.group,
            Piecework::Writing(writing) => writing.assigned.group,
            Piecework::HandingOut(group) => *group,
        }
    }
}

/// What a leader has assigned to the members of a generation.
#[derive(Debug)]
pub(super) struct Assigned {
    pub(super) group: GroupKey,
    pub(super) generation_id: i32,
    /// All members' assignments, one behind the other.
    buffer: Rc<[u8]>,
    /// Those of the pieces behind the first.
    more_buffers: Vec<Rc<[u8]>>,
    /// For each slot of a member, where its assignment is.
    places: Vec<Place>,
    /// What comes back as last written if the record is refused.
    pub(super) written_before: Option<Rc<GroupMetadata>>,
    /// Slots before this one have been handed theirs.
    pub(super) next: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// 0: the first one.
    buffer: u32,
    start: u32,
    end: u32,
}

impl Assigned {
    /// Nothing assigned yet to the members in the slots below `bound`; there is room for so many bytes.
    pub(super) fn new(group: GroupKey, generation_id: i32, bound: u32, bytes: usize) -> Assigned {
        let places = vec![Place::default(); bound as usize];
        let buffer = std::iter::repeat_n(0, bytes).collect();
        Assigned { group, generation_id, buffer, more_buffers: Vec::new(), places, written_before: None, next: 0 }
    }

    /// Assigns to a member what fits behind the first `used` bytes; how many are used then.
    ///
    /// # Panics
    /// If it does not fit.
    pub(super) fn assign(&mut self, slot: u32, assignment: &[u8], used: usize) -> usize {
        let end = used + assignment.len();
        let buffer = Rc::get_mut(&mut self.buffer).expect("nobody has it before all is assigned");
        buffer[used..end].copy_from_slice(assignment);
        self.places[slot as usize] = Place { buffer: 0, start: used as u32, end: end as u32 };
        end
    }

    /// Notes that a slot's assignment will be `start..end` of the next piece's buffer.
    pub(super) fn place(&mut self, slot: u32, start: usize, end: usize) {
        let (buffer, start, end) = (self.more_buffers.len() as u32 + 1, start as u32, end as u32);
        self.places[slot as usize] = Place { buffer, start, end };
    }

    /// A piece is placed.
    pub(super) fn add_buffer(&mut self, bytes: &[u8]) {
        self.more_buffers.push(Rc::from(bytes));
    }

    /// How much is assigned to all of them, and to strangers.
    pub(super) fn bytes(&self) -> usize {
        self.buffer.len() + self.more_buffers.iter().map(|buffer| buffer.len()).sum::<usize>()
    }

    pub(super) fn of(&self, slot: u32) -> SharedBytes {
        self.find(slot).map_or_else(SharedBytes::default, |(buffer, range)| SharedBytes::new(buffer.clone(), range))
    }

    pub(super) fn bytes_of(&self, slot: u32) -> &[u8] {
        self.find(slot).map_or(&[], |(buffer, range)| &buffer[range.start as usize..range.end as usize])
    }

    fn find(&self, slot: u32) -> Option<(&Rc<[u8]>, Range<u32>)> {
        let Place { buffer, start, end } = *self.places.get(slot as usize)?;
        let buffer = buffer.checked_sub(1).map_or(&self.buffer, |piece| &self.more_buffers[piece as usize]);
        (start < end).then_some((buffer, start..end))
    }
}

/// A copy of assignments that come from anywhere. (The server has one of the request's own bytes.)
#[derive(Debug)]
pub struct CopiedAssignments {
    /// Member ids and assignments, one behind the other.
    bytes: Vec<u8>,
    /// Where each member id begins, where its assignment does, and where that ends.
    rows: std::vec::IntoIter<[usize; 3]>,
}

impl CopiedAssignments {
    /// Copies member ids and their assignments.
    pub fn of<'a, N: AsRef<str>>(assignments: impl Iterator<Item = (N, &'a [u8])>) -> Box<dyn KeptAssignments> {
        let (mut bytes, mut rows) = (Vec::new(), Vec::new());
        for (member_id, assignment) in assignments {
            let start = bytes.len();
            bytes.extend_from_slice(member_id.as_ref().as_bytes());
            let middle = bytes.len();
            bytes.extend_from_slice(assignment);
            rows.push([start, middle, bytes.len()]);
        }
        Box::new(CopiedAssignments { bytes, rows: rows.into_iter() })
    }
}

impl KeptAssignments for CopiedAssignments {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self, at_most: usize, each: &mut dyn FnMut(&str, &[u8])) -> bool {
        for [start, middle, end] in self.rows.by_ref().take(at_most) {
            let member_id = std::str::from_utf8(&self.bytes[start..middle]).expect("it was copied from text");
            each(member_id, &self.bytes[middle..end]);
        }
        self.rows.len() > 0
    }
}

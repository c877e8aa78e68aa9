//! What is done for a large group in pieces, one in each turn of the core, so that nobody waits long for it: a leader's
//! assignments on their way from its request to the members. What each piece does is in [`super::classic`].

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
    /// All members' assignments, one behind the other in as many buffers as there were pieces.
    buffers: Vec<Rc<[u8]>>,
    /// For each slot of a member, where its assignment is.
    places: Vec<Place>,
    /// What comes back as last written if the record is refused.
    pub(super) written_before: Option<Rc<GroupMetadata>>,
    /// Slots before this one have been handed theirs.
    pub(super) next: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    buffer: u32,
    start: u32,
    end: u32,
}

impl Assigned {
    /// Nothing assigned yet to the members in the slots below `bound`.
    pub(super) fn new(group: GroupKey, generation_id: i32, bound: u32) -> Assigned {
        let places = vec![Place::default(); bound as usize];
        Assigned { group, generation_id, buffers: Vec::new(), places, written_before: None, next: 0 }
    }

    /// Notes that the bytes of a slot's assignment are `start..end` of the buffer that is added next.
    pub(super) fn place(&mut self, slot: u32, start: usize, end: usize) {
        let (buffer, start, end) = (self.buffers.len() as u32, start as u32, end as u32);
        self.places[slot as usize] = Place { buffer, start, end };
    }

    pub(super) fn add_buffer(&mut self, bytes: &[u8]) {
        self.buffers.push(Rc::from(bytes));
    }

    /// How much is assigned to all of them.
    pub(super) fn bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.len()).sum()
    }

    pub(super) fn of(&self, slot: u32) -> SharedBytes {
        match self.places.get(slot as usize) {
            Some(Place { buffer, start, end }) if start < end => {
                SharedBytes::new(self.buffers[*buffer as usize].clone(), *start..*end)
            }
            _ => SharedBytes::default(),
        }
    }

    pub(super) fn bytes_of(&self, slot: u32) -> &[u8] {
        match self.places.get(slot as usize) {
            Some(Place { buffer, start, end }) if start < end => {
                &self.buffers[*buffer as usize][*start as usize..*end as usize]
            }
            _ => &[],
        }
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

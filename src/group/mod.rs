//! What a group coordinator decides, without I/O: the classic group protocol and committed offsets.
//!
//! [`Groups`] is one core's groups. Its four verbs:
//!
//! - *inputs*, one for each API, each with `now`: [`Groups::join`], [`Groups::sync`], [`Groups::heartbeat`], [`Groups::leave`],
//!   [`Groups::begin_commit`], [`Groups::offsets`], [`Groups::begin_offset_delete`], [`Groups::describe`], [`Groups::list`],
//!   [`Groups::delete_group`], [`Groups::delete_offsets_of`];
//! - [`Groups::advance`] for what time brings; call it once after the inputs of each turn, and again while
//!   [`Groups::next_deadline_ms`] is not in the future: it does a bounded piece of work;
//! - [`Groups::next_deadline_ms`];
//! - [`Groups::poll_output`]: answers of parked requests, one at a time, so that a long fan-out can be cut into slices.
//!
//! What must be durable: after an input (and after `advance` and [`Groups::written`]) the caller takes the new records with
//! [`Groups::take_records`] and, once they are written or refused, tells [`Groups::written`]. Rules for replies:
//!
//! - `join` and `sync`: what is returned at once never waits; what waits for a record comes out of `poll_output` by itself;
//! - `leave`, commits, deletions: if records were taken after the call, the reply leaves when they are durable;
//! - an OffsetFetch shows commits at once; a reply that shows one not yet written ([`OffsetsView::is_settled`] is false, or
//!   [`Groups::has_unwritten_deletions`]) waits until all that was taken so far is durable. So no reply ever shows what a crash
//!   could take back;
//! - a deletion that has nothing to delete takes no records: its reply waits likewise, for the deletion before it.
//!
//! What lives now, to be written again in fewer bytes, gives [`Groups::walk`].
//!
//! At a start the journal's records go through [`Groups::apply`], in order; once a partition has all of its records,
//! [`Groups::start_loaded`] starts the sessions of its groups.
//!
//! The caller checks what this module cannot see, in Kafka's order: authorisation; the shape ([`Groups::check_join`], the empty
//! group id); then the group's partition (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; a Heartbeat while loading is NONE).
//! The checks of shape are repeated here, so a caller without partitions need not make them.
//!
//! This module sees no bytes of the protocol, no connection and no clock: a request that waits is a [`Ticket`].

pub mod settings;
pub mod timers;

mod apply;
mod classic;
mod core;
mod groups;
mod index;
mod memory;
mod names;
mod offsets;
mod outcome;
mod piecework;
mod profile;
mod records;
mod slab;
mod subscription;
mod walk;
mod writes;

#[cfg(test)]
mod tests;

pub use classic::describe::{DescribedMember, GroupDescription, ListedGroup};
pub use classic::join::JoinRequest;
pub use classic::leave::LeavingMember;
pub use classic::sync::SyncRequest;
pub use groups::{Census, Groups};
pub use offsets::commit::{CommitRequest, OffsetCommitter, PartitionCommit};
pub use offsets::delete::{DeletedTopics, OffsetDeleter};
pub use offsets::fetch::{FetchedOffset, OffsetsView, TopicOffsetsView};
pub use outcome::{JoinAnswer, JoinedMember, JoinedMembers, MemberId, Output, SharedBytes, SyncAnswer};
pub use piecework::{CopiedAssignments, KeptAssignments};
pub use records::{CommittedOffset, GroupMetadata, MemberMetadata, OffsetKey, Record};
pub use walk::Walk;
pub use writes::{Taken, WriteId};

/// A parked request: opaque here, given back with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The connection.
    pub connection: u64,
    /// The request's correlation id.
    pub correlation_id: i32,
    /// The request's version.
    pub version: i16,
}

/// Where ids come from that nobody can guess; from a seed in tests and simulations.
pub trait Ids {
    /// The next id.
    fn next(&mut self) -> [u8; 16];
}

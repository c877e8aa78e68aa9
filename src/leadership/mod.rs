//! Which node leads which partition of the internal topics, and how that is told to all cores at once.
//!
//! [`Table`] is an immutable snapshot, [`Published`] the place where its newest version stands, [`assign`] the rule by
//! which `control` fills it. What a table says of a group is what FindCoordinator answers. Topics of users are in
//! `topics`; this layer knows no bytes of the protocol beyond those that `control` leaves in it.

pub mod assign;
pub mod partition;
pub mod publish;
pub mod table;

pub use partition::partition_of;
pub use publish::{Epoch, Guard, Published, pin};
pub use table::{EncodedBrokers, EncodedCoordinator, Endpoint, InternalTopic, Node, Table};

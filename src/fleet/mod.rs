//! The other side of the protocol: members as Kafka's clients are, without I/O. Drives the simulation and the load
//! generator.

pub mod member;

pub use member::{Channel, Endpoint, Event, Member, Output, Unexpected};
pub use member::{MemberSettings, Versions};

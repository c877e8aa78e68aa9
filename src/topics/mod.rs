//! The topics that clients see, and the records that they seem to hold. [`Catalogue`] is an immutable snapshot that
//! `control` builds and publishes; [`records`] makes a topic's record batches out of nothing, the same ones each time.
//! A coordinator is not a log store: nothing in here keeps a record.

pub mod batch;
pub mod catalogue;
pub mod configs;
pub mod message_set;
pub mod name;
pub mod produced;
pub mod records;

pub use catalogue::{Catalogue, Partition, Topic};
pub use records::{IfTooLarge, Records};

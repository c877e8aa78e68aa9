//! Keeps what was promised: the records of groups and offsets, behind the interface [`store::Store`].

pub mod block;
pub mod codec;
pub mod entry;
pub mod segment;
pub mod store;
pub mod writer;

/// Where in the journal something ends; reply bytes may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JournalPosition(pub u64);

//! Keeps what was promised: the records of groups and offsets, behind the interface [`store::Store`].

pub mod entry;
pub mod store;

/// Where in the journal something ends; reply bytes may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JournalPosition(pub u64);

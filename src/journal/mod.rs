//! Keeps what was promised: the records of groups and offsets, behind the interface [`store::Store`].

pub mod block;
pub mod codec;
pub mod coverage;
pub mod disk;
pub mod entry;
pub mod failure;
#[cfg(feature = "server")]
pub mod files;
pub mod job;
pub mod layout;
pub mod manifest;
pub mod reader;
pub mod replay;
pub mod salvage;
pub mod scan;
pub mod segment;
pub mod snapshot;
pub mod store;
pub mod stream;
mod taking;
pub mod testing;
pub mod tool;
pub mod writer;

/// Where in the journal something ends; reply bytes may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JournalPosition(pub u64);

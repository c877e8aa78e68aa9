//! Keeps what was promised: the records of groups and offsets, behind the interface [`store::Store`].
//!
//! A journal is a folder with one *stream* for each core. A stream is a log in *segments* and one *snapshot* for each
//! partition; a *generation* is a set of streams, and the MANIFEST names the one that counts. From the bytes up:
//!
//! - [`entry`], [`segment`], [`snapshot`], [`manifest`]: what stands in the files. [`codec`]: records as Kafka's keys and values.
//! - [`writer`] is the group commit, [`coverage`] says what of the log is still needed, [`stream`] joins them to a core's
//!   [`store::Store`]. None of them does I/O: they say what to write, and which [`job`] to do beside the core.
//! - A start: [`layout`] finds the generation (or makes one for another number of cores), [`scan`] where each stream ends, so
//!   that appends may go on; [`replay`] reads it back, and others may see how far it is ([`reading`]). [`failure`] is why a start is refused; [`tool`] and [`salvage`] are for when it was.
//! - [`disk`] is the file system as all that needs it: `files` the real one, [`testing`] one that fails.
//!
//! Invariants: what was reported durable is read back after any crash, in order, whole appends only, and nothing that was not
//! appended; a position is never used twice; one generation counts at any moment; a sync that failed is never tried again.

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
pub mod reading;
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

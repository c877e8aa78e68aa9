//! The file that publishes snapshots, and nothing else, over a crossbeam-epoch whose atomics loom watches.

// The file says `crossbeam::epoch`; here that is this crate.
extern crate self as crossbeam;
pub use crossbeam_epoch as epoch;

#[path = "../../src/leadership/publish.rs"]
pub mod publish;

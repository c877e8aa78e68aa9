//! A disk in memory that tears, forgets, fills up and fails, for tests and simulations.

mod disk;
mod image;

pub use disk::{Fault, MemoryDisk};

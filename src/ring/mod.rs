//! One core's io_uring: sockets, the journal's write-and-sync, the one timer, and wakes from other threads.
//!
//! The ring owns every byte that the kernel may still touch (receive buffers, replies being sent, writes in flight, timer
//! values), so its interface is safe, and what is in flight is waited for before any of it is freed. It knows nothing of
//! Kafka: frames, connections and their order are `net`'s.
//!
//! - [`Ring`] submits and collects; a ring stays on the thread that made it.
//! - [`Waker`] wakes a ring from any thread, with or without a ring of its own.

#![allow(clippy::disallowed_methods, reason = "clocks and sockets belong here")]

mod buffers;
mod sends;
mod submit;
mod timer;
mod token;
mod wake;
mod writes;

pub use buffers::BufferId;
pub use sends::Sent;
pub use submit::{Completion, Ring, RingSettings, accepted};
pub use token::{Key, Kind};
pub use wake::Waker;
pub use writes::{FailedHalf, Written};

#[cfg(test)]
mod tests;

//! Bytes to and from clients: listeners, connections, frames, and the order of replies. Drives one [`Service`] per core and
//! is its [`Network`]. Knows frames (a big-endian size, then bytes), not what is in them.
//!
//! One turn of a core: enter the ring once (submit, run deferred work, wait), hand every complete frame to the service
//! where it lies in the receive buffer, let the service do the rest of what is due, then one send per connection that has
//! something to say.
//!
//! - `conversation` is the order of one connection's requests and replies, without I/O; `connection` adds the socket.
//! - `core` owns a core's ring and connections; `accept`, `receive`, `send` and `close` are its halves; `driver` turns it.
//! - `server` starts the cores.
//!
//! [`Service`]: crate::shard::service::Service
//! [`Network`]: crate::shard::service::Network

#![allow(clippy::disallowed_methods, reason = "clocks and sockets belong here")]

mod accept;
pub mod address;
mod clock;
mod close;
mod connection;
mod conversation;
mod core;
mod driver;
mod holdings;
pub mod listener;
mod pending;
mod pool;
mod quota;
mod receive;
mod send;
pub mod server;
mod stop;
mod table;
mod trim;
mod waits;
mod wheel;

pub use clock::now;
pub use core::NetworkLimits;
pub use server::{CoreContext, CoreFailure, CorePlan, Server, ServerSettings, StartError, place, start};
pub use stop::Stop;

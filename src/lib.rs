//! Rallypoint: a Kafka-protocol group coordinator for huge consumer fleets.
//!
//! Each core is a Kafka node of its own; a group belongs to one core, and FindCoordinator sends its members there.
//!
//! Layers, each seeing only those to its left:
//!
//! ```text
//! errors, limits, clock, ids -> wire, group, leadership, topics, auth -> metrics -> ring, journal -> config
//!     -> control, shard -> preflight -> net -> main
//! ```
//!
//! - [`wire`] turns bytes into borrowed views of requests, and replies into bytes. No allocation to parse.
//! - [`group`] is what a coordinator decides: deterministic state machines, `now` is an argument.
//! - [`leadership`] says which node leads which offsets partition, in an epoch-published table.
//! - [`topics`] is the catalogue of topics and the records that they seem to hold.
//! - [`auth`] answers whether a principal may do what it asks.
//! - [`metrics`] is what each core counts, and the page of it for whoever watches.
//! - [`journal`] keeps what was promised.
//! - [`control`] owns what belongs to no group: cluster id, node ids, topics. Core 0 is its one owner.
//! - [`shard`] is what one core owns; `shard::dispatch` alone turns a view of `wire` into a call of `group`.
//! - [`config`] is what the owner of a server has set; `preflight` looks whether it can run here; [`cli`] is the command line.
//! - `ring` and `net` (feature `server`) move the bytes, and are the only ones that do.
//!
//! Invariants: a request never crosses cores; replies leave in request order; nothing is acknowledged before it is as
//! durable as the journal's mode promises; a state machine has no clock, socket, file or source of randomness in it.

// clippy.toml says what: clocks, files, sockets, randomness. Programs and tests may use them.
#![deny(clippy::disallowed_methods)]

pub mod auth;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod errors;
pub mod fleet;
pub mod group;
pub mod ids;
pub mod journal;
pub mod leadership;
pub mod limits;
pub mod metrics;
#[cfg(feature = "server")]
pub mod net;
#[cfg(feature = "server")]
pub mod preflight;
#[cfg(feature = "server")]
pub mod ring;
#[cfg(feature = "server")]
pub mod serve;
pub mod shard;
pub mod sim;
pub mod topics;
pub mod wire;

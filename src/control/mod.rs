//! What belongs to no group: cluster id, node ids, topics. Core 0 is its one owner; the other cores send it a [`Request`]
//! by mailbox and get a [`Reply`] once what it says is durable, and read the result out of the snapshots in [`Views`].
//!
//! - [`machine`] decides, without I/O: requests in, replies, log writes and snapshots out.
//! - [`create`] are the rules of CreateTopics.
//! - [`state`] is what the log adds up to, [`record`] the facts in it, [`log`] its bytes, and `file` (feature `server`) the
//!   file that they are in.
//! - [`view`] is what the cores see.

mod answer;
pub mod create;
#[cfg(feature = "server")]
pub mod file;
pub mod log;
pub mod machine;
pub mod record;
pub mod request;
pub mod state;
pub mod view;

pub use machine::{Append, Control, Outputs, RandomIds};
pub use request::{
    CreateTopics, CreatedTopic, DeleteTopics, DeletedTopic, NewAssignment, NewTopic, Reply, Request, Tag,
    TopicReference,
};
pub use view::{NodeEndpoints, Snapshots, Views};

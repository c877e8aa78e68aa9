//! What belongs to no group: cluster id, node ids, topics. Core 0 is its one owner; the other cores send it a [`Request`]
//! by mailbox and get a [`Reply`] once what it says is durable, and read the result out of the snapshots that it publishes.

pub mod log;
pub mod record;
pub mod request;
pub mod state;

pub use request::{
    CreateTopics, CreatedTopic, DeleteTopics, DeletedTopic, NewAssignment, NewTopic, Reply, Request, Tag,
    TopicReference,
};

impl crate::leadership::Epoch for crate::topics::Catalogue {
    fn epoch(&self) -> u64 {
        self.epoch()
    }
}

//! Kafka's wire format: bytes into borrowed views of messages, and messages into bytes. Pure; what a message means is
//! the business of the layers above.
//!
//! - [`frame`] cuts what was received into frames; [`prefix`] reads the headers; [`versions`] is the table of APIs.
//! - [`cursor`] and [`writer`] are the primitives, [`schema`] declares messages by them, [`mod@array`] are their arrays.
//! - One file per API, with a `SomethingRequest` and a `SomethingResponse` and the structs in them, by Kafka's names.
//!
//! Reading borrows from the frame. The whole message is validated when it is read, so that a handler never meets bytes
//! that do not parse ([`Malformed`] names the field and the place). Where Kafka is tolerant this is: bytes behind a
//! complete body are ignored ([`Cursor::remaining`] counts them), text that is not UTF-8 has U+FFFD in it, unknown tags
//! are skipped.

pub mod array;
pub mod cursor;
pub mod frame;
pub mod malformed;
pub mod prefix;
pub mod schema;
pub mod text;
pub mod uuid;
pub mod versions;
pub mod writer;

pub mod api_versions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_groups;
pub mod fetch;
pub mod find_coordinator;
pub mod heartbeat;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod list_offsets;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sync_group;

pub mod consumer_protocol;
pub mod records;

#[cfg(test)]
mod tests;

pub use array::Array;
pub use cursor::Cursor;
pub use frame::{BadFrameSize, Frames};
pub use malformed::Malformed;
pub use prefix::{HeaderView, Prefix, RequestHeader, ResponseHeader};
pub use schema::Wire;
pub use uuid::Uuid;
pub use versions::{ApiKey, Version, VersionRange};
pub use writer::{FrameStart, Writer};

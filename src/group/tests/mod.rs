//! The group coordinator from the outside: clients that join, sync, heartbeat, leave and commit, a clock that only moves when it
//! is told to, and a journal that can be made to fail.
//!
//! A test's name begins with the scenarios that it covers; K marks what is in no list of Kafka's but what users meet.

mod admin;
mod basics;
mod commit;
mod expiry;
mod fetch;
mod heartbeat;
mod join;
mod join_size;
mod leave;
mod load;
mod model;
mod naive;
mod naive_group;
mod room;
mod scale;
mod static_member;
mod sync;
mod timer;
mod walk;

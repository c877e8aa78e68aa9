//! The group coordinator from the outside: clients that join, sync, heartbeat, leave and commit, a clock that only moves when it
//! is told to, and a journal that can be made to fail.

mod basics;
mod room;

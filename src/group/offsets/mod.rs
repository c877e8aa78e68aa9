//! Committed offsets: a transition per file. Where they are kept: [`table`].

pub(super) mod commit;
pub(super) mod delete;
pub(super) mod expiry;
pub(super) mod fetch;
pub(super) mod table;

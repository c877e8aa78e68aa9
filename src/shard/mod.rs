//! What one core owns.

pub mod mailbox;
pub mod service;

//! What one core owns.

pub mod service;

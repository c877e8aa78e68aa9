//! What a group coordinator decides, without I/O.

pub mod settings;

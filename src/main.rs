//! The command `rallypoint`.

fn main() {}

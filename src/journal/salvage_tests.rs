//! What is salvaged of a stream that lost something.

use super::super::testing::MemoryDisk;
use super::*;

/// Names of the entries that read back, and what does not.
pub(in crate::journal) fn salvaged(disk: &MemoryDisk) -> (String, Vec<Lost>) {
    let mut names = String::new();
    let lost = salvage(disk, "s", 1, &mut |found| names.push(found.entry.key[0] as char)).expect("it can be read");
    (names, lost)
}

//! What is salvaged of a stream that lost something.

use super::super::scan::tests::{Journal, Sized, replay, segment};
use super::super::store::Store;
use super::super::testing::MemoryDisk;
use super::*;

/// Names of the entries that read back, and what does not.
pub(in crate::journal) fn salvaged(disk: &MemoryDisk) -> (String, Vec<Lost>) {
    let mut names = String::new();
    let lost = salvage(disk, "s", 1, &mut |found| names.push(found.entry.key[0] as char)).expect("it can be read");
    (names, lost)
}

#[test]
fn of_a_damaged_snapshot_the_log_gives_what_it_still_has() {
    let mut journal = Journal::fresh();
    journal.append(&[Sized(b'a', 100), Sized(b'b', 100)]);
    journal.flush();
    journal.stream.begin_snapshot(0, 1);
    journal.stream.snapshot_records(&Sized(b'A', 100));
    journal.stream.snapshot_records(&Sized(b'B', 100));
    journal.stream.complete_snapshot();
    journal.jobs();
    journal.append(&[Sized(b'c', 100)]);
    journal.flush();
    let names = journal.disk.list("s").expect("a folder");
    let snapshot = names.iter().find(|name| SnapshotId::of_file_name(name).is_some()).expect("it was taken");
    assert_eq!(replay(&journal.disk).expect("it is whole").1, "ABc");
    assert_eq!(salvaged(&journal.disk), ("ABc".to_owned(), Vec::new()));

    let path = join("s", snapshot);
    let damage = |offset: usize| {
        let disk = journal.disk.killed();
        disk.damage(&path, offset as u64, |bytes| bytes[0] ^= 1);
        disk
    };
    // The snapshot is newer: what it still has comes after what the log has.
    let (names, lost) = salvaged(&damage(ENTRIES_OFFSET + 150));
    assert_eq!((&names[..], lost.len()), ("abAc", 1), "{lost:?}");
    let (names, lost) = salvaged(&damage(ENTRIES_OFFSET - 1));
    assert_eq!((&names[..], lost.len()), ("abABc", 1), "{lost:?}");

    // What the log has lost is said once.
    let disk = damage(ENTRIES_OFFSET + 150);
    disk.damage(&segment(1), HEADER_BYTES + 50, |bytes| bytes[0] ^= 1);
    let (names, lost) = salvaged(&disk);
    assert_eq!((&names[..], lost.len()), ("bAc", 2), "{lost:?}");
}

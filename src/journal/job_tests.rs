//! Segments that go and come back, on a disk in memory.

use std::ops::Range;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::block::BLOCK_BYTES;
use super::super::disk;
use super::super::testing::{Fault, MemoryDisk};
use super::*;

const BYTES: u64 = 4 * BLOCK_BYTES as u64;

fn step(disk: &MemoryDisk, number: u64, zeros: Range<u64>) -> bool {
    match Job::prepare("s", SegmentId(number), zeros.clone(), BYTES, false).run(disk).0 {
        Done::Prepared(SegmentId(id), end, Ok(file)) if (id, end) == (number, zeros.end) => file.is_some(),
        _ => panic!("it is not prepared"),
    }
}

fn make(disk: &MemoryDisk, number: u64) {
    assert!(step(disk, number, 0..BYTES));
    let file = disk.open_for_writing(&path(number), false).expect("it is there");
    file.write_at(0, &[7; BYTES as usize]).and_then(|()| file.sync()).expect("it is written");
}

fn path(number: u64) -> String {
    join("s", &SegmentId(number).file_name())
}

fn remove_before(disk: &MemoryDisk, numbers: Range<u64>) {
    let bases = numbers.clone().map(|number| (SegmentId(number), number)).collect();
    let done = Job::remove("s", bases, SegmentId(numbers.end), BYTES).run(disk).0;
    assert!(matches!(done, Done::Removed(left, Ok(())) if left.is_empty()));
}

fn names(disk: &MemoryDisk) -> Vec<String> {
    let mut names = disk.list("s").expect("the folder");
    names.sort();
    names
}

#[test]
fn a_segment_that_goes_is_the_room_of_the_next_one() {
    let disk = MemoryDisk::with_folder("s");
    (1..=2).for_each(|number| make(&disk, number));
    remove_before(&disk, 1..2);
    assert_eq!(names(&disk), ["segment-000000000002", "spare-000000000001.new"]);
    assert!(!step(&disk, 3, 0..BYTES / 2));
    assert_eq!(names(&disk), ["segment-000000000002", "segment-000000000003.new"]);
    assert!(step(&disk, 3, BYTES / 2..BYTES));
    assert_eq!(names(&disk), ["segment-000000000002", "segment-000000000003"]);
    assert_eq!(disk::read(&disk, &path(3)).expect("it reads"), [0; BYTES as usize]);
}

#[test]
fn few_wait_to_be_used_again_and_none_of_another_size() {
    let disk = MemoryDisk::with_folder("s");
    let count = SPARES_MAX as u64 + 3;
    (1..=count).for_each(|number| make(&disk, number));
    let file = disk.create(&path(1)).expect("a file");
    file.write_at(0, &[7; BLOCK_BYTES]).and_then(|()| file.sync()).expect("a smaller one");
    remove_before(&disk, 1..count);
    let spares: Vec<_> = (2..).take(SPARES_MAX).map(|number| format!("spare-{number:012}.new")).collect();
    assert_eq!(names(&disk)[1..], spares);
    make(&disk, count + 1);
    remove_before(&disk, count..count + 1);
    assert_eq!(names(&disk).len(), 1 + SPARES_MAX, "there was room for one again");
}

#[test]
fn a_crash_leaves_a_segment_or_none_whatever_it_was_before() {
    for (steps, choice) in (0..20).flat_map(|steps| (0..4).map(move |choice| (steps, choice))) {
        let disk = MemoryDisk::with_folder("s");
        (1..=2).for_each(|number| make(&disk, number));
        disk.sync_folder("s").expect("it is durable");
        disk.fail_at(disk.steps() + steps, Fault::PowerOff);
        let bases = BTreeMap::from([(SegmentId(1), 1)]);
        let _ = Job::remove("s", bases, SegmentId(2), BYTES).run(&disk);
        let _ = Job::prepare("s", SegmentId(3), 0..BYTES, BYTES, false).run(&disk);
        let after = disk.crash(&mut |n| choice.min(n - 1));
        for (number, expected) in [(1, 7), (2, 7), (3, 0)] {
            if let Ok(content) = disk::read(&after, &path(number)) {
                assert_eq!(content, [expected; BYTES as usize], "segment {number}, {steps} steps");
            }
        }
        assert!(names(&after).contains(&SegmentId(2).file_name()));
    }
}

#[test]
fn a_crash_behind_a_removal_of_which_it_is_not_known_whether_it_is_durable_brings_back_the_segment_as_it_was() {
    for seed in 0..200 {
        let disk = MemoryDisk::with_folder("s");
        (1..=2).for_each(|number| make(&disk, number));
        // Behind the sync of the segment that stays, and the rename.
        disk.fail_at(disk.steps() + 2, Fault::Failing);
        let bases = BTreeMap::from([(SegmentId(1), 1)]);
        let done = Job::remove("s", bases, SegmentId(2), BYTES).run(&disk).0;
        assert!(matches!(done, Done::Removed(left, Err(_)) if left.len() == 1));
        assert!(!step(&disk, 3, 0..BYTES / 2));
        let mut random = SmallRng::seed_from_u64(seed);
        let after = disk.crash(&mut |n| random.random_range(0..n));
        if let Ok(content) = disk::read(&after, &path(1)) {
            assert_eq!(content, [7; BYTES as usize], "seed {seed}");
        }
    }
}

#[test]
fn a_segment_that_cannot_be_kept_for_later_goes_all_the_same() {
    let disk = MemoryDisk::with_folder("s");
    (1..=2).for_each(|number| make(&disk, number));
    disk.fail_at(disk.steps() + 1, Fault::Failing);
    remove_before(&disk, 1..2);
    assert_eq!(names(&disk), ["segment-000000000002"]);
}

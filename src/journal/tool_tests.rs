//! Verify, repair and dump, on sound journals and on damaged ones.

use std::rc::Rc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::super::codec::Records;
use super::super::entry::{EntryWriter, decode_checked};
use super::super::layout::Placement;
use super::super::layout::tests::{Content, filled, open, read};
use super::super::segment::HEADER_BYTES;
use super::super::store::Entries;
use super::super::testing::{Fault, MemoryDisk};
use super::*;
use crate::group::{OffsetKey, Record};
use crate::journal::layout::Layout;

const SEGMENT: &str = "generation-000001/stream-0001/segment-000000000001";

fn shared(disk: &MemoryDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn count(content: &Content) -> u64 {
    content.values().map(|records| records.len() as u64).sum()
}

/// Whether `part` is `whole` without some of its records.
fn is_part_of(part: &Content, whole: &Content) -> bool {
    part.iter().all(|(partition, records)| {
        let mut rest = whole[partition].iter();
        records.iter().all(|record| rest.any(|other| other == record))
    })
}

#[test]
fn a_sound_journal_is_said_to_be_sound() {
    let (disk, content) = filled(2);
    let verification = verify(&shared(&disk)).expect("it can be read");
    assert!(verification.is_sound(), "{verification}");
    assert_eq!(verification.streams.iter().map(|stream| stream.entries).sum::<u64>(), count(&content));
    assert!(verification.to_string().ends_with("sound\n"));
    let mut lines = 0;
    dump(&shared(&disk), &mut |line| {
        assert!(line.contains(": position ") && line.contains("key ["), "{line}");
        lines += 1;
    })
    .expect("it can be read");
    assert_eq!(lines, count(&content));
}

#[test]
fn a_line_says_what_a_record_is() {
    let key = OffsetKey { group_id: Rc::from("orders"), topic: Rc::from("events"), partition: 5 };
    let mut bytes = Vec::new();
    let mut writer = EntryWriter::new(&mut bytes, 300, 12, 4);
    Records(&[Record::OffsetTombstone { key }]).write(&mut writer);
    let found = Found { path: "segment", offset: 4_396, entry: decode_checked(&bytes) };
    let line = describe(&found, &mut Decoder::default());
    assert!(line.starts_with("segment+4396: position 300, partition 12, leader epoch 4: OffsetTombstone"), "{line}");
    assert!(line.contains("orders") && line.contains("events"), "{line}");
}

#[test]
fn a_server_at_work_keeps_the_tools_out() {
    let (disk, _) = filled(1);
    let _layout = open(&disk, 1).expect("it opens");
    assert!(matches!(verify(&shared(&disk)), Err(OpenError::Locked { .. })));
    assert!(matches!(repair(&shared(&disk)), Err(OpenError::Locked { .. })));
    assert!(matches!(dump(&shared(&disk), &mut |_| {}), Err(OpenError::Locked { .. })));
}

#[test]
fn a_repair_loses_what_is_damaged_and_no_more() {
    for offset in [HEADER_BYTES + 10, HEADER_BYTES + 900, 8, 5_000] {
        let (disk, content) = filled(2);
        disk.damage(SEGMENT, offset, |bytes| bytes[0] ^= 1);
        let verification = verify(&shared(&disk)).expect("it can be read");
        assert!(!verification.is_sound());
        let text = verification.to_string();
        assert!(text.contains(SEGMENT) && text.contains("LOST") && text.contains("NOT SOUND"), "{text}");
        assert!(open(&disk, 2).is_ok_and(|layout| layout.replay(0, []).is_err() || replays_badly(&layout)));

        let repair = repair(&shared(&disk)).expect("repaired");
        assert!(!repair.lost.is_empty());
        assert!(repair.to_string().contains("generation-000001 is as it was"), "{repair}");
        let layout = open(&disk, 2).expect("it opens");
        let found = read(&layout);
        assert!(is_part_of(&found, &content), "offset {offset}");
        // One record at most: of a header, none.
        assert!(count(&found) + 1 >= count(&content), "offset {offset}: {} of {}", count(&found), count(&content));
        drop(layout);
        assert!(verify(&shared(&disk)).expect("it can be read").is_sound());
        assert!(disk.list("").expect("a folder").contains(&"generation-000001".to_owned()), "kept");
        let layout = open(&disk, 3).expect("re-distributed");
        assert_eq!(read(&layout), found);
        assert!(disk.list("").expect("a folder").contains(&"generation-000001".to_owned()), "kept");
    }
}

fn replays_badly(layout: &Layout) -> bool {
    let mut replay = layout.replay(0, []).expect("it begins");
    loop {
        match replay.step(100, &mut |_| {}) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => return true,
        }
    }
}

#[test]
fn a_repair_of_a_snapshot_keeps_the_rest() {
    let (disk, content) = filled(1);
    drop(open(&disk, 2).expect("re-distributed: all is in snapshots"));
    let snapshot = disk.paths().into_iter().find(|path| path.contains("snapshot")).expect("a snapshot");
    let length = super::super::disk::read(&disk, &snapshot).expect("it is there").len() as u64;
    for offset in [3, 40, 700, length - 10] {
        let disk = disk.killed();
        disk.damage(&snapshot, offset, |bytes| bytes[0] ^= 1);
        assert!(!verify(&shared(&disk)).expect("it can be read").is_sound(), "offset {offset}");
        repair(&shared(&disk)).expect("repaired");
        let found = read(&open(&disk, 2).expect("it opens"));
        assert!(is_part_of(&found, &content) && count(&found) + 1 >= count(&content), "offset {offset}");
    }
}

#[test]
fn a_lost_manifest_is_found_again() {
    let (disk, content) = filled(2);
    disk.remove(FILE_NAME).expect("it is there");
    let verification = verify(&shared(&disk)).expect("it can be read");
    assert!(!verification.is_sound() && verification.streams.len() == 2, "{verification}");
    repair(&shared(&disk)).expect("repaired");
    assert_eq!(read(&open(&disk, 2).expect("it opens")), content);

    // Two generations: nobody knows which one counts.
    let (disk, _) = filled(2);
    disk.remove(FILE_NAME).expect("it is there");
    disk.create_folder("generation-000002").expect("made");
    let error = repair(&shared(&disk)).expect_err("refused");
    assert!(error.to_string().contains("move away"), "{error}");
}

#[test]
fn a_repair_without_a_manifest_goes_on_after_an_interruption() {
    let (disk, content) = filled(2);
    disk.remove(FILE_NAME).and_then(|()| disk.sync_folder("")).expect("it is there");
    let mut random = SmallRng::seed_from_u64(3);
    for fault in [Fault::PowerOff, Fault::Full, Fault::Failing] {
        for step in 0.. {
            let interrupted = disk.killed();
            interrupted.fail_at(step, fault);
            let is_over = repair(&shared(&interrupted)).is_ok();
            let crashed = interrupted.crash(&mut |n| random.random_range(0..n));
            for image in [interrupted.killed(), crashed] {
                repair(&shared(&image)).unwrap_or_else(|error| panic!("{fault:?} at {step}: {error}"));
                assert_eq!(read(&open(&image, 2).expect("it opens")), content, "{fault:?} at {step}");
            }
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn a_lost_manifest_is_found_again_beside_what_a_repair_kept() {
    let (disk, content) = filled(2);
    let manifest = repair(&shared(&disk)).expect("repaired").manifest;
    // As the first start makes it.
    let segment = format!("{}/segment-000000000001", manifest.stream_folder(manifest.streams[0]));
    disk.create(&segment).expect("made");
    disk.remove(FILE_NAME).expect("it is there");
    let again = repair(&shared(&disk)).expect("repaired").manifest;
    assert_eq!((again.generation, &again.kept[..]), (3, &[1, 2][..]));
    assert_eq!(read(&open(&disk, 2).expect("it opens")), content);
}

#[test]
fn a_torn_tail_is_no_damage() {
    let (disk, _) = filled(1);
    let segments: Vec<_> = disk.paths().into_iter().filter(|path| path.contains("segment")).collect();
    let last = &segments[segments.len() - 2];
    let bytes = super::super::disk::read(&disk, last).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it is in use") as u64;
    disk.damage(last, end + 1, |bytes| bytes[0] = 1);
    let verification = verify(&shared(&disk)).expect("it can be read");
    assert!(verification.is_sound() && verification.streams[0].cut.is_some(), "{verification}");
    let placement = Placement { streams: 1, name: "modulo 1", stream_of: &|_| 0 };
    Layout::open(shared(&disk), placement, &mut |_| {}).expect("it opens");
}

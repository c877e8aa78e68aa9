//! `rallypoint journal verify|repair|dump` as its user meets it: the command on real files.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "it runs the command and works on its files")]

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use rallypoint::clock::Now;
use rallypoint::group::{CommittedOffset, OffsetKey, Record};
use rallypoint::journal::codec::Records;
use rallypoint::journal::files::Folder;
use rallypoint::journal::layout::{Layout, Placement};
use rallypoint::journal::store::Store;
use rallypoint::journal::stream::{Stream, StreamSettings};

const RECORDS: i64 = 20;
const PLACEMENT: Placement<'_> = Placement { streams: 1, name: "in turn", stream_of: &|_| 0 };

/// One test at a time: a child that another one has forked keeps the lock of a journal until it runs its program.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn open(data: &Path) -> Layout {
    Layout::open(Arc::new(Folder::new(data.join("journal"))), PLACEMENT, &mut |_| {}).expect("a journal")
}

/// A journal with some commits, each written and synced on its own.
fn make(data: &Path) {
    let layout = open(data);
    let mut replay = layout.replay(0, []).expect("an empty stream");
    while replay.step(100, &mut |_| {}).expect("nothing") {}
    let mut stream =
        Stream::open(&replay, StreamSettings { segment_bytes: 1 << 20, ..Default::default() }).expect("open");
    stream.replayed(replay);
    for offset in 0..RECORDS {
        let key = OffsetKey { group_id: Rc::from("some-group"), topic: Rc::from("t"), partition: 0 };
        let offset = CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: None,
            commit_timestamp_ms: 1,
            expire_timestamp_ms: -1,
            topic_id: [0; 16],
        };
        stream.append(7, 0, &Records(&[Record::OffsetCommit { key, offset }])).expect("space");
        let write = stream.poll_write(Now::default()).expect("a write");
        let file = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", write.file)).expect("open");
        file.write_all_at(&write.data, write.offset).and_then(|()| file.sync_data()).expect("written");
        stream.written(write.token, Ok(()), Now::default());
    }
}

fn run(words: &[&str], data: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rallypoint"));
    command.args(words).arg("--data-dir").arg(data).output().expect("the command runs")
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_sound_journal_is_called_sound_and_dumped() {
    let _alone = alone();
    let data = tempfile::tempdir().expect("a folder");
    make(data.path());
    let verified = run(&["journal", "verify"], data.path());
    assert!(verified.status.success() && shown(&verified).contains("20 records"), "{}", shown(&verified));
    assert!(shown(&verified).ends_with("sound\n"));
    let dumped = run(&["journal", "dump"], data.path());
    assert_eq!(shown(&dumped).lines().filter(|line| line.contains("some-group")).count(), RECORDS as usize);
}

#[test]
fn damage_is_found_refused_and_repaired() {
    let _alone = alone();
    let data = tempfile::tempdir().expect("a folder");
    make(data.path());
    let segment = data.path().join("journal/generation-000001/stream-0001/segment-000000000001");
    let segment = std::fs::OpenOptions::new().read(true).write(true).open(&segment).expect("the first segment");
    // In the third record behind the header.
    let (mut byte, at) = ([0; 1], 4096 + 200);
    segment.read_exact_at(&mut byte, at).and_then(|()| segment.write_all_at(&[byte[0] ^ 1], at)).expect("damaged");
    let verified = run(&["journal", "verify"], data.path());
    assert!(!verified.status.success());
    assert!(shown(&verified).contains("NOT SOUND") && shown(&verified).contains("offset"), "{}", shown(&verified));
    let repaired = run(&["journal", "repair"], data.path());
    assert!(repaired.status.success(), "{}", shown(&repaired));
    assert!(shown(&repaired).contains("LOST") && shown(&repaired).contains("19 records"), "{}", shown(&repaired));
    let verified = run(&["journal", "verify"], data.path());
    assert!(verified.status.success(), "{}", shown(&verified));
}

#[test]
fn a_journal_in_use_or_none_at_all_is_refused_with_what_to_do() {
    let _alone = alone();
    let data = tempfile::tempdir().expect("a folder");
    for task in ["verify", "repair", "dump"] {
        let none = run(&["journal", task], data.path());
        assert!(!none.status.success() && shown(&none).contains("--data-dir"), "{}", shown(&none));
    }
    make(data.path());
    let in_use = open(data.path());
    for task in ["verify", "repair", "dump"] {
        let locked = run(&["journal", task], data.path());
        assert!(!locked.status.success() && shown(&locked).contains("stop it first"), "{}", shown(&locked));
    }
    drop(in_use);
    assert!(run(&["journal", "verify"], data.path()).status.success());
}

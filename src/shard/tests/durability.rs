//! Which replies wait for the journal, with a store that is durable when the test says so.

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::clock::Now;
use crate::journal::store::{
    Durability, Entries, FailedPositions, Refused, Store, StoreState, StoreWrite, WriteFailure,
};
use crate::wire::Array;
use crate::wire::delete_groups::DeleteGroupsRequest;
use crate::wire::find_coordinator::FindCoordinatorRequest;
use crate::wire::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use crate::wire::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use crate::wire::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};

/// Takes everything; durable is what the test has made so.
struct SlowStore {
    appended: JournalPosition,
    durable: Rc<Cell<JournalPosition>>,
}

impl Store for SlowStore {
    fn append(&mut self, _: i32, _: i32, _: &dyn Entries) -> Result<JournalPosition, Refused> {
        self.appended.0 += 1;
        Ok(self.appended)
    }

    fn durable(&self) -> JournalPosition {
        self.durable.get()
    }

    fn appended(&self) -> JournalPosition {
        self.appended
    }

    fn poll_failed(&mut self) -> Option<FailedPositions> {
        None
    }

    fn mode(&self) -> Durability {
        Durability::Fsync
    }

    fn state(&self) -> StoreState {
        StoreState::Open
    }

    fn poll_write(&mut self, _: Now) -> Option<StoreWrite> {
        None
    }

    fn written(&mut self, _: u64, _: Result<(), WriteFailure>, _: Now) {}

    fn deadline_ms(&self) -> Option<u64> {
        None
    }
}

fn fetch_all(world: &mut World) -> Verdict {
    let groups = [OffsetFetchRequestGroup { group_id: "g".into(), topics: None, ..Default::default() }];
    let request = OffsetFetchRequest { groups: Array::Items(&groups), ..Default::default() };
    world.send(0, ApiKey::OffsetFetch, 9, &request).1
}

fn delete_offset(world: &mut World) -> Verdict {
    let partitions = [OffsetDeleteRequestPartition { partition_index: 0 }];
    let topics = [OffsetDeleteRequestTopic { name: "t".into(), partitions: Array::Items(&partitions) }];
    let request = OffsetDeleteRequest { group_id: "g".into(), topics: Array::Items(&topics) };
    world.send(0, ApiKey::OffsetDelete, 0, &request).1
}

fn commit(world: &mut World) -> Verdict {
    let partitions = [OffsetCommitRequestPartition { committed_offset: 5, ..Default::default() }];
    let partitions = Array::Items(&partitions[..]);
    let topics = [OffsetCommitRequestTopic { name: "t".into(), partitions, ..Default::default() }];
    let request = OffsetCommitRequest { group_id: "g".into(), topics: Array::Items(&topics), ..Default::default() };
    world.send(0, ApiKey::OffsetCommit, 8, &request).1
}

fn delete_group(world: &mut World) -> Verdict {
    let names = ["g".into()];
    world.send(0, ApiKey::DeleteGroups, 2, &DeleteGroupsRequest { groups_names: Array::Items(&names) }).1
}

fn waits_for(verdict: &Verdict) -> u64 {
    match verdict {
        Verdict::Answered => 0,
        Verdict::Durable(position) => position.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_shows_or_repeats_a_change_waits_until_it_is_durable() {
    let durable = Rc::new(Cell::new(JournalPosition(0)));
    let topics = vec![crate::config::DeclaredTopic { name: "t".into(), partitions: Some(1) }];
    let settings = Settings { topics, ..Settings::default() };
    let mut journals = |_: usize| -> (Journal, RunJob) {
        let store = SlowStore { appended: JournalPosition(0), durable: durable.clone() };
        (Journal::Open(Box::new(store)), Box::new(|job| unreachable!("nothing on files, but {job:?}")))
    };
    let mut world = World::with_journals(1, settings, &[], &mut journals);
    world.ask(0, ApiKey::FindCoordinator, 3, &FindCoordinatorRequest { key: "g".into(), ..Default::default() });
    let mut step = |request: fn(&mut World) -> Verdict| waits_for(&request(&mut world));
    assert_eq!(step(fetch_all), 0, "nothing was changed");
    assert_eq!((step(commit), step(fetch_all)), (1, 1));
    durable.set(JournalPosition(1));
    assert_eq!(step(delete_offset), 2);
    assert_eq!((step(delete_offset), step(fetch_all)), (2, 2), "nothing is there any more, but that is not durable");
    assert_eq!(step(delete_group), 3);
    assert_eq!((step(fetch_all), step(commit), step(delete_offset)), (3, 4, 5));
    durable.set(JournalPosition(5));
    assert_eq!((step(delete_offset), step(delete_group)), (0, 6));
}

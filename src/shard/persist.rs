//! From the groups to the journal and back: records go in as soon as an input has made them, and what waits for them is told
//! when they are as durable as the journal promises.

use std::collections::VecDeque;

use super::Shard;
use super::service::{JournalPosition, Verdict};
use crate::errors::ErrorCode;
use crate::group::{Record, WriteId};
use crate::journal::codec::Records;
use crate::journal::store::{Change, Refused, Store};

/// The records of this core on their way to the disk.
#[derive(Default)]
pub(super) struct Persistence {
    /// For taking records, reused.
    records: Vec<Record>,
    /// Writes that something in the groups waits for, by rising position.
    awaited: VecDeque<(JournalPosition, WriteId)>,
}

impl Shard {
    /// Hands what the last input has written to the journal. The verdict is that of a request whose reply promises it; an
    /// error means that nothing was kept, and has been undone. What had nothing to write found things as earlier writes have
    /// left them, and its reply waits for those, as in Kafka.
    pub(super) fn persist(&mut self) -> Result<Verdict, ErrorCode> {
        let Some(taken) = self.groups.take_records(&mut self.persistence.records) else {
            return Ok(self.when_all_is_durable());
        };
        let appended = self.append();
        self.persistence.records.clear();
        match appended {
            Ok(position) => {
                let durable = self.store().durable();
                if taken.is_awaited {
                    self.persistence.awaited.push_back((position, taken.write));
                    self.release_writes(durable);
                }
                Ok(if durable >= position { Verdict::Answered } else { Verdict::Durable(position) })
            }
            Err(refused) => {
                let error = answer_of(refused);
                self.groups.written(taken.write, Err(error), self.now);
                Err(error)
            }
        }
    }

    /// The verdict of a reply that shows what may not be durable yet. What has failed and is undone shows no more, and may never
    /// become durable.
    pub(super) fn when_all_is_durable(&self) -> Verdict {
        let store = self.store();
        let (settled, appended) = (store.durable().max(self.undone), store.appended());
        if settled >= appended { Verdict::Answered } else { Verdict::Durable(appended) }
    }

    /// The verdict of a reply that shows which groups there are: one whose deletion is on its way may come back.
    pub(super) fn when_deletions_are_durable(&self) -> Verdict {
        if self.groups.has_unwritten_deletions() { self.when_all_is_durable() } else { Verdict::Answered }
    }

    fn append(&mut self) -> Result<JournalPosition, Refused> {
        let guard = self.guard.as_ref().expect("pinned while requests are handled");
        let offsets = self.views.table(guard).offsets.as_ref().expect("a group has a partition of the offsets topic");
        let store = self.journal.store_mut().expect(LOADED);
        let place = |run: &Records<'_>| {
            let partition = offsets.partition_of(run.0[0].group_id());
            (partition, offsets.leader_epochs[partition as usize])
        };
        let records = &self.persistence.records;
        let mut runs = records.chunk_by(|one, next| one.group_id() == next.group_id()).map(Records);
        let first = runs.next().expect("something was taken");
        let rest: Vec<Records<'_>> = runs.collect();
        // Most inputs change one group.
        if rest.is_empty() {
            let (partition, leader_epoch) = place(&first);
            return store.append(partition, leader_epoch, &first);
        }
        // All of it is undone if some of it is refused.
        let changes = [&first].into_iter().chain(&rest).map(|run| {
            let (partition, leader_epoch) = place(run);
            Change { partition, leader_epoch, records: run }
        });
        store.append_all(&changes.collect::<Vec<_>>())
    }

    fn store(&self) -> &dyn Store {
        self.journal.store().expect(LOADED)
    }

    /// Tells the groups of the writes that have become durable.
    pub(super) fn release_writes(&mut self, durable: JournalPosition) {
        while let Some((_, write)) = self.persistence.awaited.pop_front_if(|(position, _)| *position <= durable) {
            self.groups.written(write, Ok(()), self.now);
        }
    }

    /// Tells the groups of the writes that were not kept after all.
    pub(super) fn fail_writes(&mut self, through: JournalPosition) {
        while let Some((_, write)) = self.persistence.awaited.pop_front_if(|(position, _)| *position <= through) {
            self.groups.written(write, Err(ErrorCode::COORDINATOR_NOT_AVAILABLE), self.now);
        }
    }
}

const LOADED: &str = "groups change only once they are loaded";

/// Retriable: a client asks for the coordinator again, and comes back.
fn answer_of(refused: Refused) -> ErrorCode {
    match refused {
        Refused::Full | Refused::Fenced | Refused::Busy => ErrorCode::COORDINATOR_NOT_AVAILABLE,
        Refused::TooLarge => ErrorCode::UNKNOWN_SERVER_ERROR,
    }
}

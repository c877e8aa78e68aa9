//! This core's journal: replayed at a start, then fed by [`super::persist`]. Drives the [`Store`], whatever is behind it: its
//! writes go to the core's ring, its work on files to a thread.

use super::Shard;
use super::loading::Loading;
use super::service::{FileWrite, JournalPosition, Network, WriteFailure};
use crate::journal::job::Job;
use crate::journal::replay::Replay;
use crate::journal::store::{Store, StoreState};
use crate::journal::stream::StreamSettings;

/// Tells the journal's writes from those of control.
const TOKEN: u64 = 1 << 63;

/// Where the records of a core go, and come from.
pub enum Journal {
    /// It takes records.
    Open(Box<dyn Store>),
    /// What a former run has left is read; the partitions of which that is not done are COORDINATOR_LOAD_IN_PROGRESS.
    Loading(Box<Loading>),
}

/// A turn that has appended more than so many bytes leaves it to the next turn to write them: sealing and copying takes time too.
pub(super) const APPENDED_PER_TURN_MAX: u64 = 1 << 20;

/// Does a job beside the core; its end comes as [`super::Mail::JobDone`].
pub type RunJob = Box<dyn Fn(Job)>;

impl Journal {
    /// Begins to read, up to so many entries at a time: see [`super::ENTRIES_PER_STEP`].
    pub fn load(replay: Replay, settings: StreamSettings, entries_per_step: usize) -> Journal {
        Journal::Loading(Box::new(Loading::new(replay, settings, entries_per_step)))
    }

    /// The store, once it takes records.
    pub(super) fn store(&self) -> Option<&dyn Store> {
        match self {
            Journal::Open(store) => Some(&**store),
            Journal::Loading(loading) => loading.store(),
        }
    }

    pub(super) fn store_mut(&mut self) -> Option<&mut dyn Store> {
        match self {
            Journal::Open(store) => Some(&mut **store),
            Journal::Loading(loading) => loading.store_mut(),
        }
    }
}

impl Shard {
    /// A write of the journal has ended; false if it was not the journal's.
    pub(super) fn journal_written(
        &mut self,
        token: u64,
        result: Result<(), WriteFailure>,
    ) -> Result<(), Result<(), WriteFailure>> {
        match self.journal.store_mut() {
            Some(store) if token & TOKEN != 0 => {
                store.written(token & !TOKEN, result, self.now);
                Ok(())
            }
            _ => Err(result),
        }
    }

    /// Lets go what has become durable, tells of what has failed, and writes what is to be written.
    pub(super) fn turn_journal(&mut self, network: &mut dyn Network) {
        self.undo_what_failed(network);
        let Some(store) = self.journal.store() else { return };
        let durable = store.durable();
        self.release(durable, network);
        // Not before what failed is undone.
        self.turn_snapshot();
        self.write_journal(network);
        // Without a segment to go on in, a write fails before it is begun.
        self.undo_what_failed(network);
    }

    fn undo_what_failed(&mut self, network: &mut dyn Network) {
        let Some(failed) = self.journal.store_mut().and_then(|store| store.poll_failed()) else { return };
        self.metrics.journal_failures.add(1);
        self.release(failed.after, network);
        self.fail_writes(failed.through);
        self.undone = failed.through;
        self.topic_deletions.begin_again();
        network.failed(failed.after, failed.through);
    }

    fn write_journal(&mut self, network: &mut dyn Network) {
        let now = self.now;
        let Some(store) = self.journal.store_mut() else { return };
        let appended = store.appended();
        self.writes_next_turn = !self.writes_next_turn && appended.0 - self.polled.0 > APPENDED_PER_TURN_MAX;
        while !self.writes_next_turn
            && let Some(write) = store.poll_write(now)
        {
            let (file, offset, sync, token) = (write.file, write.offset, write.sync, write.token | TOKEN);
            self.metrics.journal_writes.add(1);
            network.write(FileWrite { file, offset, data: Box::new(write.data), sync, token });
        }
        self.polled = appended;
        while let Some(job) = store.poll_job(now) {
            (self.run_job)(job);
        }
    }

    pub(super) fn publish_journal_metrics(&self) {
        let state = match self.journal.store().map(|store| store.state()) {
            Some(StoreState::Open) if !self.is_loading() => 0,
            Some(StoreState::Open) | None => 1,
            Some(StoreState::Full) => 2,
            Some(StoreState::Fenced) => 3,
        };
        self.metrics.journal_state.set(state);
        if let Some(store) = self.journal.store() {
            let (appended, durable) = (store.appended().0, store.durable().0);
            self.metrics.journal_mode.set(store.mode() as u64);
            self.metrics.journal_appended_bytes.set(appended);
            self.metrics.journal_waiting_bytes.set(appended.saturating_sub(durable));
        }
    }

    fn release(&mut self, durable: JournalPosition, network: &mut dyn Network) {
        if durable > self.released {
            self.released = durable;
            self.release_writes(durable);
            network.durable(durable);
        }
    }
}

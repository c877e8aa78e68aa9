//! This core's journal: replayed at a start, then fed by [`super::persist`]. Drives the [`Store`], whatever is behind it: its
//! writes go to the core's ring, its work on files to a thread.

use super::Shard;
use super::service::{FileWrite, JournalPosition, Network, WriteFailure};
use crate::group::Groups;
use crate::journal::codec::Decoder;
use crate::journal::failure::OpenError;
use crate::journal::job::Job;
use crate::journal::replay::{Replay, Replayed};
use crate::journal::store::{Store, StoreState};
use crate::journal::stream::{Stream, StreamSettings};

/// Tells the journal's writes from those of control.
const TOKEN: u64 = 1 << 63;

/// Entries that one turn replays: long enough to be fast, short enough to answer meanwhile.
const ENTRIES_PER_TURN: usize = 8_192;

/// Where the records of a core go, and come from.
pub enum Journal {
    /// It takes records.
    Open(Box<dyn Store>),
    /// What a former run has left is read first; until then groups are COORDINATOR_LOAD_IN_PROGRESS.
    Loading(Box<Loading>),
}

/// A turn that has appended more than so many bytes leaves it to the next turn to write them: sealing and copying takes time too.
pub(super) const APPENDED_PER_TURN_MAX: u64 = 1 << 20;

/// A journal that is being read.
pub struct Loading {
    replay: Replay,
    settings: StreamSettings,
    decoder: Decoder,
    /// Topics that were deleted meanwhile.
    deleted_topics: Vec<String>,
}

/// Does a job beside the core; its end comes as [`super::Mail::JobDone`].
pub type RunJob = Box<dyn Fn(Job)>;

impl Journal {
    /// Begins to read.
    pub fn load(replay: Replay, settings: StreamSettings) -> Journal {
        let decoder = Decoder::default();
        Journal::Loading(Box::new(Loading { replay, settings, decoder, deleted_topics: Vec::new() }))
    }

    /// The store, once it takes records.
    pub(super) fn store(&self) -> Option<&dyn Store> {
        match self {
            Journal::Open(store) => Some(&**store),
            Journal::Loading(_) => None,
        }
    }

    pub(super) fn store_mut(&mut self) -> Option<&mut dyn Store> {
        match self {
            Journal::Open(store) => Some(&mut **store),
            Journal::Loading(_) => None,
        }
    }
}

impl Loading {
    /// Reads on; false when all is read.
    fn step(&mut self, groups: &mut Groups) -> Result<bool, LoadError> {
        let Loading { replay, decoder, .. } = self;
        let mut malformed = None;
        let goes_on = replay.step(ENTRIES_PER_TURN, &mut |replayed| {
            let Replayed::Entry(entry) = replayed else { return };
            match decoder.decode(entry.key, entry.value) {
                Ok(Some(record)) => groups.apply(&record),
                Ok(None) => {}
                Err(error) => {
                    malformed.get_or_insert(LoadError::Record { position: entry.position, problem: error.to_string() });
                }
            }
        })?;
        malformed.map_or(Ok(goes_on), Err)
    }
}

/// Why a journal cannot be loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "the journal's record at position {position} is of no version that is known here: {problem}; a newer server wrote it"
    )]
    Record { position: u64, problem: String },
}

impl Shard {
    pub(super) fn is_loading(&self) -> bool {
        matches!(self.journal, Journal::Loading(_))
    }

    /// Reads on in what a former run has left; when all is read the groups' sessions begin, and requests are served.
    pub(super) fn load(&mut self) -> std::io::Result<()> {
        let Journal::Loading(loading) = &mut self.journal else { return Ok(()) };
        if loading.step(&mut self.groups).map_err(std::io::Error::other)? {
            return Ok(());
        }
        let progress = loading.replay.progress();
        let opened = |Loading { replay, settings, decoder, deleted_topics }| {
            Stream::open(replay, settings).map(|stream| (stream, decoder, deleted_topics))
        };
        let closed = Journal::Open(Box::new(crate::journal::store::MemoryStore::default()));
        let Journal::Loading(loading) = std::mem::replace(&mut self.journal, closed) else {
            unreachable!("it was loading")
        };
        let (stream, decoder, deleted_topics) = opened(*loading).map_err(std::io::Error::other)?;
        self.journal = Journal::Open(Box::new(stream));
        self.groups.loaded(|_| true, self.now);
        for topic in deleted_topics {
            self.topic_deleted(topic);
        }
        let (groups, entries, unknown) = (self.groups.len(), progress.entries, decoder.unknown());
        tracing::info!(core = self.core, groups, entries, unknown, "loaded");
        Ok(())
    }

    /// The offsets that groups have committed for a topic go with it.
    pub(super) fn topic_deleted(&mut self, topic: String) {
        if let Journal::Loading(loading) = &mut self.journal {
            loading.deleted_topics.push(topic);
            return;
        }
        self.groups.topic_deleted(&topic);
        let _undone = self.persist();
    }

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
        let Some(store) = self.journal.store_mut() else { return };
        let failed = store.poll_failed();
        if let Some(failed) = failed {
            self.metrics.journal_failures.add(1);
            self.release(failed.after, network);
            self.fail_writes(failed.through);
            network.failed(failed.after, failed.through);
        }
        let Some(store) = self.journal.store_mut() else { return };
        let durable = store.durable();
        self.release(durable, network);
        // Not before what failed is undone.
        self.turn_snapshot();
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
            Some(StoreState::Open) => 0,
            None => 1,
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

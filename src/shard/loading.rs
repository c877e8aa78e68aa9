//! A start: what a former run has left is read in steps, between the requests. As soon as it is known where the log ends the
//! journal takes records, and each offsets partition is served once all of it was read and its groups are started.

use std::collections::VecDeque;

use super::Shard;
use super::journal::Journal;
use super::service::Network;
use crate::clock::Now;
use crate::control::Views;
use crate::errors::ErrorCode;
use crate::group::Groups;
use crate::journal::codec::Decoder;
use crate::journal::failure::OpenError;
use crate::journal::replay::{Replay, Replayed};
use crate::journal::store::{MemoryStore, Store};
use crate::journal::stream::{Stream, StreamSettings};
use crate::leadership::pin;

/// Entries that are read at a time, some hundred microseconds at most. A turn reads on as long as it has time.
pub const ENTRIES_PER_STEP: usize = 512;

/// A journal that is being read.
pub struct Loading {
    replay: Replay,
    settings: StreamSettings,
    entries_per_step: usize,
    decoder: Decoder,
    /// Once the log was checked.
    stream: Option<Box<Stream>>,
    /// Partitions of which all was read, and whose groups are to be started.
    to_start: VecDeque<i32>,
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
    #[error(
        "the journal of core {core} has records of partition {partition} of the offsets topic, which by the control log is not \
         there or not this core's: they do not belong together; restore both from one backup, or move the whole data directory \
         away to begin a new cluster (what groups have committed is lost then)"
    )]
    Partition { core: usize, partition: i32 },
}

impl Loading {
    pub(super) fn new(replay: Replay, settings: StreamSettings, entries_per_step: usize) -> Loading {
        Loading {
            replay,
            settings,
            entries_per_step,
            decoder: Decoder::default(),
            stream: None,
            to_start: VecDeque::new(),
        }
    }

    pub(super) fn store(&self) -> Option<&dyn Store> {
        self.stream.as_deref().map(|stream| stream as &dyn Store)
    }

    pub(super) fn store_mut(&mut self) -> Option<&mut dyn Store> {
        self.stream.as_deref_mut().map(|stream| stream as &mut dyn Store)
    }

    /// Whether the groups of a partition are all there and started.
    fn is_open(&self, partition: i32) -> bool {
        self.stream.is_some() && self.replay.is_loaded(partition) && !self.to_start.contains(&partition)
    }

    /// Goes on for a step; false when all is done.
    fn step(&mut self, groups: &mut Groups, now: Now) -> Result<bool, LoadError> {
        if let Some(partition) = self.to_start.front() {
            if !groups.start_loaded(*partition, now) {
                self.to_start.pop_front();
            }
            return Ok(true);
        }
        let reads_on = self.read(groups)?;
        if self.stream.is_none() && self.replay.is_checked() {
            self.stream = Some(Box::new(Stream::open(&self.replay, self.settings)?));
        }
        Ok(reads_on || !self.to_start.is_empty())
    }

    fn read(&mut self, groups: &mut Groups) -> Result<bool, LoadError> {
        let Loading { replay, decoder, to_start, .. } = self;
        let mut malformed = None;
        let reads_on = replay.step(self.entries_per_step, &mut |replayed| match replayed {
            Replayed::Entry(entry) => match decoder.decode(entry.key, entry.value) {
                Ok(Some(record)) => groups.apply(entry.partition, &record),
                Ok(None) => {}
                Err(error) => {
                    malformed.get_or_insert(LoadError::Record { position: entry.position, problem: error.to_string() });
                }
            },
            Replayed::Loaded(partition) => to_start.push_back(partition),
        })?;
        malformed.map_or(Ok(reads_on), Err)
    }
}

impl Shard {
    /// Whether some partitions may not be there yet.
    pub(crate) fn is_loading(&self) -> bool {
        matches!(self.journal, Journal::Loading(_))
    }

    /// Whether a partition that this core leads is served.
    pub(super) fn check_loaded(&self, partition: i32) -> Result<(), ErrorCode> {
        match &self.journal {
            Journal::Loading(loading) if !loading.is_open(partition) => Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    /// Reads on in what a former run has left: a step, and more if the turn has time and no reply waits for its end.
    pub(super) fn load(&mut self, network: &dyn Network) -> std::io::Result<()> {
        let is_waited_for = std::mem::take(&mut self.is_waited_for);
        while let Journal::Loading(loading) = &mut self.journal {
            if let Some(&partition) = loading.to_start.front() {
                check_led(&self.views, self.core, partition).map_err(std::io::Error::other)?;
            }
            let goes_on = loading.step(&mut self.groups, self.now).map_err(std::io::Error::other)?;
            if self.groups.has_records() {
                let _undone = self.persist();
                self.writes_next_turn = true;
            }
            if !goes_on {
                self.loaded();
            } else if is_waited_for || !network.has_time() {
                break;
            }
        }
        Ok(())
    }

    fn loaded(&mut self) {
        let closed = Journal::Open(Box::new(MemoryStore::default()));
        let Journal::Loading(loading) = std::mem::replace(&mut self.journal, closed) else {
            unreachable!("it was loading")
        };
        let Loading { replay, decoder, stream, .. } = *loading;
        let mut stream = stream.expect("the log was checked");
        let (groups, entries, unknown) = (self.groups.len(), replay.progress().entries, decoder.unknown());
        stream.replayed(replay);
        self.journal = Journal::Open(stream);
        // What may be removed now is removed by the journal's turn.
        self.writes_next_turn = true;
        tracing::info!(core = self.core, groups, entries, unknown, "loaded");
    }
}

/// Groups of another core's partition would never be asked for here, and their records would be lost with the next snapshot.
fn check_led(views: &Views, core: usize, partition: i32) -> Result<(), LoadError> {
    let guard = pin();
    let Some(offsets) = &views.table(&guard).offsets else { return Ok(()) };
    match offsets.leaders.get(partition as usize) {
        Some(leader) if leader.index() == core => Ok(()),
        _ => Err(LoadError::Partition { core, partition }),
    }
}

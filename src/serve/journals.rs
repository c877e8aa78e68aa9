//! Opens the journal of a data directory, and gives each core its stream of it.

use std::sync::Arc;

use super::progress::Bar;
use super::{Foundation, ServeError};
use crate::config::Settings;
use crate::ids::NodeIndex;
use crate::journal::block::BLOCK_BYTES;
use crate::journal::disk::Lock;
use crate::journal::failure::OpenError;
use crate::journal::files::{Folder, Worker};
use crate::journal::job::Job;
use crate::journal::layout::{Layout, Placement};
use crate::journal::reading::Reading;
use crate::journal::replay::{Progress, Replay, Replayed};
use crate::journal::store::{Durability, MemoryStore};
use crate::journal::stream::StreamSettings;
use crate::leadership::assign::leader_of;
use crate::leadership::pin;
use crate::limits::JOURNAL_WRITE_MAX_BYTES;
use crate::shard::{ENTRIES_PER_STEP, Journal, Mail, RunJob};

/// The rule by which partitions are placed; it is leadership's. A journal placed by another is re-distributed.
const PLACEMENT: &str = "in turn";

/// The journal of a server, as its cores need it.
pub(super) enum Journals {
    /// `rallypoint.journal.mode=memory`.
    Memory,
    /// In a folder.
    Folder { layout: Layout, settings: StreamSettings },
}

/// What one core gets; made on the thread that starts it, used on the core's.
pub(super) struct CoreJournal(Option<(Replay, StreamSettings, Worker)>);

impl Journals {
    /// Opens or makes the journal; with another number of cores than before it is re-distributed first.
    pub(super) fn open(settings: &Settings) -> Result<Journals, OpenError> {
        let mode = settings.journal_mode;
        if mode == Durability::Memory {
            return Ok(Journals::Memory);
        }
        let nodes = settings.cores as u16;
        let stream_of = move |partition: i32| leader_of(partition, NodeIndex(0), nodes).index();
        let placement = Placement { streams: settings.cores, name: PLACEMENT, stream_of: &stream_of };
        let folder = Arc::new(Folder::new(settings.data_dir.join("journal")));
        let mut bar = None;
        let mut show = |now: Progress| {
            bar.get_or_insert_with(|| Bar::new("re-distributing the journal")).show(now.bytes_done, now.bytes_total);
        };
        let layout = Layout::open(folder, placement, &mut show)?;
        let segment_bytes = settings.journal_segment_bytes.next_multiple_of(BLOCK_BYTES as u64);
        let (snapshot_after_bytes, room_bytes) = (4 * segment_bytes, JOURNAL_WRITE_MAX_BYTES);
        let settings =
            StreamSettings { mode, segment_bytes, snapshot_after_bytes, room_bytes, ..StreamSettings::default() };
        Ok(Journals::Folder { layout, settings })
    }

    /// To be kept until the server has ended.
    pub(super) fn lock(&self) -> Option<Arc<dyn Lock>> {
        match self {
            Journals::Memory => None,
            Journals::Folder { layout, .. } => Some(layout.lock()),
        }
    }

    /// A core's part, and the thread for its files.
    pub(super) fn of_core(&self, core: usize, foundation: &Foundation) -> Result<CoreJournal, ServeError> {
        let Journals::Folder { layout, settings } = self else { return Ok(CoreJournal(None)) };
        let led = {
            let guard = pin();
            foundation.views.table(&guard).offsets.as_ref().map(|offsets| {
                let led = offsets.leaders.iter().enumerate().filter(|(_, leader)| leader.index() == core);
                led.map(|(partition, _)| partition as i32).collect::<Vec<_>>()
            })
        };
        if led.is_none() && has_records(layout.replay(core, [])?)? {
            return Err(ServeError::NoOffsetsTopic { data_dir: foundation.settings.data_dir.clone() });
        }
        let replay = layout.replay(core, led.unwrap_or_default())?;
        let worker = Worker::start(layout.disk().clone(), layout.lock())
            .map_err(|error| OpenError::Io { path: "a thread for the journal's files".to_owned(), source: error })?;
        Ok(CoreJournal(Some((replay, *settings, worker))))
    }
}

fn has_records(mut replay: Replay) -> Result<bool, OpenError> {
    let mut found = false;
    let mut take = |replayed: Replayed<'_>| found |= matches!(replayed, Replayed::Entry(_));
    while replay.step(ENTRIES_PER_STEP, &mut take)? {}
    Ok(found)
}

impl CoreJournal {
    /// How far a start is with it.
    pub(super) fn reading(&self) -> Option<Arc<Reading>> {
        self.0.as_ref().map(|(replay, ..)| replay.reading())
    }

    /// The shard's end of it.
    pub(super) fn into_parts(self, core: usize, foundation: &Foundation) -> (Journal, RunJob) {
        let Some((replay, settings, worker)) = self.0 else {
            let no_job = |job: Job| unreachable!("memory has no files, but wants {job:?}");
            return (Journal::Open(Box::new(MemoryStore::default())), Box::new(no_job));
        };
        let mailboxes = foundation.mailboxes.clone();
        let run = move |job: Job| {
            let mailboxes = mailboxes.clone();
            worker.submit(job, Box::new(move |done| mailboxes.send(core, Mail::JobDone(done))));
        };
        (Journal::load(replay, settings, ENTRIES_PER_STEP), Box::new(run))
    }
}

//! The disks of the simulated machine: the control log's file, and the journal's files, with the real layout, streams and
//! replay on them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::breaks::Breaks;
use super::disk::LogFile;
use super::random::Random;
use crate::ids::NodeIndex;
use crate::journal::disk::Lock;
use crate::journal::job::{Job, JobDone};
use crate::journal::layout::{Layout, Placement};
use crate::journal::store::{Durability, MemoryStore, WriteFailure};
use crate::journal::stream::StreamSettings;
use crate::journal::testing::{Fault, MemoryDisk};
use crate::leadership::assign::leader_of;
use crate::shard::service::FileWrite;
use crate::shard::{Journal, RunJob};

/// The control log's file number; the journal's are far below.
pub(super) const CONTROL_LOG: i32 = i32::MAX;

/// What the machine keeps beyond the process.
pub(super) struct Storage {
    pub(super) log: LogFile,
    disk: MemoryDisk,
    settings: StreamSettings,
    /// That a start reads at a time.
    entries_per_step: usize,
    /// Work on files that cores have asked for, in order.
    jobs: Jobs,
    lock: Option<Arc<dyn Lock>>,
    /// Files cannot grow.
    pub(super) is_full: bool,
}

type Jobs = Rc<RefCell<Vec<(usize, Job)>>>;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The system goes on, and writes what it was given.
    Killed,
    /// What was not synced is there or not.
    PowerFailure,
}

/// A write to a file that is under way.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) file: i32,
    pub(super) token: u64,
    sync: bool,
    result: Result<(), WriteFailure>,
}

impl Storage {
    pub(super) fn new(settings: StreamSettings, entries_per_step: usize) -> Storage {
        let (log, disk, jobs) = (LogFile::new(), MemoryDisk::default(), Jobs::default());
        Storage { log, disk, settings, entries_per_step, jobs, lock: None, is_full: false }
    }

    /// Opens the journal: for each core, what `led` says that it leads.
    pub(super) fn open(
        &mut self,
        led: &[Vec<i32>],
        is_restart: bool,
        breaks: &mut Breaks,
    ) -> Result<Vec<(Journal, RunJob)>, String> {
        if self.settings.mode == Durability::Memory {
            let memory = |core| (Journal::Open(Box::new(MemoryStore::default())), self.run_job(core));
            return Ok((0..led.len()).map(memory).collect());
        }
        if is_restart {
            breaks.drop_record(&self.disk);
        }
        let nodes = led.len() as u16;
        let stream_of = move |partition: i32| leader_of(partition, NodeIndex(0), nodes).index();
        let placement = Placement { streams: led.len(), name: "in turn", stream_of: &stream_of };
        let layout = Layout::open(Arc::new(self.disk.clone()), placement, &mut |_| {});
        let layout = layout.map_err(|error| format!("the journal does not open: {error}"))?;
        self.lock = Some(layout.lock());
        let mut journals = Vec::with_capacity(led.len());
        for (core, led) in led.iter().enumerate() {
            let replay = layout.replay(core, led.iter().copied());
            let replay = replay.map_err(|error| format!("the journal of core {core} does not open: {error}"))?;
            journals.push((Journal::load(replay, self.settings, self.entries_per_step), self.run_job(core)));
        }
        Ok(journals)
    }

    fn run_job(&self, core: usize) -> RunJob {
        let jobs = self.jobs.clone();
        Box::new(move |job| jobs.borrow_mut().push((core, job)))
    }

    /// Work on files that cores have asked for since this was asked last.
    pub(super) fn take_jobs(&mut self) -> Vec<(usize, Job)> {
        std::mem::take(&mut *self.jobs.borrow_mut())
    }

    /// Does such work.
    pub(super) fn run(&mut self, job: Job) -> JobDone {
        job.run(&self.disk)
    }

    /// Whether the power has failed.
    pub(super) fn is_off(&self) -> bool {
        self.disk.is_off()
    }

    /// Begins a write. What is written can be lost until the write is complete.
    pub(super) fn begin(&mut self, write: FileWrite, fails: bool) -> Begun {
        let FileWrite { file, offset, data, sync, token } = write;
        let result = if file == CONTROL_LOG {
            self.log.begin(offset, data.to_vec());
            Ok(())
        } else {
            if fails {
                self.fail_next(Fault::Failing);
            }
            self.disk.write(file, offset, &data).map_err(WriteFailure::Write)
        };
        Begun { file, token, sync, result }
    }

    /// The write has ended.
    pub(super) fn complete(
        &mut self,
        write: Begun,
        fails: bool,
        breaks: &mut Breaks,
        random: &mut Random,
    ) -> Result<(), WriteFailure> {
        let eio = || std::io::Error::from_raw_os_error(5);
        if write.file == CONTROL_LOG {
            if fails {
                self.log.tear(random);
                return Err(WriteFailure::Sync(eio()));
            }
            match breaks.lies_of_sync() {
                true => self.log.lose(),
                false => self.log.complete(),
            }
            return Ok(());
        }
        write.result?;
        if !write.sync || breaks.lies_of_sync() {
            return Ok(());
        }
        if fails {
            self.fail_next(Fault::Failing);
        }
        self.disk.sync(write.file).map_err(WriteFailure::Sync)
    }

    /// The next step on the disk goes wrong.
    pub(super) fn fail_next(&mut self, fault: Fault) {
        self.disk.fail_at(self.disk.steps(), fault);
    }

    /// The power fails some steps from now.
    pub(super) fn fail_power_after(&mut self, steps: u64) {
        self.disk.fail_at(self.disk.steps() + steps, Fault::PowerOff);
    }

    /// Files cannot grow, or can again.
    pub(super) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        self.disk.set_capacity(is_full.then_some(0));
    }

    /// The process has ended.
    pub(super) fn end(&mut self, how: End, random: &mut Random) {
        self.lock = None;
        self.jobs.borrow_mut().clear();
        self.log.tear(random);
        self.disk = match how {
            End::Killed => self.disk.killed(),
            End::PowerFailure => self.disk.crash(&mut |bound| random.below(bound)),
        };
        self.set_full(self.is_full);
    }
}

//! The simulated machine: cores, their mailboxes, what a start finds and what the end of the process leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::breaks::Breaks;
use super::plan::Plan;
use super::random::Random;
use super::server::Core;
use super::storage::{CONTROL_LOG, End, Storage};
use crate::auth::AllowAll;
use crate::clock::Now;
use crate::config::{InternalTopicSettings, Settings};
use crate::control::{Control, NodeEndpoints, Views, log};
use crate::group::Groups;
use crate::group::settings::{GroupSettings, OffsetSettings};
use crate::journal::block::BLOCK_BYTES;
use crate::journal::job::JobDone;
use crate::journal::stream::StreamSettings;
use crate::leadership::pin;
use crate::shard::mailbox::{Mailboxes, Wake};
use crate::shard::{Mail, Owner, Shard, ShardParts};
use crate::wire::Uuid;

/// Core 0 listens here, the others behind it.
pub(super) const FIRST_PORT: u16 = 9_092;

/// The longest session time-out that the simulated server allows.
pub(super) const SESSION_TIMEOUT_MAX_MS: i32 = 12_000;

pub(super) struct Machine {
    pub(super) settings: Arc<Settings>,
    pub(super) storage: Storage,
    /// None while it is down.
    pub(super) cores: Vec<Core>,
    mailboxes: Option<Mailboxes<Mail>>,
    /// Cores that mail has come for, a bit each.
    woken: Arc<AtomicU64>,
    /// Counts the starts.
    pub(super) incarnation: u64,
}

impl Machine {
    pub(super) fn new(plan: &Plan) -> Machine {
        let settings = Settings {
            cores: plan.cores,
            num_partitions: 2,
            offsets_topic: InternalTopicSettings { partitions: plan.offsets_partitions, replication_factor: 1 },
            journal_mode: plan.journal_mode,
            group: GroupSettings {
                min_session_timeout_ms: 1_000,
                max_session_timeout_ms: SESSION_TIMEOUT_MAX_MS,
                initial_rebalance_delay_ms: plan.initial_rebalance_delay_ms,
                max_size: plan.max_size,
                members_per_piece: plan.members_per_piece,
            },
            offsets: OffsetSettings {
                metadata_max_bytes: 200,
                retention_minutes: plan.retention_minutes,
                retention_check_interval_ms: plan.retention_check_interval_ms,
            },
            ..Settings::default()
        };
        let stream = StreamSettings {
            mode: plan.journal_mode,
            segment_bytes: plan.segment_bytes,
            prepare_step_bytes: BLOCK_BYTES as u64,
            snapshot_after_bytes: 2 * plan.segment_bytes,
            room_bytes: 0,
        };
        Machine {
            settings: Arc::new(settings),
            storage: Storage::new(stream, plan.load_step_entries),
            cores: Vec::new(),
            mailboxes: None,
            woken: Arc::default(),
            incarnation: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Starts as `serve` does, from what is on the disk.
    pub(super) fn start(
        &mut self,
        cores: usize,
        now: Now,
        breaks: &mut Breaks,
        random: &mut Random,
    ) -> Result<(), String> {
        let settings = Settings { cores, ..Settings::clone(&self.settings) };
        self.settings = Arc::new(settings);
        self.incarnation += 1;
        let control = self.start_control(random)?;
        let cluster_id: Arc<str> = Uuid(control.cluster_id()).to_string().into();
        let views = control.views();
        let mailboxes: Mailboxes<Mail> = Mailboxes::new((0..cores).map(|core| self.wake(core)).collect());
        self.mailboxes = Some(mailboxes.clone());
        let journals = self.storage.open(&led(&views, cores), self.incarnation > 1, breaks)?;
        let mut owner = Some(Owner { control, file: CONTROL_LOG });
        for (core, (journal, run_job)) in journals.into_iter().enumerate() {
            let (group, offsets) = (self.settings.group.clone(), self.settings.offsets.clone());
            let parts = ShardParts {
                core,
                settings: self.settings.clone(),
                cluster_id: cluster_id.clone(),
                views: views.clone(),
                mailboxes: mailboxes.clone(),
                owner: owner.take(),
                groups: Groups::new(group, offsets, breaks.ids(random.fork()), now),
                journal,
                run_job,
                authorizer: Box::new(AllowAll),
                metrics: Arc::default(),
            };
            self.cores.push(Core::new(Shard::new(parts, now), random.fork()));
        }
        Ok(())
    }

    fn start_control(&mut self, random: &mut Random) -> Result<Control, String> {
        let replay = log::replay(self.storage.log.bytes());
        let replay = replay.map_err(|damage| format!("the control log does not open: {damage}"))?;
        let endpoint = |core: usize| -> NodeEndpoints { vec![("sim".into(), FIRST_PORT + core as u16)] };
        let endpoints = (0..self.settings.cores).map(endpoint).collect();
        let mut ids = random.fork();
        let control = Control::start(&replay, &self.settings, endpoints, Box::new(move || ids.bytes()));
        let (mut control, first_frame) = control.map_err(|mismatch| format!("the control log: {mismatch}"))?;
        self.storage.log.restart(replay.end, &first_frame);
        if let Some(shorter) = control.compacted() {
            self.storage.log.replace(shorter);
        }
        Ok(control)
    }

    fn wake(&self, core: usize) -> Wake {
        let woken = self.woken.clone();
        Arc::new(move || {
            woken.fetch_or(1 << core, Ordering::Relaxed);
        })
    }

    /// Cores that mail has come for since this was asked last.
    pub(super) fn take_woken(&mut self) -> impl Iterator<Item = usize> + use<> {
        let woken = self.woken.swap(0, Ordering::Relaxed);
        (0..u64::BITS as usize).filter(move |core| woken >> core & 1 == 1)
    }

    /// A core's work on files is done.
    pub(super) fn tell_done(&mut self, core: usize, done: JobDone) {
        if let Some(mailboxes) = &self.mailboxes {
            mailboxes.send(core, Mail::JobDone(done));
        }
    }

    /// The process ends in the middle of what it does.
    pub(super) fn end(&mut self, how: End, random: &mut Random) {
        self.cores.clear();
        self.mailboxes = None;
        self.take_woken().for_each(drop);
        self.storage.end(how, random);
    }
}

/// Which partitions of the offsets topic each core leads.
fn led(views: &Views, cores: usize) -> Vec<Vec<i32>> {
    let guard = pin();
    let mut led = vec![Vec::new(); cores];
    if let Some(offsets) = &views.table(&guard).offsets {
        for (partition, leader) in offsets.leaders.iter().enumerate() {
            led[leader.index()].push(partition as i32);
        }
    }
    led
}

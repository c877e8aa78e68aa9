//! The simulated machine: cores, their mailboxes, the control log; what a start finds and what a crash leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::breaks::Breaks;
use super::disk::LogFile;
use super::plan::Plan;
use super::random::Random;
use super::server::Core;
use crate::auth::AllowAll;
use crate::clock::Now;
use crate::config::{InternalTopicSettings, Settings};
use crate::control::{Control, NodeEndpoints, log};
use crate::group::Groups;
use crate::group::settings::{GroupSettings, OffsetSettings};
use crate::journal::store::MemoryStore;
use crate::shard::mailbox::{Mailboxes, Wake};
use crate::shard::{Journal, Mail, Owner, Shard, ShardParts};
use crate::wire::Uuid;

/// Core 0 listens here, the others behind it.
pub(super) const FIRST_PORT: u16 = 9_092;

/// Of the control log.
pub(super) const CONTROL_LOG: i32 = 1;

/// The longest session time-out that the simulated server allows.
pub(super) const SESSION_TIMEOUT_MAX_MS: i32 = 12_000;

pub(super) struct Machine {
    pub(super) settings: Arc<Settings>,
    pub(super) log: LogFile,
    /// None while it is down.
    pub(super) cores: Vec<Core>,
    /// Cores that mail has come for, a bit each.
    woken: Arc<AtomicU64>,
    /// Counts the starts.
    pub(super) incarnation: u64,
}

impl Machine {
    pub(super) fn new(plan: &Plan) -> Machine {
        let internal = InternalTopicSettings { partitions: plan.offsets_partitions, replication_factor: 1 };
        let settings = Settings {
            cores: plan.cores,
            num_partitions: 2,
            offsets_topic: internal,
            group: GroupSettings {
                min_session_timeout_ms: 1_000,
                max_session_timeout_ms: SESSION_TIMEOUT_MAX_MS,
                initial_rebalance_delay_ms: plan.initial_rebalance_delay_ms,
                max_size: plan.max_size,
            },
            offsets: OffsetSettings {
                metadata_max_bytes: 200,
                retention_minutes: plan.retention_minutes,
                retention_check_interval_ms: plan.retention_check_interval_ms,
            },
            ..Settings::default()
        };
        Machine {
            settings: Arc::new(settings),
            log: LogFile::new(),
            cores: Vec::new(),
            woken: Arc::default(),
            incarnation: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Starts as `serve` does, from what is on the disk.
    pub(super) fn start(&mut self, cores: usize, now: Now, breaks: &Breaks, random: &mut Random) {
        let settings = Settings { cores, ..Settings::clone(&self.settings) };
        self.settings = Arc::new(settings);
        self.incarnation += 1;
        let replay = log::replay(self.log.bytes()).unwrap_or_else(|damage| panic!("the control log: {damage}"));
        let endpoint = |core: usize| -> NodeEndpoints { vec![("sim".into(), FIRST_PORT + core as u16)] };
        let endpoints = (0..cores).map(endpoint).collect();
        let mut ids = random.fork();
        let random_ids = Box::new(move || ids.bytes());
        let (mut control, first_frame) = Control::start(&replay, &self.settings, endpoints, random_ids)
            .unwrap_or_else(|mismatch| panic!("the control log: {mismatch}"));
        self.log.restart(replay.end, &first_frame);
        if let Some(shorter) = control.compacted() {
            self.log.replace(shorter);
        }
        let cluster_id: Arc<str> = Uuid(control.cluster_id()).to_string().into();
        let views = control.views();
        let mailboxes: Mailboxes<Mail> = Mailboxes::new((0..cores).map(|core| self.wake(core)).collect());
        let mut owner = Some(Owner { control, file: CONTROL_LOG });
        self.cores = (0..cores)
            .map(|core| {
                let (group, offsets) = (self.settings.group.clone(), self.settings.offsets.clone());
                let parts = ShardParts {
                    core,
                    settings: self.settings.clone(),
                    cluster_id: cluster_id.clone(),
                    views: views.clone(),
                    mailboxes: mailboxes.clone(),
                    owner: owner.take(),
                    groups: Groups::new(group, offsets, breaks.ids(random.fork()), now),
                    journal: Journal::Open(Box::new(MemoryStore::default())),
                    run_job: Box::new(|_| unreachable!("memory has no files")),
                    authorizer: Box::new(AllowAll),
                    metrics: Arc::default(),
                };
                Core::new(Shard::new(parts, now))
            })
            .collect();
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

    /// The process ends in the middle of what it does.
    pub(super) fn crash(&mut self, random: &mut Random) {
        self.cores.clear();
        self.take_woken().for_each(drop);
        self.log.tear(random);
    }
}

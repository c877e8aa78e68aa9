//! What one core owns: its groups, its part of the journal, its view of the cluster; and, on core 0, the control state of
//! all. A [`Service`] without sockets: `net` drives it, and so may a test or a simulation.

mod answer_budget;
pub mod context;
mod control_port;
mod dispatch;
mod fetches;
mod journal;
mod loading;
pub mod mailbox;
mod persist;
pub mod service;
mod snapshots;
mod topic_deletions;

use std::sync::Arc;

use self::answer_budget::AnswerBudget;
use self::context::RequestContext;
use self::control_port::ControlPort;
pub use self::control_port::{Mail, Owner};
use self::dispatch::JudgedCommit;
use self::fetches::WaitingFetches;
pub use self::journal::{Journal, RunJob};
pub use self::loading::ENTRIES_PER_STEP;
use self::mailbox::Mailboxes;
use self::persist::Persistence;
use self::service::{ConnectionId, JournalPosition, Network, Service, Session, Verdict, WriteFailure};
use self::snapshots::Snapshots;
use self::topic_deletions::TopicDeletions;
use crate::auth::{Authorizer, Operation, Resource};
use crate::clock::Now;
use crate::config::Settings;
use crate::control::Views;
use crate::errors::ErrorCode;
use crate::group::{Groups, Output};
use crate::ids::NodeIndex;
use crate::journal::store::{Store, StoreState};
use crate::leadership::{Guard, Table, pin};
use crate::metrics::CoreMetrics;
use crate::topics::Catalogue;
use crate::wire::api_versions::ApiVersion;

/// What a shard is made of.
pub struct ShardParts {
    /// Which core.
    pub core: usize,
    /// What the owner of the server has set.
    pub settings: Arc<Settings>,
    /// The cluster id in its text form.
    pub cluster_id: Arc<str>,
    /// What control publishes.
    pub views: Arc<Views>,
    /// The mailboxes of all cores.
    pub mailboxes: Mailboxes<Mail>,
    /// The owner of control; core 0 has it.
    pub owner: Option<Owner>,
    /// This core's groups.
    pub groups: Groups,
    /// Where their records go, and come from.
    pub journal: Journal,
    /// Does the journal's work on files.
    pub run_job: RunJob,
    /// Who may do what.
    pub authorizer: Box<dyn Authorizer>,
    /// Where this core counts.
    pub metrics: Arc<CoreMetrics>,
}

/// One core's share of the server.
pub struct Shard {
    core: usize,
    settings: Arc<Settings>,
    cluster_id: Arc<str>,
    views: Arc<Views>,
    /// Pinned while a batch of requests is handled, so that a look-up is a load.
    guard: Option<Guard>,
    authorizer: Box<dyn Authorizer>,
    metrics: Arc<CoreMetrics>,
    mailboxes: Mailboxes<Mail>,
    control: ControlPort,
    groups: Groups,
    fetches: WaitingFetches,
    journal: Journal,
    run_job: RunJob,
    /// What the journal has made durable, as far as it was passed on.
    released: JournalPosition,
    /// Everything up to here that is not durable has failed and was undone.
    undone: JournalPosition,
    /// What the journal had taken when it was last asked for a write.
    polled: JournalPosition,
    writes_next_turn: bool,
    /// Something has come for this turn that somebody waits for.
    is_waited_for: bool,
    group_answers: AnswerBudget,
    fetch_answers: AnswerBudget,
    persistence: Persistence,
    snapshots: Snapshots,
    topic_deletions: TopicDeletions,
    /// For the codes of a request's parts, reused.
    codes: Vec<ErrorCode>,
    judged_commits: Vec<JudgedCommit>,
    api_versions: Vec<ApiVersion>,
    now: Now,
}

impl Shard {
    /// A shard that has served nothing yet.
    pub fn new(parts: ShardParts, now: Now) -> Shard {
        let ShardParts { core, settings, cluster_id, views, mailboxes, owner, .. } = parts;
        let ShardParts { groups, journal, run_job, authorizer, metrics, .. } = parts;
        Shard {
            core,
            settings,
            cluster_id,
            control: ControlPort::new(core, views.clone(), mailboxes.clone(), owner),
            views,
            guard: None,
            authorizer,
            metrics,
            mailboxes,
            groups,
            fetches: WaitingFetches::default(),
            journal,
            run_job,
            released: JournalPosition::default(),
            undone: JournalPosition::default(),
            polled: JournalPosition::default(),
            writes_next_turn: false,
            is_waited_for: false,
            group_answers: AnswerBudget::default(),
            fetch_answers: AnswerBudget::default(),
            persistence: Persistence::default(),
            snapshots: Snapshots::default(),
            topic_deletions: TopicDeletions::default(),
            codes: Vec::new(),
            judged_commits: Vec::new(),
            api_versions: dispatch::served_apis(),
            now,
        }
    }

    /// Whether the sender of a request may do this; asked before anything else.
    fn allows(&self, context: &RequestContext<'_>, operation: Operation, resource: Resource<'_>) -> bool {
        self.authorizer.allows(context.subject(), operation, resource)
    }

    fn node(&self) -> NodeIndex {
        NodeIndex(self.core as u16)
    }

    fn node_id(&self) -> i32 {
        self.settings.node_id + self.core as i32
    }

    /// Once for each batch of requests: what is loaded from here on stays until the turn ends.
    fn pin(&mut self) {
        self.guard.get_or_insert_with(pin);
    }

    fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("pinned while requests are handled")
    }

    fn table(&self) -> &Table {
        self.views.table(self.guard())
    }

    fn catalogue(&self) -> &Catalogue {
        self.views.catalogue(self.guard())
    }

    fn groups_and_catalogue(&mut self) -> (&mut Groups, &Catalogue, &dyn Authorizer) {
        let guard = self.guard.as_ref().expect("pinned while requests are handled");
        (&mut self.groups, self.views.catalogue(guard), &*self.authorizer)
    }

    /// The offsets partition of a group, if this core coordinates it and has loaded it.
    fn group_partition(&self, group_id: &str) -> Result<i32, ErrorCode> {
        let led = self.table().offsets_partition_led_by(self.node(), group_id).ok_or(ErrorCode::NOT_COORDINATOR)?;
        self.check_loaded(led).map(|()| led)
    }

    /// Reads a letter, and as many as the turn has time for.
    fn read_mail(&mut self, network: &dyn Network) {
        while let Some(mail) = self.mailboxes.receive(self.core) {
            match mail {
                Mail::Asked(request, tag) => self.control.asked(request, tag),
                Mail::Told(token, reply) => self.control.told(token, reply),
                Mail::TopicDeleted { name, id } => self.topic_deletions.told(name, id),
                Mail::JobDone(done) => {
                    let now = self.now;
                    self.journal.store_mut().expect("jobs come from an open journal").job_done(done, now);
                }
            }
            if !network.has_time() {
                return;
            }
        }
    }

    fn answer_parked(&mut self, network: &mut dyn Network) {
        while self.groups.has_output() && self.group_answers.take_one(network) {
            let Some(output) = self.groups.poll_output() else { return };
            let ticket = match output {
                Output::Join(ticket, _) | Output::Sync(ticket, _) => ticket,
            };
            network.answer(ConnectionId(ticket.connection), &mut |replies| match &output {
                Output::Join(ticket, answer) => dispatch::write_joined(&self.metrics, *ticket, answer, replies),
                Output::Sync(ticket, answer) => dispatch::write_synced(&self.metrics, *ticket, answer, replies),
            });
        }
    }

    fn answer_fetches(&mut self, network: &mut dyn Network) {
        let now_ms = self.now.monotonic_ms;
        while self.fetches.next_deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms)
            && self.fetch_answers.take_one(network)
        {
            let Some((connection, fetch)) = self.fetches.due(now_ms) else { return };
            network.answer(connection, &mut |replies| dispatch::write_fetched(self, &fetch, replies));
        }
    }

    fn publish_metrics(&self) {
        let census = self.groups.census();
        self.metrics.groups.set(census.groups as u64);
        self.metrics.group_members.set(census.members as u64);
        self.metrics.group_pending_members.set(census.pending_members as u64);
        self.metrics.committed_offsets.set(census.offsets as u64);
        self.metrics.leadership_epoch.set(self.table().epoch);
        self.publish_journal_metrics();
    }
}

impl Service for Shard {
    fn begin(&mut self, now: Now) {
        self.now = now;
        self.group_answers.begin();
        self.fetch_answers.begin();
    }

    fn request(
        &mut self,
        connection: ConnectionId,
        session: &mut Session,
        frame: &[u8],
        replies: &mut Vec<u8>,
    ) -> Verdict {
        self.is_waited_for = true;
        dispatch::request(self, connection, session, frame, replies)
    }

    /// In Kafka too a member outlives its connection, and an answer without a connection is dropped.
    fn closed(&mut self, connection: ConnectionId) {
        self.fetches.forget(connection);
    }

    fn written(&mut self, token: u64, result: Result<(), WriteFailure>) {
        self.is_waited_for = true;
        if let Err(result) = self.journal_written(token, result) {
            self.control.written(token, result);
        }
    }

    fn turn(&mut self, now: Now, network: &mut dyn Network) -> std::io::Result<()> {
        self.now = now;
        self.pin();
        self.read_mail(network);
        self.control.turn(network, &self.metrics);
        if self.journal.store().is_some() {
            self.groups.advance(now);
            let _undone = self.persist();
            self.groups.do_a_piece(now);
            let _undone = self.persist();
            self.turn_topic_deletions();
            self.turn_journal(network);
        }
        self.answer_parked(network);
        self.answer_fetches(network);
        // After all that somebody waits for.
        self.load(network)?;
        self.publish_metrics();
        // Not across a sleep: what is replaced meanwhile could not be freed.
        self.guard = None;
        Ok(())
    }

    fn deadline_ms(&self) -> Option<u64> {
        let has_more = self.groups.has_output() || self.mailboxes.has_mail(self.core);
        if has_more || self.is_loading() || self.has_snapshot_to_take() || self.writes_next_turn {
            return Some(self.now.monotonic_ms);
        }
        let journal = self.journal.store().and_then(|store| store.deadline_ms());
        let deletions = self.topic_deletions_deadline_ms();
        let others = [self.groups.next_deadline_ms(), self.fetches.next_deadline_ms()];
        others.into_iter().chain([journal, deletions]).flatten().min()
    }

    fn has_to_write(&self) -> bool {
        let unwritten = |store: &dyn Store| store.state() == StoreState::Open && store.unwritten_bytes() > 0;
        self.journal.store().is_some_and(unwritten) || self.topic_deletions_deadline_ms().is_some()
    }

    fn held_bytes(&self) -> usize {
        self.groups.bytes()
    }
}

#[cfg(test)]
mod tests;

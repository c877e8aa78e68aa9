//! What one core owns: its groups, its part of the journal, its view of the cluster; and, on core 0, the control state of
//! all. A [`Service`] without sockets: `net` drives it, and so may a test or a simulation.

pub mod context;
mod control_port;
mod dispatch;
mod fetches;
pub mod mailbox;
mod persist;
pub mod service;

use std::sync::Arc;

use self::context::RequestContext;
use self::control_port::ControlPort;
pub use self::control_port::{Mail, Owner};
use self::fetches::WaitingFetches;
use self::mailbox::Mailboxes;
use self::persist::Persistence;
use self::service::{ConnectionId, Network, Service, Session, Verdict};
use crate::auth::{Authorizer, Operation, Resource};
use crate::clock::Now;
use crate::config::Settings;
use crate::control::Views;
use crate::errors::ErrorCode;
use crate::group::{Groups, Output};
use crate::ids::NodeIndex;
use crate::journal::store::Store;
use crate::leadership::{Guard, Table, pin};
use crate::metrics::CoreMetrics;
use crate::topics::Catalogue;
use crate::wire::api_versions::ApiVersion;

/// Answers of parked requests that one turn of the core gives; the rest come in the next turns, so that a group of ten
/// thousand does not hold up the others' heartbeats.
const ANSWERS_PER_TURN: usize = 512;

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
    /// Where their records go.
    pub store: Box<dyn Store>,
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
    persistence: Persistence,
    /// For the codes of a request's parts, reused.
    codes: Vec<ErrorCode>,
    api_versions: Vec<ApiVersion>,
    now: Now,
}

impl Shard {
    /// A shard that has served nothing yet.
    pub fn new(parts: ShardParts, now: Now) -> Shard {
        let ShardParts { core, settings, cluster_id, views, mailboxes, owner, groups, store, authorizer, metrics } =
            parts;
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
            persistence: Persistence::new(store),
            codes: Vec::new(),
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

    fn groups_and_catalogue(&mut self) -> (&mut Groups, &Catalogue) {
        let guard = self.guard.as_ref().expect("pinned while requests are handled");
        (&mut self.groups, self.views.catalogue(guard))
    }

    /// The offsets partition of a group, if this core coordinates it.
    fn group_partition(&self, group_id: &str) -> Result<i32, ErrorCode> {
        self.table().offsets_partition_led_by(self.node(), group_id).ok_or(ErrorCode::NOT_COORDINATOR)
    }

    fn read_mail(&mut self) {
        while let Some(mail) = self.mailboxes.receive(self.core) {
            match mail {
                Mail::Asked(request, tag) => self.control.asked(request, tag),
                Mail::Told(token, reply) => self.control.told(token, reply),
                Mail::TopicDeleted(name) => {
                    self.groups.topic_deleted(&name);
                    let _undone = self.persist();
                }
            }
        }
    }

    fn answer_parked(&mut self, network: &mut dyn Network) {
        for _ in 0..ANSWERS_PER_TURN {
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
        for _ in 0..ANSWERS_PER_TURN {
            let Some((connection, fetch)) = self.fetches.due(self.now.monotonic_ms) else { return };
            network.answer(connection, &mut |replies| dispatch::write_fetched(self, &fetch, replies));
        }
    }

    fn publish_metrics(&self) {
        let census = self.groups.census();
        self.metrics.groups.set(census.groups as u64);
        self.metrics.group_members.set(census.members as u64);
        self.metrics.committed_offsets.set(census.offsets as u64);
        self.metrics.leadership_epoch.set(self.table().epoch);
    }
}

impl Service for Shard {
    fn begin(&mut self, now: Now) {
        self.now = now;
    }

    fn request(
        &mut self,
        connection: ConnectionId,
        session: &mut Session,
        frame: &[u8],
        replies: &mut Vec<u8>,
    ) -> Verdict {
        dispatch::request(self, connection, session, frame, replies)
    }

    /// In Kafka too a member outlives its connection, and an answer without a connection is dropped.
    fn closed(&mut self, connection: ConnectionId) {
        self.fetches.forget(connection);
    }

    fn synced(&mut self, token: u64, result: std::io::Result<()>) {
        self.control.synced(token, result);
    }

    fn turn(&mut self, now: Now, network: &mut dyn Network) {
        self.now = now;
        self.pin();
        self.read_mail();
        self.control.turn(network, &self.metrics);
        self.groups.advance(now);
        let _undone = self.persist();
        self.answer_parked(network);
        self.answer_fetches(network);
        self.publish_metrics();
        // Not across a sleep: what is replaced meanwhile could not be freed.
        self.guard = None;
    }

    fn deadline_ms(&self) -> Option<u64> {
        let groups =
            if self.groups.has_output() { Some(self.now.monotonic_ms) } else { self.groups.next_deadline_ms() };
        [groups, self.fetches.next_deadline_ms()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;

//! Puts a server together: the data directory, control, a shard and a ring for each core, and the signals that end it.

mod journals;
pub mod progress;

use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use self::journals::{CoreJournal, Journals};
use crate::auth::AllowAll;
use crate::config::ports::PortTable;
use crate::config::{Listener, Settings, host_and_port};
use crate::control::file::{self, OpenError};
use crate::control::{NodeEndpoints, Views};
use crate::group::{Groups, Ids};
use crate::journal::failure::OpenError as JournalError;
use crate::journal::reading::Reading;
use crate::journal::store::Durability;
use crate::metrics::Page;
use crate::metrics::endpoint::Endpoint;
use crate::net::server::CoreFailure;
use crate::net::{self, CoreContext, CorePlan, NetworkLimits, ServerSettings, StartError, Stop, address};
use crate::preflight::allowed_cpus;
use crate::ring::{RingSettings, Waker};
use crate::shard::mailbox::{Mailboxes, Wake};
use crate::shard::{Mail, Owner, Shard, ShardParts};
use crate::wire::Uuid;

/// Why a server did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory.
    #[error(transparent)]
    DataDirectory(#[from] OpenError),
    /// The journal.
    #[error("journal: {0}")]
    Journal(#[from] JournalError),
    /// Not the control log that was there when groups were.
    #[error(
        "{}: the control log has no offsets topic, but the journal has records of groups: they do not belong together; restore \
         both from one backup, or move the whole directory away to begin a new cluster (what groups have committed is lost then)",
        .data_dir.display()
    )]
    NoOffsetsTopic {
        /// Where both are.
        data_dir: PathBuf,
    },
    /// A listener's host is no address of this machine.
    #[error("listener {listener}: {host} cannot be resolved: {error}; give it an address of this machine")]
    Resolve {
        /// Its name.
        listener: String,
        /// What was to be bound.
        host: String,
        /// What the system said.
        error: io::Error,
    },
    /// The address of the metrics is in use or no address of this machine.
    #[error("metrics cannot be served on {address}: {error}; use another address in --metrics")]
    Metrics {
        /// What was to be bound.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// The machine, the ports or the threads.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Wakers or signals could not be set up.
    #[error("the start failed: {0}")]
    System(#[from] io::Error),
    /// A core.
    #[error(transparent)]
    Core(#[from] CoreFailure),
}

/// What the cores' shards are made from.
struct Foundation {
    settings: Arc<Settings>,
    cluster_id: Arc<str>,
    views: Arc<Views>,
    mailboxes: Mailboxes<Mail>,
}

type MakeShard = Box<dyn FnOnce(CoreContext) -> Ready<io::Result<Shard>> + Send>;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever keeps the server from starting, and the failure of a core.
pub fn run(settings: Settings, ports: &PortTable) -> Result<(), ServeError> {
    let settings = Arc::new(settings);
    let endpoints = (0..settings.cores).map(|core| endpoints(&settings, ports, core)).collect();
    let (control, control_file) = file::open(&settings, endpoints, Box::new(random_ids()))?;
    let cluster_id: Arc<str> = Uuid(control.cluster_id()).to_string().into();
    let wakers = (0..settings.cores).map(|_| Waker::new()).collect::<io::Result<Vec<_>>>()?;
    let foundation = Arc::new(Foundation {
        settings: settings.clone(),
        cluster_id: cluster_id.clone(),
        views: control.views(),
        mailboxes: Mailboxes::new(wakers.iter().cloned().map(wake).collect()),
    });
    let journals = Journals::open(&settings)?;
    let _lock = journals.lock();
    let owner = Owner { control, file: control_file.raw_fd() };
    let mut readings = Vec::new();
    let plans = plans(&foundation, ports, wakers, owner, &journals, &mut readings)?;
    let endpoint = settings.metrics.as_ref().map(|(host, port)| metrics_endpoint(host, *port)).transpose()?;
    let server = net::start(server_settings(&settings)?, plans)?;
    progress::follow(readings)?;
    // It ends with this function, after the cores.
    let _metrics = endpoint.map(|endpoint| endpoint.serve(Page::new(server.metrics()), net::now)).transpose()?;
    stop_on_signals(server.stop_signal())?;
    match settings.journal_mode {
        Durability::Fsync => tracing::info!("journal: fsync (what is acknowledged survives a power failure)"),
        Durability::Os => {
            tracing::warn!("journal: os (what is acknowledged survives a crash of the server, not of the machine)")
        }
        Durability::None => tracing::warn!("journal: none (what is acknowledged survives an orderly stop only)"),
        Durability::Memory => tracing::warn!("journal: memory (a restart forgets members and committed offsets)"),
    }
    tracing::info!(%cluster_id, cores = settings.cores, "ready: {}", bootstrap(&settings.listeners));
    server.join()?;
    tracing::info!("stopped");
    Ok(())
}

fn plans(
    foundation: &Arc<Foundation>,
    ports: &PortTable,
    wakers: Vec<Waker>,
    owner: Owner,
    journals: &Journals,
    readings: &mut Vec<Arc<Reading>>,
) -> Result<Vec<CorePlan<MakeShard>>, ServeError> {
    let settings = &foundation.settings;
    let mut owner = Some(owner);
    let cpus = net::place(settings.cores, &allowed_cpus());
    let mut plans = Vec::with_capacity(settings.cores);
    for (core, (waker, cpu)) in wakers.into_iter().zip(cpus).enumerate() {
        let own_port = |(index, listener)| Some(resolve(listener, ports.own_port(index, core)?));
        let own = settings.listeners.iter().enumerate().filter_map(own_port).collect::<Result<_, _>>()?;
        let journal = journals.of_core(core, foundation)?;
        readings.extend(journal.reading());
        let (foundation, owner) = (foundation.clone(), owner.take());
        let service = Box::new(move |context: CoreContext| ready(Ok(shard(&foundation, &context, owner, journal))));
        plans.push(CorePlan { cpu, own, waker, service: service as MakeShard });
    }
    Ok(plans)
}

fn shard(foundation: &Foundation, context: &CoreContext, owner: Option<Owner>, journal: CoreJournal) -> Shard {
    let settings = &foundation.settings;
    let (journal, run_job) = journal.into_parts(context.core, foundation);
    let now = net::now();
    let parts = ShardParts {
        core: context.core,
        settings: settings.clone(),
        cluster_id: foundation.cluster_id.clone(),
        views: foundation.views.clone(),
        mailboxes: foundation.mailboxes.clone(),
        owner,
        groups: Groups::new(settings.group.clone(), settings.offsets.clone(), Box::new(RandomIds::new()), now),
        journal,
        run_job,
        authorizer: Box::new(AllowAll),
        metrics: context.metrics.clone(),
    };
    Shard::new(parts, now)
}

fn endpoints(settings: &Settings, ports: &PortTable, core: usize) -> NodeEndpoints {
    let listeners = settings.listeners.iter().enumerate();
    listeners.map(|(index, listener)| (listener.advertised_host.clone(), ports.advertised_port(index, core))).collect()
}

fn server_settings(settings: &Settings) -> Result<ServerSettings, ServeError> {
    let bootstrap = settings.listeners.iter().map(|listener| resolve(listener, listener.bind_port));
    Ok(ServerSettings {
        bootstrap: bootstrap.collect::<Result<Vec<_>, _>>()?,
        limits: NetworkLimits {
            request_max_bytes: settings.request_max_bytes,
            queued_requests_max_bytes: settings.queued_requests_max_bytes,
            max_connections: settings.max_connections,
            max_connections_per_ip: settings.max_connections_per_ip,
            connections_max_idle_ms: u64::try_from(settings.connections_max_idle_ms).ok(),
            ..NetworkLimits::default()
        },
        ring: RingSettings::default(),
        patience: Duration::from_secs(3),
    })
}

fn metrics_endpoint(host: &str, port: u16) -> Result<Endpoint, ServeError> {
    let named = host_and_port(host, port);
    let bound = address::resolve(host, port).and_then(Endpoint::bind);
    let endpoint = bound.map_err(|error| ServeError::Metrics { address: named.clone(), error })?;
    tracing::info!("metrics: http://{named}/metrics");
    Ok(endpoint)
}

fn resolve(listener: &Listener, port: u16) -> Result<SocketAddr, ServeError> {
    let failed =
        |error| ServeError::Resolve { listener: listener.name.clone(), host: listener.bind_host.clone(), error };
    address::resolve(&listener.bind_host, port).map_err(failed)
}

fn bootstrap(listeners: &[Listener]) -> String {
    let each = listeners.iter().map(|listener| {
        format!("{}://{}", listener.name, host_and_port(&listener.advertised_host, listener.advertised_port))
    });
    each.collect::<Vec<_>>().join(",")
}

fn wake(waker: Waker) -> Wake {
    Arc::new(move || waker.wake())
}

/// SIGTERM and SIGINT stop the server; a second one ends the process at once.
fn stop_on_signals(stop: Stop) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    let listen = move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            tracing::info!("stopping");
            stop.stop();
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

struct RandomIds(StdRng);

impl RandomIds {
    fn new() -> Self {
        RandomIds(StdRng::from_os_rng())
    }
}

impl Ids for RandomIds {
    fn next(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        self.0.fill_bytes(&mut id);
        id
    }
}

fn random_ids() -> impl FnMut() -> [u8; 16] + Send {
    let mut ids = RandomIds::new();
    move || ids.next()
}

//! Starts the cores and waits for their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use glommio::{LocalExecutorBuilder, Placement};
use tracing::warn;

use super::core::{Core, NetworkLimits};
use super::driver;
use super::listener::{ListenError, ListeningSocket, bind_bootstrap, bind_own};
use super::quota::Quota;
use super::stop::Stop;
use super::trim::{Tide, Trimmer};
use crate::limits;
use crate::metrics::{CoreMetrics, Snapshot};
use crate::preflight::{self, Report};
use crate::ring::{Ring, RingSettings, Waker};
use crate::shard::service::{ListenerIndex, Service};

/// Memory that glommio registers per core for files, in bytes; it counts against RLIMIT_MEMLOCK, and 64 KiB is its least.
const GLOMMIO_MEMORY_BYTES: usize = 64 << 10;

/// What all cores have in common.
#[derive(Clone, Debug, Default)]
pub struct ServerSettings {
    /// The bootstrap address of each listener, in the order of the configuration. All cores accept on it. Port 0 takes
    /// any free one; [`Server::bootstrap_addresses`] tells which.
    pub bootstrap: Vec<SocketAddr>,
    /// What peers may use.
    pub limits: NetworkLimits,
    /// How large each core's ring is.
    pub ring: RingSettings,
    /// How long a start waits for ports and memory that are in use. The kernel takes a killed server's rings apart, and with them its
    /// listening sockets, only after the process has gone.
    pub patience: Duration,
}

/// One core to be started.
pub struct CorePlan<F> {
    /// The CPU to run on, one of the allowed; `None`: not pinned.
    pub cpu: Option<usize>,
    /// The core's own address of each listener, in the same order; empty where the bootstrap port is enough.
    pub own: Vec<SocketAddr>,
    /// Wakes the core.
    pub waker: Waker,
    /// Makes the core's service on the core's thread, within its glommio executor.
    pub service: F,
}

/// What a core's service is made from.
#[derive(Clone, Debug)]
pub struct CoreContext {
    /// The index of the core.
    pub core: usize,
    /// Stops the whole server.
    pub stop: Stop,
    /// Where the core counts.
    pub metrics: Arc<CoreMetrics>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This machine or process cannot run one.
    #[error("{}", .0.failures())]
    Preflight(Report),
    /// A port is taken or not ours.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The thread that gives memory back could not be made.
    #[error("a thread could not be started: {0}")]
    Trimmer(io::Error),
    /// A core's thread could not be made.
    #[error("core {core} could not be started: {error}")]
    Core {
        /// The index of the core.
        core: usize,
        /// What the system said.
        error: io::Error,
    },
}

/// Why a core ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum CoreFailure {
    /// Its ring, its executor or its service's making failed.
    #[error("core {0} failed: {1}")]
    Failed(usize, io::Error),
    /// It panicked; the message is on stderr.
    #[error("core {0} panicked")]
    Panicked(usize),
}

/// A running server. Dropping it stops nothing; see [`Server::stop_signal`] and [`Server::join`].
#[derive(Debug)]
pub struct Server {
    threads: Vec<JoinHandle<io::Result<()>>>,
    counters: Vec<Arc<CoreMetrics>>,
    bootstrap: Vec<SocketAddr>,
    own: Vec<Vec<SocketAddr>>,
    stop: Stop,
}

/// Checks the machine, binds all addresses, and starts a thread per plan. Returns when all ports accept connections.
pub fn start<S, F, M>(settings: ServerSettings, plans: Vec<CorePlan<F>>) -> Result<Server, StartError>
where
    S: Service + 'static,
    F: FnOnce(CoreContext) -> M + Send + 'static,
    M: Future<Output = io::Result<S>> + 'static,
{
    let report = preflight::examine_machine(plans.len(), settings.limits.max_connections);
    if !report.can_serve() {
        return Err(StartError::Preflight(report));
    }
    let (listeners, bootstrap, own) = bind_patiently(&settings, &plans)?;
    let stop = Stop::new(plans.iter().map(|plan| plan.waker.clone()).collect());
    let limits = limits_of_a_core(settings.limits, plans.len());
    let trimmer = Trimmer::start().map_err(StartError::Trimmer)?;
    let quota = Arc::new(Quota::new(limits.max_connections, limits.max_connections_per_ip));
    let cores_cpus: Vec<usize> = plans.iter().filter_map(|plan| plan.cpu).collect();
    let spare_cpus: Arc<[usize]> = spare(&cores_cpus, &preflight::allowed_cpus()).into();
    let mut server = Server { threads: Vec::new(), counters: Vec::new(), bootstrap, own, stop: stop.clone() };
    for (core, (plan, listeners)) in plans.into_iter().zip(listeners).enumerate() {
        let counters = Arc::<CoreMetrics>::default();
        server.counters.push(counters.clone());
        let context = CoreContext { core, stop: stop.clone(), metrics: counters.clone() };
        let (ring, limits, quota, waker) = (settings.ring, limits.clone(), quota.clone(), plan.waker);
        let (make, patience, tide) = (plan.service, settings.patience, Tide::new(trimmer.clone()));
        let spare_cpus = spare_cpus.clone();
        let body = async move || {
            let service = make(context.clone()).await?;
            let ring = patiently(patience, || Ring::new(ring, waker.clone()))?;
            ring.let_workers_run_on(&spare_cpus)?;
            let core = Core::new(ring, listeners, limits, quota, counters, tide);
            driver::run(service, core, context.stop).map(drop)
        };
        match spawn(core, plan.cpu, patience, stop.clone(), body) {
            Ok(thread) => server.threads.push(thread),
            Err(error) => {
                stop.stop();
                let _ = server.join();
                return Err(StartError::Core { core, error });
            }
        }
    }
    Ok(server)
}

/// Each core has its share of what all connections may have sent and not seen executed.
fn limits_of_a_core(limits: NetworkLimits, cores: usize) -> NetworkLimits {
    let (most, largest) = (limits.queued_requests_max_bytes, limits.request_max_bytes);
    // Two of the largest must fit, or they could never come in.
    let share = (most / cores.max(1)).max(largest.saturating_mul(2));
    let all = share.saturating_mul(cores);
    if all > most && most != limits::QUEUED_REQUESTS_MAX_BYTES {
        warn!(
            "queued.max.request.bytes is {most}, but {all} may be taken: each of {cores} cores has room for two requests of \
             socket.request.max.bytes ({largest})"
        );
    }
    NetworkLimits { queued_requests_max_bytes: share, ..limits }
}

/// The CPU of each core: the i-th allowed one, lowest first; from the first one again when there are more cores.
pub fn place(cores: usize, allowed_cpus: &[usize]) -> Vec<Option<usize>> {
    let mut cpus = allowed_cpus.iter().copied().cycle();
    (0..cores).map(|_| cpus.next()).collect()
}

/// The allowed CPUs that no core has.
fn spare(cores_cpus: &[usize], allowed_cpus: &[usize]) -> Vec<usize> {
    allowed_cpus.iter().copied().filter(|cpu| !cores_cpus.contains(cpu)).collect()
}

impl Server {
    /// Stops the server, from any thread.
    pub fn stop_signal(&self) -> Stop {
        self.stop.clone()
    }

    /// Where the listeners listen, by listener.
    pub fn bootstrap_addresses(&self) -> &[SocketAddr] {
        &self.bootstrap
    }

    /// Where a core listens for itself, by listener; empty where it has no port of its own.
    pub fn own_addresses(&self, core: usize) -> &[SocketAddr] {
        &self.own[core]
    }

    /// What a core has counted so far.
    pub fn counters(&self, core: usize) -> Snapshot {
        self.counters[core].snapshot()
    }

    /// Where the cores count, by core, for someone who outlives this value.
    pub fn metrics(&self) -> Vec<Arc<CoreMetrics>> {
        self.counters.clone()
    }

    /// Waits until all cores have ended. A core that fails or panics stops the others.
    pub fn join(self) -> Result<(), CoreFailure> {
        let mut failure = None;
        for (core, thread) in self.threads.into_iter().enumerate() {
            let ended = match thread.join() {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => CoreFailure::Failed(core, error),
                Err(_) => CoreFailure::Panicked(core),
            };
            failure.get_or_insert(ended);
        }
        failure.map_or(Ok(()), Err)
    }
}

type CoreListeners = Vec<(ListenerIndex, ListeningSocket)>;
type Bound = (Vec<CoreListeners>, Vec<SocketAddr>, Vec<Vec<SocketAddr>>);

fn bind_patiently<F>(settings: &ServerSettings, plans: &[CorePlan<F>]) -> Result<Bound, ListenError> {
    let mut left = settings.patience;
    loop {
        match bind_all(settings, plans) {
            Err(ListenError::InUse(_)) if left > Duration::ZERO => {
                thread::sleep(PATIENCE_STEP);
                left = left.saturating_sub(PATIENCE_STEP);
            }
            other => return other,
        }
    }
}

fn bind_all<F>(settings: &ServerSettings, plans: &[CorePlan<F>]) -> Result<Bound, ListenError> {
    let mut listeners: Vec<CoreListeners> = plans.iter().map(|_| Vec::new()).collect();
    let (mut bootstrap, mut own) = (Vec::new(), vec![Vec::new(); plans.len()]);
    for (index, address) in settings.bootstrap.iter().enumerate() {
        let sockets = bind_bootstrap(*address, plans.len())?;
        bootstrap.extend(sockets.first().map(|socket| socket.address));
        for (core, socket) in sockets.into_iter().enumerate() {
            listeners[core].push((ListenerIndex(index as u8), socket));
        }
    }
    for (core, plan) in plans.iter().enumerate() {
        for (index, address) in plan.own.iter().enumerate() {
            let socket = bind_own(*address)?;
            own[core].push(socket.address);
            listeners[core].push((ListenerIndex(index as u8), socket));
        }
    }
    Ok((listeners, bootstrap, own))
}

/// A thread with a glommio executor that runs `body`. Whatever ends it, ends the other cores too.
fn spawn<B>(
    core: usize,
    cpu: Option<usize>,
    patience: Duration,
    stop: Stop,
    body: B,
) -> io::Result<JoinHandle<io::Result<()>>>
where
    B: AsyncFnOnce() -> io::Result<()> + Send + 'static,
{
    thread::Builder::new().name(format!("core-{core}")).spawn(move || {
        let _stop_others = StopOnDrop(stop);
        let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
        let make = || {
            let builder = LocalExecutorBuilder::new(placement.clone()).io_memory(GLOMMIO_MEMORY_BYTES);
            builder.make().map_err(io::Error::from)
        };
        patiently(patience, make)?.run(body())
    })
}

/// Makes a ring as soon as there is memory for it: a killed server's rings count as locked memory of their user until the
/// kernel has taken them apart, a moment after the process has gone.
fn patiently<T>(patience: Duration, mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut left = patience;
    loop {
        match make() {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory && left > Duration::ZERO => {
                thread::sleep(PATIENCE_STEP);
                left = left.saturating_sub(PATIENCE_STEP);
            }
            other => return other,
        }
    }
}

/// Between two tries of a start that waits for what a killed server still has.
const PATIENCE_STEP: Duration = Duration::from_millis(20);

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_its_share_of_what_waits_and_room_for_two_of_the_largest() {
        let share = |cores, queued_requests_max_bytes| {
            let limits =
                NetworkLimits { request_max_bytes: 100, queued_requests_max_bytes, ..NetworkLimits::default() };
            limits_of_a_core(limits, cores).queued_requests_max_bytes
        };
        assert_eq!([share(1, 1_000), share(5, 1_000)], [1_000, 200], "a total");
        assert_eq!([share(6, 1_000), share(1, 0)], [200, 200], "none");
    }

    #[test]
    fn cores_take_the_allowed_cpus_in_order_and_share_when_they_must() {
        assert_eq!(place(2, &[3, 5, 7]), [Some(3), Some(5)]);
        assert_eq!(place(3, &[3, 5]), [Some(3), Some(5), Some(3)]);
        assert_eq!(place(1, &[]), [None]);
        assert_eq!(spare(&[3, 5], &[3, 5, 7, 9]), [7, 9]);
        assert!(spare(&[3, 5, 3], &[3, 5]).is_empty());
    }
}

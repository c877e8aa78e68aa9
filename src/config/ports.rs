//! Which port each core has on each listener.
//!
//! With one core there is only the listener's own port. With more, all cores accept on it (it is where clients begin), and
//! core `i` also has the port `listener port + S * (i + 1)`, which is what clients are told. The stride `S` is the same on
//! all listeners, so that one rule of a port map or firewall fits them all; it is the smallest that leaves all ports
//! distinct, that of the metrics too. Advertised ports take the same offsets.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::endpoint::host_and_port;
use super::{Listener, Settings};

/// The ports of all cores on all listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortTable {
    node_id: i32,
    cores: usize,
    /// `None` with one core.
    stride: Option<u16>,
    listeners: Vec<Listener>,
}

/// Why there is no such table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// `rallypoint.core.port.stride` gives one port to two.
    #[error("rallypoint.core.port.stride {stride} gives port {port} to both {first} and {second}")]
    Collision {
        /// The stride asked for.
        stride: u16,
        /// The port that two would have.
        port: u16,
        /// One of the two.
        first: String,
        /// The other.
        second: String,
    },
    /// Whatever the stride.
    #[error("rallypoint.metrics.listen: port {port} is that of listener {listener}")]
    Metrics {
        /// The port that two would have.
        port: u16,
        /// The listener's name.
        listener: String,
    },
    /// `rallypoint.core.port.stride` leads past the last port there is.
    #[error("rallypoint.core.port.stride {stride}: the last core's port on {listener} would be {port}, above 65535")]
    TooHigh {
        /// The stride asked for.
        stride: u16,
        /// The listener's name.
        listener: String,
        /// What its port would be.
        port: u64,
    },
    /// Whatever the stride.
    #[error(
        "there are no distinct ports up to 65535 for {cores} cores: give the listeners lower ports, or use fewer cores"
    )]
    NoStride {
        /// How many cores.
        cores: usize,
    },
}

impl PortTable {
    /// The table of these settings.
    pub fn of(settings: &Settings) -> Result<PortTable, PortError> {
        let Settings { node_id, cores, core_port_stride, ref listeners, ref metrics, .. } = *settings;
        let metrics = metrics.as_ref();
        if let Some(listener) = listeners.iter().find(|listener| meets(metrics, listener, listener.bind_port)) {
            return Err(PortError::Metrics { port: listener.bind_port, listener: listener.name.clone() });
        }
        let stride = match (cores, core_port_stride) {
            (..=1, _) => None,
            (_, Some(stride)) => {
                try_stride(listeners, metrics, cores, stride)?;
                Some(stride)
            }
            (_, None) => Some(smallest_stride(listeners, metrics, cores)?),
        };
        Ok(PortTable { node_id, cores, stride, listeners: listeners.clone() })
    }

    /// The distance of the cores' own ports; `None` with one core, which has none.
    pub fn stride(&self) -> Option<u16> {
        self.stride
    }

    /// The port that only this core binds, beside the listener's; `None` with one core.
    pub fn own_port(&self, listener: usize, core: usize) -> Option<u16> {
        self.offset(core).map(|offset| self.listeners[listener].bind_port + offset)
    }

    /// The port at which clients are told to find this core.
    pub fn advertised_port(&self, listener: usize, core: usize) -> u16 {
        self.listeners[listener].advertised_port + self.offset(core).unwrap_or(0)
    }

    fn offset(&self, core: usize) -> Option<u16> {
        assert!(core < self.cores, "core {core} of {}", self.cores);
        // `try_stride` has added the offset of the last core to every port without leaving 16 bits.
        self.stride.map(|stride| stride * (core as u16 + 1))
    }
}

/// Whether two hosts may be bound on the same port: one IPv4, one IPv6, and the latter not the address for everything, which
/// takes in IPv4 too.
pub(super) fn may_share(one: &str, other: &str) -> bool {
    let four_and_six = |four: &str, six: &str| {
        four.parse::<Ipv4Addr>().is_ok() && six.parse::<Ipv6Addr>().is_ok_and(|address| !address.is_unspecified())
    };
    four_and_six(one, other) || four_and_six(other, one)
}

/// Where metrics are served, if they are.
type Metrics<'a> = Option<&'a (String, u16)>;

/// Whether the metrics could not be served while a listener has this port. Of two addresses of the machine each has its ports.
fn meets(metrics: Metrics<'_>, listener: &Listener, port: u16) -> bool {
    let address = |host: &str| host.parse::<IpAddr>().ok().filter(|address| !address.is_unspecified());
    metrics.is_some_and(|(host, taken)| {
        let are_two = address(host).zip(address(&listener.bind_host)).is_some_and(|(one, other)| one != other);
        port == *taken && !are_two && !may_share(host, &listener.bind_host)
    })
}

fn smallest_stride(listeners: &[Listener], metrics: Metrics<'_>, cores: usize) -> Result<u16, PortError> {
    for stride in 1..=u16::MAX {
        match try_stride(listeners, metrics, cores, stride) {
            Ok(()) => return Ok(stride),
            Err(PortError::TooHigh { .. }) => break,
            Err(_) => continue,
        }
    }
    Err(PortError::NoStride { cores })
}

fn try_stride(listeners: &[Listener], metrics: Metrics<'_>, cores: usize, stride: u16) -> Result<(), PortError> {
    for Listener { name, bind_port, advertised_port, .. } in listeners {
        let port = u64::from(*bind_port.max(advertised_port)) + u64::from(stride) * cores as u64;
        if port > u64::from(u16::MAX) {
            return Err(PortError::TooHigh { stride, listener: name.clone(), port });
        }
    }
    let mut bound = Taken::default();
    let mut advertised = Taken::default();
    for (index, listener) in listeners.iter().enumerate() {
        // A listener may advertise another one's address (Kafka allows it, for load balancers): the same core is meant.
        let told = (&listener.advertised_host, listener.advertised_port);
        let repeats = listeners[..index].iter().any(|other| (&other.advertised_host, other.advertised_port) == told);
        for place in 0..=cores {
            let offset = stride * place as u16;
            let who = Who { listener, place };
            let port = listener.bind_port + offset;
            if meets(metrics, listener, port) {
                let (first, second) = (who.to_string(), "the metrics".to_owned());
                return Err(PortError::Collision { stride, port, first, second });
            }
            bound.take(port, who, |one, other| may_share(&one.bind_host, &other.bind_host), stride)?;
            if !repeats {
                let elsewhere = |one: &Listener, other: &Listener| one.advertised_host != other.advertised_host;
                advertised.take(listener.advertised_port + offset, who, elsewhere, stride)?;
            }
        }
    }
    Ok(())
}

/// A port's owner: `place` 0 is the listener itself, `i + 1` is core `i` on it.
#[derive(Clone, Copy)]
struct Who<'a> {
    listener: &'a Listener,
    place: usize,
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.listener.name;
        match self.place.checked_sub(1) {
            None => write!(f, "listener {name}"),
            Some(core) => write!(f, "core {core} on {name}"),
        }
    }
}

#[derive(Default)]
struct Taken<'a>(HashMap<u16, Vec<Who<'a>>>);

impl<'a> Taken<'a> {
    fn take(
        &mut self,
        port: u16,
        who: Who<'a>,
        may_share: impl Fn(&Listener, &Listener) -> bool,
        stride: u16,
    ) -> Result<(), PortError> {
        let owners = self.0.entry(port).or_default();
        if let Some(owner) = owners.iter().find(|owner| !may_share(owner.listener, who.listener)) {
            return Err(PortError::Collision { stride, port, first: owner.to_string(), second: who.to_string() });
        }
        owners.push(who);
        Ok(())
    }
}

/// A line for each core on each listener, for the start-up message.
impl fmt::Display for PortTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.listeners.iter().map(|listener| listener.name.len()).max().unwrap_or(0).max(8);
        write!(f, "{:<width$}  {:>10}  {:>4}  {:<24} clients are told", "listener", "node", "core", "binds")?;
        for (index, listener) in self.listeners.iter().enumerate() {
            if self.stride.is_some() {
                let binds = host_and_port(&listener.bind_host, listener.bind_port);
                write!(f, "\n{:<width$}  {:>10}  {:>4}  {binds:<24} (bootstrap)", listener.name, "any", "any")?;
            }
            for core in 0..self.cores {
                let port = self.own_port(index, core).unwrap_or(listener.bind_port);
                let binds = host_and_port(&listener.bind_host, port);
                let told = host_and_port(&listener.advertised_host, self.advertised_port(index, core));
                let node = i64::from(self.node_id) + core as i64;
                write!(f, "\n{:<width$}  {node:>10}  {core:>4}  {binds:<24} {told}", listener.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;

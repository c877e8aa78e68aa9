//! Which listeners there are: put together from `listeners`, `--listen`, `advertised.listeners`, `--advertise` and
//! `listener.security.protocol.map`.

use super::Listener;
use super::arguments::ServeArguments;
use super::endpoint::{self, Endpoint};
use super::load::Values;
use super::origin::{Notice, Origin, Problem};
use crate::limits::LISTENERS_MAX;

/// An endpoint and where it was written.
type Written = (Endpoint, Origin);

/// The listeners in the order of the configuration. What is wrong goes to `problems`.
pub(super) fn compose(
    values: &Values,
    arguments: &ServeArguments,
    notices: &mut Vec<Notice>,
    problems: &mut Vec<Problem>,
) -> Vec<Listener> {
    let mut bound = bound_endpoints(values, arguments, notices, problems);
    let ignored: Vec<String> =
        values.list("controller.listener.names").iter().map(|n| n.to_ascii_uppercase()).collect();
    bound.retain(|(endpoint, _)| endpoint.name != "CONTROLLER" && !ignored.contains(&endpoint.name));
    if bound.is_empty() && problems.is_empty() {
        let message = "listeners: none is left besides those of the controller, which are ignored here";
        problems.push(Problem { origin: values.origin("listeners"), message: message.to_owned() });
    }
    if bound.len() > LISTENERS_MAX {
        let message = format!("listeners: {} are more than {LISTENERS_MAX}, the most allowed", bound.len());
        problems.push(Problem { origin: values.origin("listeners"), message });
    }
    check_distinct(&bound, problems);
    check_protocols(values, &bound, problems);
    let advertised = Advertised::read(values, arguments, &bound, &ignored, problems);
    bound.into_iter().filter_map(|written| advertised.listener(written, notices, problems)).collect()
}

fn bound_endpoints(
    values: &Values,
    arguments: &ServeArguments,
    notices: &mut Vec<Notice>,
    problems: &mut Vec<Problem>,
) -> Vec<Written> {
    let origin = values.origin("listeners");
    let mut bound: Vec<Written> = Vec::new();
    // Who names a listener on the command line wants that one, not the default beside it.
    if arguments.listen.is_empty() || origin != Origin::Default {
        for text in values.list("listeners") {
            match Endpoint::parse_property(text) {
                Ok(endpoint) => bound.push((endpoint, origin.clone())),
                Err(what) => problems.push(Problem { origin: origin.clone(), message: format!("listeners: {what}") }),
            }
        }
    }
    for text in &arguments.listen {
        let flag = Origin::Flag("--listen");
        let endpoint = match Endpoint::parse_option(text) {
            Ok(endpoint) => endpoint,
            Err(message) => {
                problems.push(Problem { origin: flag, message });
                continue;
            }
        };
        match bound.iter_mut().find(|(other, _)| other.name == endpoint.name) {
            Some((other, Origin::Set)) => {
                notices.push(Notice::warn(format!("--listen {text}: --set listeners has {other}, which is stronger")));
            }
            Some(other) if matches!(other.1, Origin::File { .. }) => *other = (endpoint, flag),
            _ => bound.push((endpoint, flag)),
        }
    }
    bound
}

/// Two listeners may share a port only as Kafka allows it: one with an IPv4 and one with an IPv6 address.
fn check_distinct(bound: &[Written], problems: &mut Vec<Problem>) {
    for (index, (endpoint, origin)) in bound.iter().enumerate() {
        for (earlier, _) in &bound[..index] {
            let message = if earlier.name == endpoint.name {
                format!("listeners: {} stands twice", endpoint.name)
            } else if earlier.port == endpoint.port && !super::ports::may_share(&earlier.host, &endpoint.host) {
                format!("listeners: {earlier} and {endpoint} have the same port")
            } else {
                continue;
            };
            problems.push(Problem { origin: origin.clone(), message });
        }
    }
}

fn check_protocols(values: &Values, bound: &[Written], problems: &mut Vec<Problem>) {
    const PROPERTY: &str = "listener.security.protocol.map";
    const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
    let mut map = Vec::new();
    for text in values.list(PROPERTY) {
        let (name, protocol) = text.split_once(':').unwrap_or((text, ""));
        let (name, protocol) = (name.trim().to_ascii_uppercase(), protocol.trim().to_ascii_uppercase());
        if !PROTOCOLS.contains(&protocol.as_str()) {
            let message = format!("{PROPERTY}: `{text}` is not NAME:PROTOCOL with one of {}", PROTOCOLS.join(", "));
            problems.push(Problem { origin: values.origin(PROPERTY), message });
        }
        map.push((name, protocol));
    }
    for (Endpoint { name, .. }, origin) in bound {
        let mapped = map.iter().find(|(other, _)| other == name).map(|(_, protocol)| protocol.as_str());
        // A name that is a protocol's says enough, even where Kafka would want it in an explicit map.
        let protocol = mapped.or(PROTOCOLS.into_iter().find(|protocol| protocol == name));
        let message = match protocol {
            Some("PLAINTEXT") => continue,
            Some(protocol) => format!(
                "listener {name} is of security protocol {protocol}, which is not built yet: \
                 it would be open to everybody, so the server does not start"
            ),
            None => format!("listener {name} has no security protocol: add {name}:PLAINTEXT to {PROPERTY}"),
        };
        problems.push(Problem { origin: origin.clone(), message });
    }
}

/// What clients are told.
struct Advertised {
    /// From `advertised.listeners`.
    written: Vec<Written>,
    /// From `--advertise`.
    host: Option<String>,
}

impl Advertised {
    const PROPERTY: &str = "advertised.listeners";

    fn read(
        values: &Values,
        arguments: &ServeArguments,
        bound: &[Written],
        ignored: &[String],
        problems: &mut Vec<Problem>,
    ) -> Advertised {
        let origin = values.origin(Self::PROPERTY);
        let mut written: Vec<Written> = Vec::new();
        for text in values.list_or_empty(Self::PROPERTY) {
            let problem = match Endpoint::parse_property(text) {
                Err(what) => what,
                Ok(endpoint) if endpoint.name == "CONTROLLER" || ignored.contains(&endpoint.name) => continue,
                Ok(endpoint) if endpoint::is_wildcard(&endpoint.host) => {
                    format!("`{text}`: clients cannot connect to {}; name a host", endpoint.host)
                }
                Ok(endpoint) if bound.iter().all(|(other, _)| other.name != endpoint.name) => {
                    format!("`{text}`: there is no listener {}", endpoint.name)
                }
                Ok(endpoint) if written.iter().any(|(other, _)| other.name == endpoint.name) => {
                    format!("{} stands twice", endpoint.name)
                }
                Ok(endpoint) => {
                    written.push((endpoint, origin.clone()));
                    continue;
                }
            };
            problems.push(Problem { origin: origin.clone(), message: format!("{}: {problem}", Self::PROPERTY) });
        }
        let host = arguments.advertise.as_deref().and_then(|text| {
            let host = endpoint::parse_host(text.trim()).map_err(|what| format!("{what} (a host without a port)"));
            let host = host.and_then(|host| match endpoint::is_wildcard(&host) {
                true => Err(format!("clients cannot connect to {host}; name a host")),
                false => Ok(host),
            });
            let flag = Origin::Flag("--advertise");
            host.map_err(|message| problems.push(Problem { origin: flag, message })).ok()
        });
        Advertised { written, host }
    }

    fn listener(&self, bound: Written, notices: &mut Vec<Notice>, problems: &mut Vec<Problem>) -> Option<Listener> {
        let (bound, origin) = bound;
        let written = self.written.iter().find(|(endpoint, _)| endpoint.name == bound.name);
        let port = written.map_or(bound.port, |(endpoint, _)| endpoint.port);
        let host = match (written, &self.host) {
            (Some((endpoint, Origin::Set)), _) => endpoint.host.clone(),
            (_, Some(host)) => host.clone(),
            (Some((endpoint, _)), None) => endpoint.host.clone(),
            (None, None) if endpoint::is_wildcard(&bound.host) => {
                let Endpoint { name, .. } = &bound;
                let message = format!(
                    "listener {bound} binds all addresses, and clients cannot be told to connect to {}: say where they \
                     shall connect, with --advertise HOST or {}={name}://HOST:{port}",
                    bound.host,
                    Self::PROPERTY,
                );
                problems.push(Problem { origin, message });
                return None;
            }
            (None, None) => bound.host.clone(),
        };
        if let (Some((told, from)), Origin::Flag(_)) = (written, &origin)
            && told.port != bound.port
        {
            let text = format!("{from}: clients are told port {}, but --listen binds {bound}", told.port);
            notices.push(Notice::warn(text));
        }
        let Endpoint { name, host: bind_host, port: bind_port } = bound;
        Some(Listener { name, bind_host, bind_port, advertised_host: host, advertised_port: port })
    }
}

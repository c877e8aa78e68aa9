//! `NAME://HOST:PORT` and its parts, as Kafka writes listeners.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A listener as it is written: where it binds, or what clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// In upper case, as Kafka compares it.
    pub(super) name: String,
    /// Without brackets; never empty (a missing host is `0.0.0.0`).
    pub(super) host: String,
    pub(super) port: u16,
}

impl Endpoint {
    /// Reads `NAME://HOST:PORT`, as it stands in `listeners` and `advertised.listeners`.
    pub(super) fn parse_property(text: &str) -> Result<Endpoint, String> {
        let Some((name, address)) = text.split_once("://") else {
            return Err(format!("`{text}` is not of the form NAME://HOST:PORT"));
        };
        Endpoint::new(name, address).map_err(|what| format!("`{text}`: {what}"))
    }

    /// Reads `[NAME=]HOST:PORT`, as `--listen` takes it.
    pub(super) fn parse_option(text: &str) -> Result<Endpoint, String> {
        let (name, address) = text.split_once('=').unwrap_or(("PLAINTEXT", text));
        if address.contains("://") {
            return Err(format!("`{text}` is not of the form [NAME=]HOST:PORT"));
        }
        Endpoint::new(name, address).map_err(|what| format!("`{text}`: {what}"))
    }

    fn new(name: &str, address: &str) -> Result<Endpoint, String> {
        let name = name.trim().to_ascii_uppercase();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
            return Err("the name of a listener is of letters, digits and _".to_owned());
        }
        let (host, port) = parse_address(address)?;
        Ok(Endpoint { name, host, port })
    }
}

/// Reads `HOST:PORT`; an empty host is all addresses.
pub(super) fn parse_address(text: &str) -> Result<(String, u16), String> {
    let Some((host, port)) = text.trim().rsplit_once(':') else {
        return Err("the port is missing".to_owned());
    };
    let port: u16 = port.parse().map_err(|_| format!("`{port}` is not a port (1 to 65535)"))?;
    if port == 0 {
        return Err("port 0 is not allowed: clients could not be told which one it became".to_owned());
    }
    let host = if host.is_empty() { "0.0.0.0".to_owned() } else { parse_host(host)? };
    Ok((host, port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, host_and_port(&self.host, self.port))
    }
}

/// Reads a host name, an IPv4 address, or an IPv6 address in brackets; without the brackets.
pub(super) fn parse_host(text: &str) -> Result<String, String> {
    if let Some(inner) = text.strip_prefix('[') {
        let Some(address) = inner.strip_suffix(']') else {
            return Err(format!("`{text}`: the bracket is not closed"));
        };
        let without_zone = address.split('%').next().unwrap_or(address);
        return match without_zone.parse::<Ipv6Addr>() {
            Ok(_) => Ok(address.to_owned()),
            Err(_) => Err(format!("`{address}` is not an IPv6 address")),
        };
    }
    if text.contains(':') {
        return Err(format!("`{text}`: an IPv6 address stands in brackets, like [::1]"));
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Err(format!("`{text}` is neither a host name nor an address"));
    }
    Ok(text.to_owned())
}

/// `HOST:PORT`, with brackets around an IPv6 address.
pub fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whether the host stands for all addresses of the machine, so that nobody could connect to it by that name.
pub fn is_wildcard(host: &str) -> bool {
    let unspecified_v6 = host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unspecified());
    unspecified_v6 || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(name: &str, host: &str, port: u16) -> Endpoint {
        Endpoint { name: name.into(), host: host.into(), port }
    }

    #[test]
    fn properties_are_read_as_kafka_writes_them() {
        let read = Endpoint::parse_property;
        assert_eq!(read("PLAINTEXT://127.0.0.1:9092"), Ok(endpoint("PLAINTEXT", "127.0.0.1", 9092)));
        assert_eq!(read("external://my_host.example:1"), Ok(endpoint("EXTERNAL", "my_host.example", 1)));
        assert_eq!(read("PLAINTEXT://:9092"), Ok(endpoint("PLAINTEXT", "0.0.0.0", 9092)));
        assert_eq!(read("A://[fe80::1%eth0]:9092"), Ok(endpoint("A", "fe80::1%eth0", 9092)));
        assert_eq!(read("A://[::]:65535"), Ok(endpoint("A", "::", 65535)));
    }

    #[test]
    fn options_may_leave_the_name_out() {
        let read = Endpoint::parse_option;
        assert_eq!(read("127.0.0.1:9092"), Ok(endpoint("PLAINTEXT", "127.0.0.1", 9092)));
        assert_eq!(read("external=[::1]:9093"), Ok(endpoint("EXTERNAL", "::1", 9093)));
        assert!(read("EXTERNAL://h:9092").is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("127.0.0.1:9092", "NAME://HOST:PORT"),
            ("A://127.0.0.1", "the port is missing"),
            ("A://h:0", "port 0"),
            ("A://h:65536", "`65536` is not a port"),
            ("A://h:-1", "`-1` is not a port"),
            ("A://::1:9092", "brackets"),
            ("A://[::1:9092", "not closed"),
            ("A://[::g]:9092", "not an IPv6 address"),
            ("A://h h:9092", "neither a host name nor an address"),
            ("://h:9092", "name of a listener"),
        ] {
            let message = Endpoint::parse_property(text).expect_err(text);
            assert!(message.contains(what), "{text}: {message}");
        }
    }

    #[test]
    fn wildcards() {
        assert!(is_wildcard("0.0.0.0") && is_wildcard("::") && is_wildcard("0:0:0:0:0:0:0:0"));
        assert!(!is_wildcard("127.0.0.1") && !is_wildcard("::1") && !is_wildcard("localhost"));
    }

    #[test]
    fn it_is_written_as_it_is_read() {
        for text in ["A://127.0.0.1:9092", "A://[::1]:9092"] {
            assert_eq!(Endpoint::parse_property(text).map(|endpoint| endpoint.to_string()), Ok(text.to_owned()));
        }
    }
}

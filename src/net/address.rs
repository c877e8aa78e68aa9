//! Addresses as people write and read them.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// The address of a peer as it is shown and counted: a v4-mapped IPv6 address is the IPv4 address in it.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The socket address to bind for a host, which is an address (IPv6 with or without brackets) or a name.
pub fn resolve(host: &str, port: u16) -> std::io::Result<SocketAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    if let Ok(SocketAddr::V6(scoped)) = format!("[{bare}]:{port}").parse() {
        return Ok(SocketAddr::V6(SocketAddrV6::new(*scoped.ip(), port, 0, scoped.scope_id())));
    }
    let mut found = (bare, port).to_socket_addrs()?;
    found.next().ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, format!("{host} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_resolve_with_and_without_brackets() {
        for (host, shown) in [("127.0.0.1", "127.0.0.1:9"), ("::1", "[::1]:9"), ("[::]", "[::]:9")] {
            assert_eq!(resolve(host, 9).expect("an address").to_string(), shown);
        }
        assert!(resolve("localhost", 9).expect("a name").ip().is_loopback());
        assert!(resolve("no such host", 9).is_err());
    }

    #[test]
    fn a_mapped_peer_is_shown_as_what_it_is() {
        let mapped: SocketAddr = "[::ffff:10.1.2.3]:80".parse().expect("an address");
        assert_eq!(canonical(mapped).to_string(), "10.1.2.3:80");
        let real: SocketAddr = "[fe80::1]:80".parse().expect("an address");
        assert_eq!(canonical(real).to_string(), "[fe80::1]:80");
    }
}

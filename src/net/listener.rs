//! Listening sockets: the bootstrap port that all cores share, and the ports of their own.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// A listening socket and where it listens.
#[derive(Debug)]
pub struct ListeningSocket {
    pub(super) socket: Socket,
    pub(super) address: SocketAddr,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there.
    #[error("{0} is in use by another process; stop it, or set another port (listeners)")]
    InUse(SocketAddr),
    /// The address is not one of this machine's.
    #[error("{0} is not an address of this machine (listeners)")]
    NotHere(SocketAddr),
    /// A port below net.ipv4.ip_unprivileged_port_start.
    #[error("{0} may not be bound by this user; use a port above 1023 or grant CAP_NET_BIND_SERVICE")]
    NotAllowed(SocketAddr),
    /// Anything else.
    #[error("{0} cannot be listened on: {1}")]
    Other(SocketAddr, io::Error),
}

/// One socket per core on the same port. A server that is there already is found out first, since sharing a port would
/// let this one slip in beside it.
pub fn bind_bootstrap(address: SocketAddr, cores: usize) -> Result<Vec<ListeningSocket>, ListenError> {
    if cores == 1 {
        return Ok(vec![bind_own(address)?]);
    }
    let explain = |error| explain(address, error);
    if address.port() != 0 {
        drop(open(address, false).map_err(explain)?);
    }
    let first = open(address, true).map_err(explain)?;
    let shared = first.local_addr().map_err(explain)?.as_socket().unwrap_or(address);
    let mut sockets = vec![first];
    for _ in 1..cores {
        sockets.push(open(shared, true).map_err(explain)?);
    }
    sockets.into_iter().map(|socket| listen(socket).map_err(explain)).collect()
}

/// A socket on a port that only one core listens on.
pub fn bind_own(address: SocketAddr) -> Result<ListeningSocket, ListenError> {
    open(address, false).and_then(listen).map_err(|error| explain(address, error))
}

fn open(address: SocketAddr, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not fail because connections of the last run linger in TIME_WAIT.
    socket.set_reuse_address(true)?;
    if is_shared {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Accepted sockets inherit both.
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listen(socket: Socket) -> io::Result<ListeningSocket> {
    // The kernel cuts it down to net.core.somaxconn.
    socket.listen(i32::MAX)?;
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
    Ok(ListeningSocket { socket, address })
}

fn explain(address: SocketAddr, error: io::Error) -> ListenError {
    match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse(address),
        io::ErrorKind::AddrNotAvailable => ListenError::NotHere(address),
        io::ErrorKind::PermissionDenied => ListenError::NotAllowed(address),
        _ => ListenError::Other(address, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    #[test]
    fn cores_share_the_bootstrap_port_and_a_second_server_is_refused() {
        let sockets = bind_bootstrap(ANY, 3).expect("three sockets");
        assert!(sockets.iter().all(|socket| socket.address == sockets[0].address && socket.address.port() != 0));
        for cores in [1, 2] {
            let error = bind_bootstrap(sockets[0].address, cores).expect_err("somebody is there");
            assert!(error.to_string().contains("in use by another process"), "{error}");
        }
    }

    #[test]
    fn an_own_port_is_taken_once() {
        let socket = bind_own(ANY).expect("a socket");
        assert!(matches!(bind_own(socket.address), Err(ListenError::InUse(_))));
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let elsewhere: SocketAddr = "192.0.2.1:9092".parse().expect("an address");
        assert!(matches!(bind_own(elsewhere), Err(ListenError::NotHere(_))));
    }
}

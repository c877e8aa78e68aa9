//! Requests and replies of orderly clients.
#![cfg(feature = "server")]
#![allow(clippy::disallowed_methods, reason = "a test has clocks, threads and sockets")]

mod net_support;

use net_support::{Client, Echo, serve, stop};
use rallypoint::net::ServerSettings;

#[test]
fn one_core_answers_on_the_bootstrap_port_and_on_its_own() {
    let server = serve(1, ServerSettings::default(), |_| Echo);
    for address in [server.bootstrap_addresses()[0], server.own_addresses(0)[0]] {
        let mut client = Client::connect(address);
        for round in 0..100u8 {
            assert_eq!(client.ask(&[round; 40]), [round; 40]);
        }
    }
    assert_eq!(server.counters(0).requests, 200);
    stop(server);
}

#[test]
fn two_cores_share_the_bootstrap_port() {
    let server = serve(2, ServerSettings::default(), |_| Echo);
    let mut clients: Vec<Client> = (0..64).map(|_| Client::connect(server.bootstrap_addresses()[0])).collect();
    for client in &mut clients {
        assert_eq!(client.ask(b"who is there"), b"who is there");
    }
    for core in 0..2 {
        assert!(server.counters(core).requests > 0, "64 connections went to one of two cores");
        assert_eq!(Client::connect(server.own_addresses(core)[0]).ask(b"you"), b"you");
    }
    drop(clients);
    stop(server);
}

//! What a handler knows of the request beside its body.

use std::borrow::Cow;

use super::service::{ConnectionId, Session};
use crate::auth::{ANONYMOUS, Subject};
use crate::clock::Now;
use crate::group::Ticket;
use crate::wire::{HeaderView, Version};

/// Who asks, how, and when.
#[derive(Debug)]
pub struct RequestContext<'a> {
    /// The connection that the reply goes to.
    pub connection: ConnectionId,
    /// Its peer and listener.
    pub session: &'a Session,
    /// The request's header.
    pub header: HeaderView<'a>,
    /// The version of the API that is spoken.
    pub version: Version,
    /// The time of the batch.
    pub now: Now,
}

impl RequestContext<'_> {
    /// Who asks, for the authorizer.
    pub fn subject(&self) -> Subject<'_> {
        Subject { principal: ANONYMOUS, host: self.session.peer.ip() }
    }

    /// The client id as Kafka stores it with a member: empty when there is none.
    pub fn client_id(&self) -> Cow<'_, str> {
        self.header.client_id().unwrap_or_default()
    }

    /// Echoed in the reply's header.
    pub fn correlation_id(&self) -> i32 {
        self.header.prefix.correlation_id()
    }

    /// Kafka's textual form of the peer's address: a slash, then the address without its port.
    pub fn client_host(&self) -> String {
        format!("/{}", self.session.peer.ip())
    }

    /// What a parked request needs to be answered later.
    pub fn ticket(&self) -> Ticket {
        Ticket { connection: self.connection.0, correlation_id: self.correlation_id(), version: self.version.number }
    }
}

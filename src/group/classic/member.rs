//! One member of a classic group.

use std::rc::Rc;

use crate::group::Ticket;
use crate::group::memory::MEMBER_BYTES;
use crate::group::names::ProtocolList;
use crate::group::outcome::SharedBytes;
use crate::group::profile::Profile;
use crate::group::timers::TimerId;

/// What a member said of itself when it joined last.
#[derive(Clone, Debug)]
pub(in crate::group) struct Said {
    pub(in crate::group) profile: Profile,
    /// The names that belong to the profile's metadata.
    pub(in crate::group) protocols: Rc<ProtocolList>,
    pub(in crate::group) session_timeout_ms: i32,
    pub(in crate::group) rebalance_timeout_ms: i32,
}

impl Said {
    /// The memory that it takes, roughly.
    pub(super) fn bytes(&self) -> usize {
        MEMBER_BYTES + self.profile.bytes() + self.protocols.bytes()
    }
}

/// A member. What is counted over all members changes through [`super::members::Members`] only.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) said: Said,
    /// What the leader assigned to it in the last generation that was completed.
    pub(super) assignment: SharedBytes,
    /// When its session ends. Its timer fires then or before.
    pub(super) deadline_ms: u64,
    connection: u64,
    correlation_id: i32,
    pub(super) timer: Option<TimerId>,
    version: i16,
    parked: Kind,
    /// Its first JoinGroup is not answered yet, so it cannot heartbeat.
    pub(super) is_new: bool,
    pub(super) owes_sync: bool,
}

/// A request of a member that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parked {
    Join(Ticket),
    Sync(Ticket),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Join,
    Sync,
}

impl Member {
    pub(super) fn new(said: Said) -> Member {
        Member {
            said,
            assignment: SharedBytes::default(),
            deadline_ms: 0,
            connection: 0,
            correlation_id: 0,
            timer: None,
            version: 0,
            parked: Kind::Nothing,
            is_new: false,
            owes_sync: false,
        }
    }

    pub(super) fn is_static(&self) -> bool {
        self.said.profile.is_static()
    }

    pub(super) fn is_joining(&self) -> bool {
        self.parked == Kind::Join
    }

    pub(super) fn is_syncing(&self) -> bool {
        self.parked == Kind::Sync
    }

    pub(super) fn parked(&self) -> Option<Parked> {
        let Member { connection, correlation_id, version, .. } = *self;
        let ticket = Ticket { connection, correlation_id, version };
        match self.parked {
            Kind::Nothing => None,
            Kind::Join => Some(Parked::Join(ticket)),
            Kind::Sync => Some(Parked::Sync(ticket)),
        }
    }

    pub(super) fn set_parked(&mut self, parked: Option<Parked>) {
        let (kind, ticket) = match parked {
            None => {
                self.parked = Kind::Nothing;
                return;
            }
            Some(Parked::Join(ticket)) => (Kind::Join, ticket),
            Some(Parked::Sync(ticket)) => (Kind::Sync, ticket),
        };
        self.parked = kind;
        self.connection = ticket.connection;
        self.correlation_id = ticket.correlation_id;
        self.version = ticket.version;
    }

    /// Whether these are the protocols that the member proposed: names, order and metadata.
    pub(super) fn proposes<'a, N: AsRef<str>>(&self, protocols: impl Iterator<Item = (N, &'a [u8])> + Clone) -> bool {
        let profile = &self.said.profile;
        self.said.protocols.is(protocols.clone().map(|(name, _)| name))
            && protocols.zip(0..).all(|((_, metadata), place)| profile.metadata(place) == metadata)
    }

    /// Where the member's metadata for a protocol stands.
    pub(super) fn place(&self, protocol_name: &str) -> Option<usize> {
        self.said.protocols.place(protocol_name)
    }
}

//! The seam between a core's network and what it serves. No sockets in here: `net` drives a [`Service`], and a simulation
//! can drive the same one.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Deref;

use crate::clock::Now;
pub use crate::journal::JournalPosition;
pub use crate::journal::store::WriteFailure;

/// A connection of this core, as those above the network know it: slot and generation, so that what comes late for a
/// closed connection never meets the next one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// The index of a listener in the order of the configuration; the same on every core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerIndex(pub u8);

/// What is known of a connection's peer.
#[derive(Clone, Debug)]
pub struct Session {
    /// The listener on which the connection came in.
    pub listener: ListenerIndex,
    /// The peer's address; a v4-mapped IPv6 address is shown as IPv4.
    pub peer: SocketAddr,
}

/// What became of one request frame.
#[derive(Debug)]
pub enum Verdict {
    /// Its reply was appended, or it has none.
    Answered,
    /// It waits for an event: no later frame of the connection is executed before [`Network::answer`].
    Parked,
    /// Its reply was appended, but may leave only once the journal is durable up to here. Later frames go on.
    Durable(JournalPosition),
    /// The peer broke the protocol. Earlier replies still leave, then the connection closes; the reason is logged with the
    /// peer's address and counted by its first word.
    Close(Cow<'static, str>),
}

/// Why a connection closes whose request would be answered with more than [`crate::limits::RESPONSE_MAX_BYTES`].
pub const OVERSIZED_REPLY: &str = "oversized reply: the answer would be larger than any may be";

/// What a core does with its connections' frames.
///
/// In each turn of the core the network calls `begin`, then `request` and the others for what came in, then `turn`; it
/// repeats the last two while answers of `turn` free frames that waited behind a parked request and the turn has time.
pub trait Service {
    /// A turn begins: `now` holds for all that comes until `turn`.
    fn begin(&mut self, now: Now);

    /// Executes one request frame (without its size prefix) and appends the reply frame (with one).
    fn request(
        &mut self,
        connection: ConnectionId,
        session: &mut Session,
        frame: &[u8],
        replies: &mut Vec<u8>,
    ) -> Verdict;

    /// The connection is gone. A parked request of it is not answered any more, but keeps its effect (as in Kafka).
    fn closed(&mut self, connection: ConnectionId);

    /// A write that was submitted with [`Network::write`] has ended.
    fn written(&mut self, token: u64, result: Result<(), WriteFailure>);

    /// Everything else that is due: mail, timers, answers of parked requests, journal writes.
    ///
    /// # Errors
    /// What this core cannot go on with; the server ends.
    fn turn(&mut self, now: Now, network: &mut dyn Network) -> std::io::Result<()>;

    /// When `turn` must be called at the latest, on the monotonic clock in milliseconds.
    fn deadline_ms(&self) -> Option<u64>;

    /// Whether it has something to write that was promised, and can: a core that stops goes on with it for a while.
    fn has_to_write(&self) -> bool {
        false
    }

    /// Roughly how much memory it holds that may go again.
    fn held_bytes(&self) -> usize {
        0
    }
}

/// A write to a file.
pub struct FileWrite {
    /// Stays open until the write has ended.
    pub file: std::os::fd::RawFd,
    /// Where in the file.
    pub offset: u64,
    /// What; its bytes do not move while this does.
    pub data: Box<dyn Deref<Target = [u8]>>,
    /// Whether the file's data is synced (fdatasync) behind the write.
    pub sync: bool,
    /// For [`Service::written`].
    pub token: u64,
}

/// What a service may ask of the network.
pub trait Network {
    /// Appends the reply frame (size prefix included) of the parked request of a connection, which then goes on with the
    /// frames behind it; appending nothing closes it ([`OVERSIZED_REPLY`]). False if the connection is gone or has no parked
    /// request.
    fn answer(&mut self, connection: ConnectionId, write: &mut dyn FnMut(&mut Vec<u8>)) -> bool;

    /// Replies that waited for the journal up to `position` may leave.
    fn durable(&mut self, position: JournalPosition);

    /// Replies that wait for a position above `after` and up to `through` will not become true: their connections close.
    fn failed(&mut self, after: JournalPosition, through: JournalPosition);

    /// Whether the turn has taken little time so far. What can wait waits for the next turn if not, in which others are served
    /// before it.
    fn has_time(&self) -> bool {
        true
    }

    /// Writes to a file on the core's ring; the end comes through [`Service::written`]. One at a time per file.
    fn write(&mut self, write: FileWrite);
}

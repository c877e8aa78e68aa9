//! The ring that both the floor and the load run on: multishot accept and recv, provided buffers, frames cut in place,
//! one SEND per connection per batch of completions. It knows of Kafka only that a frame starts with its size.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use socket2::SockAddr;

use crate::buffers::Buffers;
use crate::frames::cut;

const ACCEPT: u64 = 1;
const RECV: u64 = 2;
const SEND: u64 = 3;
const CONNECT: u64 = 4;

/// What is done with the connections' frames. A failure ends the run.
pub(crate) trait Handler {
    /// A batch of completions has come and is about to be handled.
    fn batch(&mut self) {}
    /// A connection that was begun with [`Engine::connect`] stands.
    fn opened(&mut self, _connection: usize, _output: &mut Vec<u8>) {}
    /// One whole frame, its size prefix included. What is appended to `output` is sent at the end of the batch.
    fn frame(&mut self, connection: usize, frame: &[u8], output: &mut Vec<u8>) -> Result<(), String>;
    /// A connection ended.
    fn closed(&mut self, connection: usize, why: &str) -> Result<(), String> {
        Err(format!("connection {connection} ended: {why}"))
    }
}

/// How much an engine takes in at once.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct EngineOptions {
    /// Provided buffers (a power of two)
    #[arg(long, default_value_t = 1024, value_name = "COUNT")]
    buffers: u16,
    /// Bytes of each provided buffer
    #[arg(long, default_value_t = 4096, value_name = "BYTES")]
    buffer_bytes: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { buffers: 1024, buffer_bytes: 4096 }
    }
}

#[derive(Default)]
struct Connection {
    file: Option<OwnedFd>,
    generation: u64,
    output: Vec<u8>,
    sending: Vec<u8>,
    partial: Vec<u8>,
    is_dirty: bool,
    is_sending: bool,
    is_ending: bool,
}

/// One io_uring with its connections. Single-threaded.
pub(crate) struct Engine {
    ring: IoUring, // before what its operations point to: dropped first
    buffers: Buffers,
    connections: Vec<Connection>,
    free: Vec<usize>,
    dirty: Vec<usize>,
    rearm: VecDeque<squeue::Entry>,
    batch: Vec<cqueue::Entry>,
    listener: Option<TcpListener>,
    peer: Option<Box<SockAddr>>,
}

impl Engine {
    pub(crate) fn new(options: EngineOptions) -> Result<Engine, String> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_cqsize(32_768)
            .build(4096)
            .map_err(|error| {
                format!("io_uring: {error} (kernel 6.1 or newer? allowed by kernel.io_uring_disabled?)")
            })?;
        let buffers = Buffers::register(&ring, options.buffers, options.buffer_bytes)
            .map_err(|error| format!("provided buffers: {error}"))?;
        Ok(Engine {
            ring,
            buffers,
            connections: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            rearm: VecDeque::new(),
            batch: Vec::new(),
            listener: None,
            peer: None,
        })
    }

    /// Accepts all that come to `listener`.
    pub(crate) fn listen(&mut self, listener: TcpListener) {
        let accept = accept_entry(listener.as_raw_fd());
        self.listener = Some(listener);
        self.push(accept);
    }

    /// Takes over a connected socket and gives its number; with none given back so far they count from 0.
    pub(crate) fn add(&mut self, file: OwnedFd) -> usize {
        let connection = self.place(file);
        let recv = self.recv_entry(connection);
        self.push(recv);
        connection
    }

    /// Starts to connect a socket; [`Handler::opened`] tells when it stands. All peers of an engine are the same one.
    pub(crate) fn connect(&mut self, file: OwnedFd, peer: &SockAddr) -> usize {
        let (address, length) = {
            let peer = self.peer.get_or_insert_with(|| Box::new(peer.clone()));
            (peer.as_ptr(), peer.len())
        };
        let connection = self.place(file);
        let entry = opcode::Connect::new(types::Fd(self.fd(connection)), address.cast(), length).build();
        let tag = self.tag(CONNECT, connection);
        self.push(entry.user_data(tag));
        connection
    }

    /// The bytes that go to a connection with the next turn.
    pub(crate) fn output(&mut self, connection: usize) -> &mut Vec<u8> {
        mark_dirty(&mut self.connections[connection], &mut self.dirty, connection);
        &mut self.connections[connection].output
    }

    /// Sends what there is, waits for at least one completion (or the time-out) and handles all that are there.
    /// False if nothing came in time.
    pub(crate) fn turn(&mut self, handler: &mut impl Handler, timeout: Option<Duration>) -> Result<bool, String> {
        self.send_dirty();
        self.enter(timeout).map_err(|error| format!("io_uring_enter: {error}"))?;
        let mut batch = std::mem::take(&mut self.batch);
        batch.extend(self.ring.completion());
        let has_some = !batch.is_empty();
        if has_some {
            handler.batch();
        }
        for completion in batch.drain(..) {
            self.complete(handler, &completion)?;
        }
        self.batch = batch;
        self.buffers.publish(); // before the receives that ran out of buffers are armed again
        while let Some(entry) = self.rearm.pop_front() {
            self.push(entry);
        }
        Ok(has_some)
    }

    fn enter(&mut self, timeout: Option<Duration>) -> std::io::Result<()> {
        let entered = match timeout.map(types::Timespec::from) {
            Some(limit) => self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&limit)),
            None => self.ring.submit_and_wait(1),
        };
        match entered {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
            other => other.map(drop),
        }
    }

    fn complete(&mut self, handler: &mut impl Handler, completion: &cqueue::Entry) -> Result<(), String> {
        let (data, result, flags) = (completion.user_data(), completion.result(), completion.flags());
        let connection = (data & 0xffff_ffff) as usize;
        let is_current =
            self.connections.get(connection).is_some_and(|it| it.generation & 0xff_ffff == data >> 32 & 0xff_ffff);
        match data >> 56 {
            ACCEPT => self.accepted(result, flags),
            RECV if is_current => self.received(handler, connection, result, flags),
            SEND if is_current => self.sent(handler, connection, result),
            CONNECT if is_current && result == 0 => {
                let recv = self.recv_entry(connection);
                self.push(recv);
                let (it, dirty) = (&mut self.connections[connection], &mut self.dirty);
                handler.opened(connection, &mut it.output);
                mark_dirty(it, dirty, connection);
                Ok(())
            }
            CONNECT if is_current => self.end(handler, connection, &error_text(result)),
            _ => Ok(()),
        }
    }

    fn accepted(&mut self, result: i32, flags: u32) -> Result<(), String> {
        if result >= 0 {
            // SAFETY: the completion gives us a new descriptor that nobody else owns.
            self.add(unsafe { OwnedFd::from_raw_fd(result) });
        }
        match (cqueue::more(flags), &self.listener) {
            (false, _) if result < 0 => Err(format!("accept: {}", error_text(result))),
            (false, Some(listener)) => {
                self.rearm.push_back(accept_entry(listener.as_raw_fd()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn received(
        &mut self,
        handler: &mut impl Handler,
        connection: usize,
        result: i32,
        flags: u32,
    ) -> Result<(), String> {
        let mut outcome = Ok(());
        if let Some(id) = cqueue::buffer_select(flags) {
            let input = self.buffers.received(id, result.max(0) as usize);
            let it = &mut self.connections[connection];
            outcome = cut(&mut it.partial, input, |frame| handler.frame(connection, frame, &mut it.output));
            if !it.output.is_empty() {
                mark_dirty(it, &mut self.dirty, connection);
            }
            self.buffers.give_back(id);
        }
        outcome?;
        if cqueue::more(flags) {
            return Ok(());
        }
        if result > 0 || result == -libc::ENOBUFS {
            let entry = self.recv_entry(connection);
            self.rearm.push_back(entry);
            return Ok(());
        }
        self.end(handler, connection, &error_text(result))
    }

    fn sent(&mut self, handler: &mut impl Handler, connection: usize, result: i32) -> Result<(), String> {
        let it = &mut self.connections[connection];
        it.is_sending = false;
        // MSG_WAITALL: less than everything means that the connection is broken.
        let is_whole = result >= 0 && result as usize == it.sending.len();
        it.sending.clear();
        if it.is_ending {
            return self.end(handler, connection, "ended while sending");
        }
        if is_whole && !it.output.is_empty() {
            mark_dirty(it, &mut self.dirty, connection);
        }
        Ok(())
    }

    fn send_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for connection in dirty.drain(..) {
            let it = &mut self.connections[connection];
            it.is_dirty = false;
            let Some(file) = &it.file else { continue };
            if it.is_sending || it.is_ending || it.output.is_empty() {
                continue;
            }
            it.is_sending = true;
            std::mem::swap(&mut it.sending, &mut it.output);
            let entry = opcode::Send::new(types::Fd(file.as_raw_fd()), it.sending.as_ptr(), it.sending.len() as u32)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build();
            let tag = self.tag(SEND, connection);
            self.push(entry.user_data(tag));
        }
        self.dirty = dirty;
    }

    /// Gives the connection's place back once no SEND of it is out any more.
    fn end(&mut self, handler: &mut impl Handler, connection: usize, why: &str) -> Result<(), String> {
        let it = &mut self.connections[connection];
        it.is_ending = true;
        if it.is_sending {
            return Ok(());
        }
        *it = Connection { generation: it.generation + 1, is_dirty: it.is_dirty, ..Connection::default() };
        self.free.push(connection);
        handler.closed(connection, why)
    }

    fn place(&mut self, file: OwnedFd) -> usize {
        let connection = self.free.pop().unwrap_or_else(|| {
            self.connections.push(Connection::default());
            self.connections.len() - 1
        });
        self.connections[connection].file = Some(file);
        connection
    }

    fn recv_entry(&self, connection: usize) -> squeue::Entry {
        opcode::RecvMulti::new(types::Fd(self.fd(connection)), 0).build().user_data(self.tag(RECV, connection))
    }

    fn fd(&self, connection: usize) -> RawFd {
        self.connections[connection].file.as_ref().map_or(-1, |file| file.as_raw_fd())
    }

    /// Names an operation so that a late completion never meets the next connection in the same place.
    fn tag(&self, operation: u64, connection: usize) -> u64 {
        operation << 56 | (self.connections[connection].generation & 0xff_ffff) << 32 | connection as u64
    }

    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: what entries point to (a connection's `sending`, the peer's address) lives in self, is not moved on
            // the heap and not changed until the completion; self drops the ring first.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.ring.submit().expect("a full submission queue can be submitted");
        }
    }
}

fn accept_entry(listener: RawFd) -> squeue::Entry {
    opcode::AcceptMulti::new(types::Fd(listener)).flags(libc::SOCK_CLOEXEC).build().user_data(ACCEPT << 56)
}

fn mark_dirty(it: &mut Connection, dirty: &mut Vec<usize>, connection: usize) {
    if !it.is_dirty {
        it.is_dirty = true;
        dirty.push(connection);
    }
}

fn error_text(result: i32) -> String {
    if result == 0 { "end of stream".into() } else { std::io::Error::from_raw_os_error(-result).to_string() }
}

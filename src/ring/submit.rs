//! The ring itself: submissions out, completions in, one system call per turn for both.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use super::buffers::{self, BufferId, Buffers};
use super::sends::{Sends, Sent};
use super::timer::Timer;
use super::token::{Key, Kind, pack, unpack};
use super::wake::{WakeReader, Waker};
use super::writes::{Writes, Written};
use crate::limits::SEND_MAX_BYTES;

/// How large a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSettings {
    /// Submissions that fit between two system calls; more are kept and follow.
    pub submissions: u32,
    /// Completions that fit before the kernel must keep them aside.
    pub completions: u32,
    /// Receive buffers: a power of two up to 32,768.
    pub buffers: u16,
    /// Bytes of one receive buffer.
    pub buffer_bytes: usize,
}

impl Default for RingSettings {
    fn default() -> Self {
        RingSettings { submissions: 4096, completions: 16_384, buffers: 1024, buffer_bytes: 4096 }
    }
}

/// The end of one operation, or one result of a multishot one.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// Of a socket; the ring keeps the others to itself.
    pub kind: Kind,
    /// Whose.
    pub key: Key,
    /// As the system call would return it, or minus the error number.
    pub result: i32,
    flags: u32,
}

impl Completion {
    /// The operation goes on and will complete again.
    pub fn has_more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The receive buffer that came with it; it must be given back.
    pub fn buffer(&self) -> Option<BufferId> {
        cqueue::buffer_select(self.flags).map(BufferId)
    }
}

/// One core's io_uring. It stays on its thread.
pub struct Ring {
    io: IoUring,
    buffers: Buffers,
    sends: Sends,
    writes: Writes,
    timer: Timer,
    wakes: WakeReader,
    /// Submissions that found the queue full; linked ones together.
    waiting: VecDeque<(squeue::Entry, Option<squeue::Entry>)>,
    in_flight: usize,
    is_single_threaded: PhantomData<*const ()>,
}

impl Ring {
    /// Makes a ring for this thread, to be woken by `waker`. Fails where the kernel is too old or forbids io_uring.
    pub fn new(settings: RingSettings, waker: Waker) -> io::Result<Ring> {
        let io = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_cqsize(settings.completions)
            .build(settings.submissions)?;
        let buffers = Buffers::register(&io, settings.buffers, settings.buffer_bytes)?;
        let mut ring = Ring {
            io,
            buffers,
            sends: Sends::default(),
            writes: Writes::default(),
            timer: Timer::default(),
            wakes: WakeReader::new(waker),
            waiting: VecDeque::new(),
            in_flight: 0,
            is_single_threaded: PhantomData,
        };
        let read = ring.wakes.read();
        ring.push(read, None);
        Ok(ring)
    }

    /// Lets the ring's workers, which sync files, run on these CPUs. Without it they share the one to which the thread is pinned, and
    /// a sync waits until the thread sleeps. Nothing is changed if there are none.
    pub fn let_workers_run_on(&self, cpus: &[usize]) -> io::Result<()> {
        let known = cpus.iter().copied().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize);
        // SAFETY: all zeros is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: each is below the set's size.
        let count = known.map(|cpu| unsafe { libc::CPU_SET(cpu, &mut set) }).count();
        if count == 0 { Ok(()) } else { self.io.submitter().register_iowq_aff(&set) }
    }

    /// Accepts on a listening socket until it is cancelled or fails. The key is the caller's name for the socket.
    pub fn accept(&mut self, key: Key, socket: RawFd) {
        let entry = opcode::AcceptMulti::new(Fd(socket)).flags(libc::SOCK_CLOEXEC).build();
        self.push(entry.user_data(pack(Kind::Accept, key)), None);
    }

    /// Receives into the ring's buffers until it is cancelled, the peer ends, or something fails.
    pub fn receive(&mut self, key: Key, socket: RawFd) {
        let entry = opcode::RecvMulti::new(Fd(socket), buffers::GROUP).build();
        self.push(entry.user_data(pack(Kind::Receive, key)), None);
    }

    /// Sends `bytes` (not empty); a slot sends one buffer at a time.
    pub fn send(&mut self, key: Key, socket: RawFd, bytes: Vec<u8>) {
        self.sends.begin(key.slot, bytes);
        self.send_rest(key, socket);
    }

    /// Sends what a send left over.
    pub fn send_rest(&mut self, key: Key, socket: RawFd) {
        let rest = self.sends.rest(key.slot);
        let length = rest.len().min(SEND_MAX_BYTES) as u32;
        let entry = opcode::Send::new(Fd(socket), rest.as_ptr(), length).flags(libc::MSG_NOSIGNAL).build();
        self.push(entry.user_data(pack(Kind::Send, key)), None);
    }

    /// Accounts for the completion of a send.
    pub fn sent(&mut self, completion: &Completion) -> Sent {
        self.sends.completed(completion.key.slot, completion.result)
    }

    /// Drops what a send left over.
    pub fn forget_send(&mut self, key: Key) {
        self.sends.forget(key.slot);
    }

    /// Asks for the end of an accept. Its last completion comes unless the cancellation fails: it may just miss.
    pub fn cancel_accept(&mut self, key: Key) {
        let entry = opcode::AsyncCancel::new(pack(Kind::Accept, key)).build();
        self.push(entry.user_data(pack(Kind::CancelAccept, key)), None);
    }

    /// Asks for the end of a receive. Its last completion comes unless the cancellation fails: it may just miss.
    pub fn cancel_receive(&mut self, key: Key) {
        let entry = opcode::AsyncCancel::new(pack(Kind::Receive, key)).build();
        self.push(entry.user_data(pack(Kind::CancelReceive, key)), None);
    }

    /// Writes `data` at `offset` and, if `sync`, then syncs the file's data; the end comes by [`Ring::pop_written`].
    pub fn write(&mut self, file: RawFd, offset: u64, data: Box<dyn Deref<Target = [u8]>>, sync: bool, token: u64) {
        let (write, sync) = self.writes.begin(file, offset, data, sync, token);
        self.push(write, sync);
    }

    /// The next write that has ended.
    pub fn pop_written(&mut self) -> Option<Written> {
        self.writes.pop_ended()
    }

    /// Whether a write is in flight.
    pub fn is_writing(&self) -> bool {
        self.writes.is_busy()
    }

    /// Lets something complete at `deadline_ms` (CLOCK_MONOTONIC) at the latest. It may also complete earlier.
    pub fn set_deadline(&mut self, deadline_ms: Option<u64>) {
        if let Some(entry) = self.timer.set(deadline_ms) {
            self.push(entry, None);
        }
    }

    /// The first `length` bytes of a receive buffer.
    pub fn bytes(&self, id: BufferId, length: usize) -> &[u8] {
        self.buffers.bytes(id, length)
    }

    /// Gives a receive buffer back; the kernel sees it after [`Ring::publish_buffers`].
    pub fn give_back(&mut self, id: BufferId) {
        self.buffers.give_back(id);
    }

    /// Shows the kernel all buffers that were given back; before a receive that lacked one is armed again.
    pub fn publish_buffers(&mut self) {
        self.buffers.publish();
    }

    /// How many receive buffers the ring has.
    pub fn buffer_count(&self) -> usize {
        self.buffers.count()
    }

    /// Submits everything, runs deferred work, and waits until at least `min_complete` completions are there.
    pub fn enter(&mut self, min_complete: u32) -> io::Result<()> {
        loop {
            self.refill();
            let is_last = self.waiting.is_empty();
            let submissions = self.io.submission().len() as u32;
            let min_complete = if is_last { min_complete } else { 0 };
            // SAFETY: no argument is passed, and what the submissions point to lives until its completion.
            let entered = unsafe {
                self.io.submitter().enter::<libc::sigset_t>(
                    submissions,
                    min_complete,
                    EnterFlags::GETEVENTS.bits(),
                    None,
                )
            };
            match entered {
                Ok(_) if is_last => return Ok(()),
                Ok(_) => {}
                // Interrupted, or completions must be collected before more fits: the caller's next turn submits the rest.
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Submits everything and waits until something has completed. Does not wait if the core is busy: it has something to go on
    /// with.
    pub fn wait(&mut self, is_busy: bool) -> io::Result<()> {
        let is_submitted = self.waiting.is_empty() && self.io.submission().is_empty();
        if is_submitted && !self.io.completion().is_empty() { Ok(()) } else { self.enter(u32::from(!is_busy)) }
    }

    /// Takes the completions that are there and appends those of sockets to `into`. True if another thread has woken the ring.
    pub fn collect(&mut self, into: &mut Vec<Completion>) -> bool {
        let (mut was_woken, mut rests) = (false, Vec::new());
        for entry in self.io.completion() {
            let (kind, key) = unpack(entry.user_data());
            let completion = Completion { kind, key, result: entry.result(), flags: entry.flags() };
            if !completion.has_more() {
                self.in_flight -= 1;
            }
            match kind {
                Kind::Accept | Kind::Receive | Kind::Send | Kind::CancelAccept | Kind::CancelReceive => {
                    into.push(completion);
                }
                Kind::Timer => self.timer.fired(),
                Kind::Wake => was_woken = true,
                Kind::Write | Kind::Sync => rests.extend(self.writes.completed(kind, key, completion.result)),
                Kind::TimerUpdate | Kind::CancelAll => {}
            }
        }
        for (write, sync) in rests {
            self.push(write, sync);
        }
        if was_woken {
            self.wakes.woken();
            let read = self.wakes.read();
            self.push(read, None);
        }
        was_woken
    }

    fn push(&mut self, entry: squeue::Entry, linked: Option<squeue::Entry>) {
        self.in_flight += 1 + usize::from(linked.is_some());
        self.waiting.push_back((entry, linked));
        self.refill();
    }

    fn refill(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut submissions = self.io.submission();
        while let Some((entry, linked)) = self.waiting.front() {
            if submissions.capacity() - submissions.len() < 1 + usize::from(linked.is_some()) {
                return;
            }
            // SAFETY: what the entries point to is owned by the ring and kept until their completion.
            let is_pushed = unsafe {
                submissions.push(entry).is_ok() && linked.as_ref().is_none_or(|entry| submissions.push(entry).is_ok())
            };
            assert!(is_pushed, "there was room");
            self.waiting.pop_front();
        }
    }

    /// Cancels everything and waits for the ends, for `at_most`. False if something is still in flight.
    fn quiesce(&mut self, at_most: Duration) -> bool {
        let began = Instant::now();
        let wait = Timespec::new().nsec(50_000_000);
        let mut ended = Vec::new();
        while self.in_flight > 0 && began.elapsed() < at_most {
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::any().all()).build();
            self.push(cancel.user_data(pack(Kind::CancelAll, Key::default())), None);
            self.refill();
            let in_flight = self.in_flight;
            let _ = self.io.submitter().submit_with_args(in_flight, &SubmitArgs::new().timespec(&wait));
            self.take_ends(&mut ended);
        }
        self.in_flight == 0
    }

    /// As [`Ring::collect`], but starts nothing anew and closes what was accepted.
    fn take_ends(&mut self, ended: &mut Vec<Completion>) {
        for entry in self.io.completion() {
            let (kind, key) = unpack(entry.user_data());
            let completion = Completion { kind, key, result: entry.result(), flags: entry.flags() };
            self.in_flight -= usize::from(!completion.has_more());
            ended.push(completion);
        }
        for completion in ended.drain(..).filter(|c| c.kind == Kind::Accept && c.result >= 0) {
            drop(accepted(&completion));
        }
    }
}

/// The connection that an accept completed with.
pub fn accepted(completion: &Completion) -> io::Result<OwnedFd> {
    debug_assert_eq!(completion.kind, Kind::Accept);
    if completion.result < 0 {
        return Err(io::Error::from_raw_os_error(-completion.result));
    }
    // SAFETY: the kernel made the descriptor for this completion, and each completion is taken once.
    Ok(unsafe { OwnedFd::from_raw_fd(completion.result) })
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.quiesce(Duration::from_secs(1)) {
            // The kernel may still touch the memory of what is in flight: it must outlive the process rather than be reused.
            std::mem::forget(std::mem::take(&mut self.sends));
            std::mem::forget(std::mem::take(&mut self.writes));
            std::mem::forget(std::mem::take(&mut self.timer));
            self.wakes.leak();
            self.buffers.leak();
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME))
}

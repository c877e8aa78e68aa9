//! Wakes from other threads: an eventfd that the ring reads, written once for any number of wakes in between.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{opcode, squeue, types};

use super::token::{Key, Kind, pack};

/// Wakes one core's ring from any thread. Wakes that come before the ring has seen the first one are one wake.
///
/// What the wake announces (mail in a queue, a flag) must be written before [`Waker::wake`]; the ring's owner looks for it
/// after each wake.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    eventfd: OwnedFd,
    /// A wake is on its way that the ring has not seen.
    is_pending: AtomicBool,
}

impl Waker {
    /// A waker for a ring to be made; fails if the process is out of descriptors.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(Shared { eventfd: eventfd()?, is_pending: AtomicBool::new(false) })))
    }

    /// Lets the ring complete something soon.
    pub fn wake(&self) {
        if !self.0.is_pending.swap(true, Ordering::AcqRel) {
            notify(self.0.eventfd.as_raw_fd());
        }
    }

    fn clear(&self) {
        self.0.is_pending.swap(false, Ordering::AcqRel);
    }
}

/// The reading end, in the ring.
pub(super) struct WakeReader {
    waker: Waker,
    /// Boxed: the kernel writes it, wherever the ring has moved meanwhile.
    count: Box<u64>,
}

impl WakeReader {
    pub(super) fn new(waker: Waker) -> WakeReader {
        WakeReader { waker, count: Box::new(0) }
    }

    /// The submission that completes at the next wake.
    pub(super) fn read(&mut self) -> squeue::Entry {
        let into: *mut u64 = &mut *self.count;
        opcode::Read::new(types::Fd(self.waker.0.eventfd.as_raw_fd()), into.cast(), size_of::<u64>() as u32)
            .build()
            .user_data(pack(Kind::Wake, Key::default()))
    }

    /// Keeps the memory that the kernel may still write for ever.
    pub(super) fn leak(&mut self) {
        Box::leak(std::mem::take(&mut self.count));
    }

    /// The read has completed: later wakes count anew.
    pub(super) fn woken(&self) {
        self.waker.clear();
    }
}

/// A blocking eventfd: a read of it waits on a ring.
fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds one to an eventfd.
fn notify(eventfd: RawFd) {
    let one = 1u64;
    // SAFETY: eight bytes of a live value are read.
    let written = unsafe { libc::write(eventfd, (&raw const one).cast(), size_of::<u64>()) };
    debug_assert_eq!(written, size_of::<u64>() as isize, "an eventfd takes a count");
}

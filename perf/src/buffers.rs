//! The buffers that the kernel receives into: one provided-buffer ring, shared by all connections of an engine.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{IoUring, types::BufRingEntry};

const PAGE_BYTES: usize = 4096;

/// A ring of `count` buffers, registered as group 0. It must outlive the io_uring that it is registered with.
pub(crate) struct Buffers {
    entries: *mut BufRingEntry,
    layout: Layout,
    memory: Vec<u8>,
    buffer_bytes: usize,
    count: u16,
    tail: u16,
}

impl Buffers {
    /// `count` is a power of two, at most 32,768.
    pub(crate) fn register(ring: &IoUring, count: u16, buffer_bytes: usize) -> std::io::Result<Buffers> {
        let layout = Layout::from_size_align(usize::from(count) * size_of::<BufRingEntry>(), PAGE_BYTES)
            .map_err(std::io::Error::other)?;
        // SAFETY: the layout is not empty: a count of zero is refused by the kernel below, and clap by then.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        assert!(!entries.is_null(), "no memory for the buffer ring");
        let memory = vec![0; usize::from(count) * buffer_bytes];
        let mut buffers = Buffers { entries, layout, memory, buffer_bytes, count, tail: 0 };
        // SAFETY: the entries are page-aligned, `count` long, and live until after the ring (field order of `Engine`).
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, count, 0, 0) }?;
        for id in 0..count {
            buffers.give_back(id);
        }
        buffers.publish();
        Ok(buffers)
    }

    /// What was received into buffer `id`.
    pub(crate) fn received(&self, id: u16, bytes: usize) -> &[u8] {
        let start = usize::from(id) * self.buffer_bytes;
        &self.memory[start..start + bytes]
    }

    /// Hands a buffer back; the kernel sees it after [`Buffers::publish`].
    pub(crate) fn give_back(&mut self, id: u16) {
        let slot = usize::from(self.tail & (self.count - 1));
        // SAFETY: `slot` is below `count`, and the kernel does not read a slot before the tail passes it.
        let entry = unsafe { &mut *self.entries.add(slot) };
        entry.set_addr(self.memory.as_ptr() as u64 + (usize::from(id) * self.buffer_bytes) as u64);
        entry.set_len(self.buffer_bytes as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes the buffers that were given back visible to the kernel.
    pub(crate) fn publish(&mut self) {
        // SAFETY: the tail is an aligned u16 inside the first entry, which lives as long as self.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; the io_uring is dropped before (field order of `Engine`).
        unsafe { dealloc(self.entries.cast(), self.layout) }
    }
}

//! The buffers that the kernel receives into: one ring of them per core, so that an idle connection holds none.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// The one buffer group of a ring.
pub(super) const GROUP: u16 = 0;

const PAGE_BYTES: usize = 4096;

/// One of the ring's receive buffers, which the kernel has filled and handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId(pub(super) u16);

/// A ring of receive buffers, registered with the kernel.
pub(super) struct Buffers {
    entries: *mut BufRingEntry,
    area: *mut u8,
    count: u16,
    each_bytes: usize,
    tail: u16,
    is_leaked: bool,
}

impl Buffers {
    /// `count` buffers of `each_bytes`; the count is a power of two up to 32,768.
    pub(super) fn register(ring: &IoUring, count: u16, each_bytes: usize) -> io::Result<Buffers> {
        assert!(count.is_power_of_two() && count <= 1 << 15, "a buffer ring has a power of two of buffers");
        let mut buffers = Buffers {
            entries: allocate(entries_layout(count)).cast(),
            area: allocate(area_layout(count, each_bytes)),
            count,
            each_bytes,
            tail: 0,
            is_leaked: false,
        };
        // SAFETY: `entries` is page-aligned and has room for `count` entries; it is freed only with `Buffers`, which the
        // ring drops after it has waited for what is in flight.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(buffers.entries as u64, count, GROUP, 0)?;
        }
        for id in 0..count {
            buffers.give_back(BufferId(id));
        }
        buffers.publish();
        Ok(buffers)
    }

    /// Keeps the memory that the kernel may still write for ever.
    pub(super) fn leak(&mut self) {
        self.is_leaked = true;
    }

    /// How many buffers there are.
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The first `length` bytes of a buffer that the kernel has handed over.
    pub(super) fn bytes(&self, id: BufferId, length: usize) -> &[u8] {
        assert!(id.0 < self.count && length <= self.each_bytes, "the kernel named a buffer that it was not given");
        // SAFETY: in bounds by the assertion; the kernel does not write a buffer between its completion and `give_back`,
        // which needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.area.add(usize::from(id.0) * self.each_bytes), length) }
    }

    /// Hands a buffer back; the kernel sees it after [`Buffers::publish`].
    pub(super) fn give_back(&mut self, id: BufferId) {
        assert!(id.0 < self.count, "only buffers of this ring come back");
        let index = usize::from(self.tail & (self.count - 1));
        // SAFETY: `index` is below `count`; the kernel reads an entry only when the published tail has passed it.
        unsafe {
            let entry = &mut *self.entries.add(index);
            entry.set_addr(self.area.add(usize::from(id.0) * self.each_bytes) as u64);
            entry.set_len(self.each_bytes as u32);
            entry.set_bid(id.0);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Shows the kernel all buffers given back so far.
    pub(super) fn publish(&mut self) {
        // SAFETY: the tail lies within the first entry, is aligned to two bytes, and the kernel only reads it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.is_leaked {
            return;
        }
        // SAFETY: both were allocated with these layouts, and no operation of the ring is in flight any more.
        unsafe {
            dealloc(self.entries.cast(), entries_layout(self.count));
            dealloc(self.area, area_layout(self.count, self.each_bytes));
        }
    }
}

fn entries_layout(count: u16) -> Layout {
    Layout::from_size_align(usize::from(count) * size_of::<BufRingEntry>(), PAGE_BYTES).expect("at most 512 KiB")
}

fn area_layout(count: u16, each_bytes: usize) -> Layout {
    Layout::from_size_align(usize::from(count) * each_bytes, PAGE_BYTES).expect("buffers fit the address space")
}

fn allocate(layout: Layout) -> *mut u8 {
    assert!(layout.size() > 0, "buffers have bytes");
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}

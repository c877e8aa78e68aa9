//! The clocks of the machine, for those who may look at them.

use crate::clock::Now;

/// The present moment; the monotonic side is CLOCK_MONOTONIC, the same on all cores.
pub fn now() -> Now {
    Now { monotonic_ms: clock_ms(libc::CLOCK_MONOTONIC) as u64, unix_ms: clock_ms(libc::CLOCK_REALTIME) }
}

fn clock_ms(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "Linux has both clocks");
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

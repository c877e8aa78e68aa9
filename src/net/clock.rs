//! The clocks of the machine, for those who may look at them.

use crate::clock::Now;

/// The present moment; the monotonic side is CLOCK_MONOTONIC, the same on all cores.
pub fn now() -> Now {
    now_and_us().0
}

/// The present moment, and its monotonic side in microseconds.
pub(super) fn now_and_us() -> (Now, u64) {
    let monotonic_us = monotonic_us();
    (
        Now { monotonic_ms: monotonic_us / 1_000, unix_ms: clock_us(libc::CLOCK_REALTIME).div_euclid(1_000) },
        monotonic_us,
    )
}

/// CLOCK_MONOTONIC in microseconds.
pub(super) fn monotonic_us() -> u64 {
    clock_us(libc::CLOCK_MONOTONIC).cast_unsigned()
}

fn clock_us(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "Linux has both clocks");
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

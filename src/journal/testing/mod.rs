//! A disk in memory that tears, forgets, fills up and fails, for tests and simulations.

mod disk;
mod image;

pub use disk::{Fault, MemoryDisk};

/// So many cases of a property, or as many as PROPTEST_CASES says. A failing case prints its seed.
#[cfg(test)]
pub(super) fn cases(by_default: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    proptest::test_runner::Config {
        cases: cases.unwrap_or(by_default),
        max_shrink_iters: 0,
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}

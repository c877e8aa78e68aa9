//! The group machine: requests, time and what happens to the journal, decoded from the input.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rallypoint_fuzz::group::run(data));

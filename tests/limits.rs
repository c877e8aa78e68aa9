//! Limits whose default is a constant of `limits.rs`, at the limit and one past it.

use rallypoint::config::Settings;
use rallypoint::limits::REQUEST_MAX_BYTES;
use rallypoint::wire::Frames;

#[test]
fn the_largest_frame_is_waited_for_and_a_larger_one_refused_by_its_size() {
    assert_eq!(Settings::default().request_max_bytes, REQUEST_MAX_BYTES);
    let announce = |size: usize| (u32::try_from(size).expect("32 bits")).to_be_bytes();
    let (largest, larger) = (announce(REQUEST_MAX_BYTES), announce(REQUEST_MAX_BYTES + 1));
    assert_eq!(Frames::new(&largest, REQUEST_MAX_BYTES).missing(), Ok(REQUEST_MAX_BYTES));
    assert!(Frames::new(&larger, REQUEST_MAX_BYTES).missing().is_err());
}

#[cfg(feature = "server")]
#[test]
fn the_network_has_these_limits_by_default() {
    use rallypoint::limits::SEND_STALL_MAX_MS;
    use rallypoint::net::NetworkLimits;

    let NetworkLimits { request_max_bytes, send_stall_max_ms, .. } = NetworkLimits::default();
    assert_eq!((request_max_bytes, send_stall_max_ms), (REQUEST_MAX_BYTES, SEND_STALL_MAX_MS));
}

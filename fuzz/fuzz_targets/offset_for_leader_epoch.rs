//! OffsetForLeaderEpoch requests of every version.
#![no_main]

rallypoint_fuzz::request!(offset_for_leader_epoch::OffsetForLeaderEpochRequest, OffsetForLeaderEpoch);

//! SyncGroup requests of every version.
#![no_main]

rallypoint_fuzz::request!(sync_group::SyncGroupRequest, SyncGroup);

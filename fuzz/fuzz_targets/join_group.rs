//! JoinGroup requests of every version.
#![no_main]

rallypoint_fuzz::request!(join_group::JoinGroupRequest, JoinGroup);

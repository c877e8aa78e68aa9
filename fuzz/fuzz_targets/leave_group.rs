//! LeaveGroup requests of every version.
#![no_main]

rallypoint_fuzz::request!(leave_group::LeaveGroupRequest, LeaveGroup);

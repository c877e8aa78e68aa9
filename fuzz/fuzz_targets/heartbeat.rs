//! Heartbeat requests of every version.
#![no_main]

rallypoint_fuzz::request!(heartbeat::HeartbeatRequest, Heartbeat);

//! Fetch requests of every version.
#![no_main]

rallypoint_fuzz::request!(fetch::FetchRequest, Fetch);

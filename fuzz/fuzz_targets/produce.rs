//! Produce requests of every version.
#![no_main]

rallypoint_fuzz::request!(produce::ProduceRequest, Produce);

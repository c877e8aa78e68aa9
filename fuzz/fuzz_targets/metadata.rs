//! Metadata requests of every version.
#![no_main]

rallypoint_fuzz::request!(metadata::MetadataRequest, Metadata);

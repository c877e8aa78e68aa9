//! OffsetCommit requests of every version.
#![no_main]

rallypoint_fuzz::request!(offset_commit::OffsetCommitRequest, OffsetCommit);

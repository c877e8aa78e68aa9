//! DeleteGroups requests of every version.
#![no_main]

rallypoint_fuzz::request!(delete_groups::DeleteGroupsRequest, DeleteGroups);

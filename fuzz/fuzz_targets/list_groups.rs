//! ListGroups requests of every version.
#![no_main]

rallypoint_fuzz::request!(list_groups::ListGroupsRequest, ListGroups);

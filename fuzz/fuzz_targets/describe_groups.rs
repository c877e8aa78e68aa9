//! DescribeGroups requests of every version.
#![no_main]

rallypoint_fuzz::request!(describe_groups::DescribeGroupsRequest, DescribeGroups);

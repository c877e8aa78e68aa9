//! DescribeCluster requests of every version.
#![no_main]

rallypoint_fuzz::request!(describe_cluster::DescribeClusterRequest, DescribeCluster);

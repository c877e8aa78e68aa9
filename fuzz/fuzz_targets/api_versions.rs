//! ApiVersions requests of every version.
#![no_main]

rallypoint_fuzz::request!(api_versions::ApiVersionsRequest, ApiVersions);

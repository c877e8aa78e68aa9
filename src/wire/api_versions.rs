//! ApiVersions (18), v0 to v5.
//!
//! v1 adds the throttle time. v2 is v1. v3 is flexible, the client names its software (KIP-511) and the answer names
//! features (KIP-584). v4 may name a supported feature whose lowest version is 0. v5 adds the cluster and node that the
//! client means.
//!
//! The answer has response header 0 in every version. An unknown version is answered too: with error
//! UNSUPPORTED_VERSION, the body of v0, and one entry, that of ApiVersions itself; the body of such a request is not
//! read.
//!
//! Nothing is left out.

use std::borrow::Cow;

use super::Array;
use super::schema::message;

message! {
    /// "What do you speak?"
    pub struct ApiVersionsRequest<'a> {
        client_software_name: Cow<'a, str> = 3..;
        client_software_version: Cow<'a, str> = 3..;
        cluster_id: Option<Cow<'a, str>> = 5.., null 5..;
        node_id: i32 = 5.., default -1;
    }

    /// The answer.
    pub struct ApiVersionsResponse<'a> {
        error_code: i16 = 0..;
        api_keys: Array<'a, ApiVersion> = 0..;
        throttle_time_ms: i32 = 1..;
        supported_features: Array<'a, SupportedFeatureKey<'a>> = 3.., tag 0;
        /// -1 means unknown.
        finalized_features_epoch: i64 = 3.., default -1, tag 1;
        finalized_features: Array<'a, FinalizedFeatureKey<'a>> = 3.., tag 2;
        zk_migration_ready: bool = 3.., tag 3;
    }

    /// One API and its lowest and highest version.
    pub struct ApiVersion {
        api_key: i16 = 0..;
        min_version: i16 = 0..;
        max_version: i16 = 0..;
    }

    /// A feature that the broker could have.
    pub struct SupportedFeatureKey<'a> {
        name: Cow<'a, str> = 3..;
        min_version: i16 = 3..;
        max_version: i16 = 3..;
    }

    /// A feature that the cluster has.
    pub struct FinalizedFeatureKey<'a> {
        name: Cow<'a, str> = 3..;
        max_version_level: i16 = 3..;
        min_version_level: i16 = 3..;
    }
}

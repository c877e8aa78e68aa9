//! ApiVersions: what this server speaks. Answered to every version and before anything else, so it has a way of its own
//! through dispatch. No authorisation, as in Kafka.

use super::reply_frame;
use crate::errors::ErrorCode;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use crate::wire::{ApiKey, Array, Cursor, Malformed, Wire, versions};

pub(super) fn handle(
    shard: &Shard,
    version: i16,
    correlation_id: i32,
    body: &mut Cursor<'_>,
    replies: &mut Vec<u8>,
) -> Result<Verdict, Malformed> {
    let (version, error) = if ApiKey::ApiVersions.serves(version) {
        let request = ApiVersionsRequest::read(body, ApiKey::ApiVersions.version(version))?;
        (version, judge(shard, version, &request))
    } else {
        // The layout of version 0 is the one that every client can read; the body of such a request is not looked at.
        (0, ErrorCode::UNSUPPORTED_VERSION)
    };
    let api_keys: &[ApiVersion] = match error {
        ErrorCode::NONE => &shard.api_versions,
        ErrorCode::UNSUPPORTED_VERSION => &own_range(),
        _ => &[],
    };
    let response =
        ApiVersionsResponse { error_code: error.0, api_keys: Array::Items(api_keys), ..ApiVersionsResponse::default() };
    reply_frame(&shard.metrics, replies, ApiKey::ApiVersions, version, correlation_id, |writer| {
        response.write(writer, ApiKey::ApiVersions.version(version));
    });
    Ok(Verdict::Answered)
}

/// Every API that is served, with its range.
pub(in crate::shard) fn served() -> Vec<ApiVersion> {
    let served = versions::TABLE.iter().filter_map(|api| api.served.map(|range| (api.key, range)));
    let row = |(key, range): (ApiKey, versions::VersionRange)| ApiVersion {
        api_key: key.number(),
        min_version: range.first,
        max_version: range.last,
    };
    served.map(row).collect()
}

fn own_range() -> [ApiVersion; 1] {
    let range = ApiKey::ApiVersions.api().served.expect("ApiVersions is always served");
    [ApiVersion { api_key: ApiKey::ApiVersions.number(), min_version: range.first, max_version: range.last }]
}

fn judge(shard: &Shard, version: i16, request: &ApiVersionsRequest<'_>) -> ErrorCode {
    if version >= 3 {
        let (name, software_version) = (&request.client_software_name, &request.client_software_version);
        if !is_software_text(name) || !is_software_text(software_version) {
            return ErrorCode::INVALID_REQUEST;
        }
    }
    // KIP-1242: the two come together, and a client that means another node must bootstrap anew.
    match (&request.cluster_id, request.node_id) {
        (None, -1) => ErrorCode::NONE,
        (Some(_), -1) | (None, _) => ErrorCode::INVALID_REQUEST,
        (Some(cluster_id), node_id) if **cluster_id == *shard.cluster_id && node_id == shard.node_id() => {
            ErrorCode::NONE
        }
        _ => ErrorCode::REBOOTSTRAP_REQUIRED,
    }
}

/// Kafka's rule (KIP-511): letters and digits, with dots and hyphens between them.
fn is_software_text(text: &str) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_is_named_by_kafkas_rule() {
        for good in ["a", "apache-kafka-java", "4.4.0", "a.-b"] {
            assert!(is_software_text(good), "{good}");
        }
        for bad in ["", "-a", "a.", "a b", "ä", "a_b"] {
            assert!(!is_software_text(bad), "{bad}");
        }
    }
}

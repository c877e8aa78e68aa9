//! From a request frame to a reply frame: the header, the version, the body, the handler. One file per API; they alone turn
//! a view of `wire` into plain arguments of the layers that decide, and an outcome into a reply.

mod api_versions;
mod create_topics;
mod delete_groups;
mod delete_topics;
mod describe_cluster;
mod describe_groups;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod join_group;
mod leave_group;
pub(super) mod led;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;

use super::Shard;
use super::context::RequestContext;
use super::service::{ConnectionId, OVERSIZED_REPLY, Session, Verdict};
pub(super) use api_versions::served as served_apis;
pub(super) use fetch::write_parked as write_fetched;
pub(super) use join_group::write_parked as write_joined;
pub(super) use offset_commit::JudgedCommit;
pub(super) use sync_group::write_parked as write_synced;

use crate::limits::REQUEST_OF_ROWS_MAX_BYTES;
use crate::metrics::CoreMetrics;
use crate::wire::versions;
use crate::wire::{ApiKey, Cursor, FrameStart, HeaderView, Malformed, Prefix, ResponseHeader, Wire, Writer};

/// Why control is not asked for more.
const BUSY: &str = "too many changes of topics are under way";

/// Executes one request frame and appends its reply frame.
pub(super) fn request(
    shard: &mut Shard,
    connection: ConnectionId,
    session: &mut Session,
    frame: &[u8],
    replies: &mut Vec<u8>,
) -> Verdict {
    shard.pin();
    let (api, version) = match admitted(frame) {
        Ok(admitted) => admitted,
        Err(reason) => return Verdict::Close(reason.into()),
    };
    shard.metrics.api_requests.count(api.number());
    if frame.len() > largest(api) {
        let (name, bytes, most) = (api.name(), frame.len(), largest(api));
        return Verdict::Close(format!("oversized {name}: {bytes} bytes, {most} allowed").into());
    }
    match execute(shard, connection, session, api, version, frame, replies) {
        Ok(verdict) => verdict,
        Err(malformed) => {
            shard.metrics.malformed.count(malformed.what);
            Verdict::Close(format!("malformed {} v{version}: {malformed}", api.name()).into())
        }
    }
}

/// The largest request of an API. What members say of themselves and assign to each other is a few large values; everything
/// else is rows, which take their time one by one while all others of the core wait.
fn largest(api: ApiKey) -> usize {
    match api {
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Produce => usize::MAX,
        _ => REQUEST_OF_ROWS_MAX_BYTES,
    }
}

/// Appends a reply frame: the header, and what `body` writes.
pub(super) fn reply_frame(
    metrics: &CoreMetrics,
    replies: &mut Vec<u8>,
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    body: impl FnOnce(&mut Writer<'_>),
) {
    let mut writer = Writer::new(replies);
    let start = writer.begin_frame();
    ResponseHeader { correlation_id }.write(&mut writer, api.response_header_version(version));
    body(&mut writer);
    // Without a reply the connection is closed.
    let _is_whole = end_reply(metrics, writer, start);
}

/// False if the reply is too large, and gone.
fn end_reply(metrics: &CoreMetrics, mut writer: Writer<'_>, start: FrameStart) -> bool {
    if writer.is_full() {
        writer.abandon_frame(start);
        return false;
    }
    writer.end_frame(start);
    if writer.first_error() != 0 {
        metrics.api_errors.count(writer.first_error());
    }
    true
}

/// The API and version of a frame, if they are served. As in Kafka there is no error answer to others: which layout should
/// it have? Only ApiVersions is let through in every version, so that a client of any age can find out.
fn admitted(frame: &[u8]) -> Result<(ApiKey, i16), String> {
    let prefix = Prefix::peek(frame).map_err(|malformed| format!("malformed header: {malformed}"))?;
    let version = prefix.api_version();
    match ApiKey::from_number(prefix.api_key()) {
        Some(api) if api.serves(version) || api == ApiKey::ApiVersions => Ok((api, version)),
        _ => Err(format!("unsupported {} (key {}) v{version}", versions::name(prefix.api_key()), prefix.api_key())),
    }
}

fn execute(
    shard: &mut Shard,
    connection: ConnectionId,
    session: &mut Session,
    api: ApiKey,
    version: i16,
    frame: &[u8],
    replies: &mut Vec<u8>,
) -> Result<Verdict, Malformed> {
    let mut body = Cursor::new(frame);
    let header = HeaderView::read(&mut body, api.request_header_version(version))?;
    let correlation_id = header.prefix.correlation_id();
    if api == ApiKey::ApiVersions {
        return api_versions::handle(shard, version, correlation_id, &mut body, replies);
    }
    let context = RequestContext { connection, session, header, version: api.version(version), now: shard.now };
    let mut writer = Writer::new(replies);
    let start = writer.begin_frame();
    ResponseHeader { correlation_id }.write(&mut writer, api.response_header_version(version));
    let body_start = writer.position();
    let verdict = handle(shard, api, &context, &mut body, &mut writer);
    match verdict {
        // No answer has an empty body: there is none then (Produce with acks 0).
        Ok(Verdict::Answered) if writer.position() == body_start => writer.abandon_frame(start),
        Ok(Verdict::Answered | Verdict::Durable(_)) => {
            if !end_reply(&shard.metrics, writer, start) {
                return Ok(Verdict::Close(OVERSIZED_REPLY.into()));
            }
        }
        Ok(Verdict::Parked | Verdict::Close(_)) | Err(_) => writer.abandon_frame(start),
    }
    verdict
}

macro_rules! handlers {
    ($shard:ident, $context:ident, $body:ident, $reply:ident, $api:ident: $($key:ident => $module:ident),* $(,)?) => {
        match $api {
            $(ApiKey::$key => {
                let request = Wire::read($body, $context.version)?;
                Ok($module::handle($shard, $context, request, $reply))
            })*
            _ => Ok(Verdict::Close(format!("unsupported {}", $api.name()).into())),
        }
    };
}

fn handle(
    shard: &mut Shard,
    api: ApiKey,
    context: &RequestContext<'_>,
    body: &mut Cursor<'_>,
    reply: &mut Writer<'_>,
) -> Result<Verdict, Malformed> {
    handlers! { shard, context, body, reply, api:
        Produce => produce,
        Fetch => fetch,
        ListOffsets => list_offsets,
        Metadata => metadata,
        OffsetCommit => offset_commit,
        OffsetFetch => offset_fetch,
        FindCoordinator => find_coordinator,
        JoinGroup => join_group,
        Heartbeat => heartbeat,
        LeaveGroup => leave_group,
        SyncGroup => sync_group,
        DescribeGroups => describe_groups,
        ListGroups => list_groups,
        CreateTopics => create_topics,
        DeleteTopics => delete_topics,
        OffsetForLeaderEpoch => offset_for_leader_epoch,
        DeleteGroups => delete_groups,
        OffsetDelete => offset_delete,
        DescribeCluster => describe_cluster,
    }
}

//! DescribeCluster: the nodes, as Metadata has them. Needs no right, but the authorised operations are told only to who may
//! describe the cluster.

use super::RequestContext;
use crate::auth::{Operation, Resource};
use crate::errors::ErrorCode;
use crate::leadership::Endpoint;
use crate::shard::Shard;
use crate::shard::service::Verdict;
use crate::wire::array::Rows;
use crate::wire::describe_cluster::{DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse};
use crate::wire::{Array, Wire, Writer};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;
/// In place of operations that were not asked for.
const NOT_ASKED: i32 = i32::MIN;

pub(super) fn handle(
    shard: &mut Shard,
    context: &RequestContext<'_>,
    request: DescribeClusterRequest,
    reply: &mut Writer<'_>,
) -> Verdict {
    let refusal = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some((ErrorCode::MISMATCHED_ENDPOINT_TYPE, "this is a broker, not a controller")),
        _ => Some((ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, "neither brokers nor controllers")),
    };
    if let Some((error, message)) = refusal {
        let (error_code, error_message) = (error.0, Some(message.into()));
        let endpoint_type = request.endpoint_type;
        DescribeClusterResponse { error_code, error_message, endpoint_type, ..Default::default() }
            .write(reply, context.version);
        return Verdict::Answered;
    }
    let table = shard.table();
    let listener = usize::from(context.session.listener.0);
    let reachable = || table.nodes.iter().filter_map(|node| Some((node.id, node.endpoints.get(listener)?.as_ref()?)));
    let broker = |(broker_id, endpoint): (i32, &Endpoint), rows: &mut Rows<'_, '_>| {
        let (host, port) = (endpoint.host.as_str().into(), endpoint.port.into());
        rows.push(DescribeClusterBroker { broker_id, host, port, ..Default::default() });
    };
    let response = DescribeClusterResponse {
        cluster_id: (&*shard.cluster_id).into(),
        controller_id: shard.settings.node_id,
        brokers: Array::Each {
            len: reachable().count(),
            each: &|rows| reachable().for_each(|node| broker(node, rows)),
        },
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            authorized_operations(shard, context)
        } else {
            NOT_ASKED
        },
        ..Default::default()
    };
    response.write(reply, context.version);
    Verdict::Answered
}

fn authorized_operations(shard: &Shard, context: &RequestContext<'_>) -> i32 {
    if shard.allows(context, Operation::Describe, Resource::Cluster) {
        shard.authorizer.authorized_operations(context.subject(), Resource::Cluster)
    } else {
        0
    }
}

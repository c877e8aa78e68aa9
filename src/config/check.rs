//! Values that are each allowed but do not fit together; Kafka refuses to start with them, and so do we.

use super::load::Values;
use super::origin::{Origin, Problem};

/// `(lower, upper)`: the first may not be above the second.
const ORDERED: &[(&str, &str)] = &[
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
    ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ("group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"),
    ("group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    ("group.streams.min.assignment.interval.ms", "group.streams.assignment.interval.ms"),
    ("group.streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
];

/// `(lower, upper)`: the first must be below the second.
const STRICTLY_ORDERED: &[(&str, &str)] = &[
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms"),
];

/// Pushes a problem for each rule that does not hold.
pub(super) fn check(values: &Values, problems: &mut Vec<Problem>) {
    for &(lower, upper) in ORDERED {
        if values.long(lower) > values.long(upper) {
            problems.push(disorder(values, lower, upper, "must not be above"));
        }
    }
    for &(lower, upper) in STRICTLY_ORDERED {
        if values.long(lower) >= values.long(upper) {
            problems.push(disorder(values, lower, upper, "must be below"));
        }
    }
    const PROTOCOLS: &str = "group.coordinator.rebalance.protocols";
    if !values.list(PROTOCOLS).iter().any(|protocol| protocol == "classic") {
        let message = format!("{PROTOCOLS}: classic cannot be left out");
        problems.push(Problem { origin: values.origin(PROTOCOLS), message });
    }
    const QUEUED: &str = "queued.max.request.bytes";
    const LARGEST: &str = "socket.request.max.bytes";
    if values.long(QUEUED) > 0 && values.long(QUEUED) < values.long(LARGEST) {
        problems.push(disorder(values, LARGEST, QUEUED, "must not be above"));
    }
    let last_node_id = values.long("node.id") + values.long("rallypoint.cores") - 1;
    if last_node_id > i64::from(i32::MAX) {
        let message = format!("node.id: the last core's would be {last_node_id}, above {}", i32::MAX);
        problems.push(Problem { origin: values.origin("node.id"), message });
    }
}

/// Blames whichever of the two somebody wrote; the upper one if both were.
fn disorder(values: &Values, lower: &str, upper: &str, rule: &str) -> Problem {
    let origin = match values.origin(upper) {
        Origin::Default => values.origin(lower),
        written => written,
    };
    let message = format!("{lower} ({}) {rule} {upper} ({})", values.long(lower), values.long(upper));
    Problem { origin, message }
}

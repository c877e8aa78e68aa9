//! Rows of groups and committed offsets.

use super::{Key, Kind, MAX, int, key, list, long};

pub(super) static KEYS: &[Key] = &[
    // Classic groups.
    int(
        "group.min.session.timeout.ms",
        "6000",
        i32::MIN,
        MAX,
        "The least session time-out that JoinGroup may ask for.",
    )
    .sets(|settings, value| settings.group.min_session_timeout_ms = value.int()),
    int(
        "group.max.session.timeout.ms",
        "1800000",
        i32::MIN,
        MAX,
        "The greatest session time-out that JoinGroup may ask for.",
    )
    .sets(|settings, value| settings.group.max_session_timeout_ms = value.int()),
    int(
        "group.initial.rebalance.delay.ms",
        "3000",
        0,
        MAX,
        "How long the first rebalance of an empty group waits for more members.",
    )
    .sets(|settings, value| settings.group.initial_rebalance_delay_ms = value.int()),
    int("group.max.size", "2147483647", 1, MAX, "Most members of a classic group.")
        .sets(|settings, value| settings.group.max_size = value.int()),
    // Committed offsets.
    int("offset.metadata.max.bytes", "4096", 0, MAX, "Longest metadata of a committed offset, in UTF-16 code units.")
        .sets(|settings, value| settings.offsets.metadata_max_bytes = value.int()),
    int("offsets.retention.minutes", "10080", 1, MAX, "How long the offsets of a group without members are kept.")
        .sets(|settings, value| settings.offsets.retention_minutes = value.int()),
    long(
        "offsets.retention.check.interval.ms",
        "600000",
        1,
        i64::MAX,
        "How often offsets and groups that have expired are looked for.",
    )
    .sets(|settings, value| settings.offsets.retention_check_interval_ms = value.long()),
    int("offsets.commit.timeout.ms", "5000", 1, MAX, "Kafka: how long an answer waits for replication."),
    int("offsets.load.buffer.size", "5242880", 1, MAX, "Kafka: bytes read at once when a partition is loaded."),
    // What all groups share.
    key(
        "group.coordinator.rebalance.protocols",
        Kind::Words(&["classic", "consumer", "share", "streams"]),
        "classic,consumer,streams",
        "The group protocols that are served; classic cannot be left out.",
    ),
    int("group.coordinator.threads", "4", 1, MAX, "Kafka: threads of the coordinator; here cores are."),
    int("group.coordinator.background.threads", "2", 1, MAX, "Kafka: threads that resolve regular expressions."),
    int(
        "group.coordinator.append.linger.ms",
        "-1",
        -1,
        MAX,
        "Kafka: how long records wait for company before a write.",
    ),
    int(
        "group.coordinator.cached.buffer.max.bytes",
        "1048588",
        524_288,
        MAX,
        "Kafka: the largest buffer kept for reuse.",
    ),
    // Consumer groups (KIP-848).
    int("group.consumer.session.timeout.ms", "45000", 1, MAX, "Session time-out of members of consumer groups."),
    int("group.consumer.min.session.timeout.ms", "45000", 1, MAX, "The least session time-out of a consumer group."),
    int("group.consumer.max.session.timeout.ms", "60000", 1, MAX, "The greatest session time-out of a consumer group."),
    int("group.consumer.heartbeat.interval.ms", "5000", 1, MAX, "Heartbeat interval that members are told."),
    int(
        "group.consumer.min.heartbeat.interval.ms",
        "5000",
        1,
        MAX,
        "The least heartbeat interval of a consumer group.",
    ),
    int(
        "group.consumer.max.heartbeat.interval.ms",
        "15000",
        1,
        MAX,
        "The greatest heartbeat interval of a consumer group.",
    ),
    int(
        "group.consumer.assignment.interval.ms",
        "1000",
        0,
        MAX,
        "Least time between two assignments of a consumer group.",
    ),
    int("group.consumer.min.assignment.interval.ms", "0", 0, MAX, "The least assignment interval of a consumer group."),
    int(
        "group.consumer.max.assignment.interval.ms",
        "15000",
        0,
        MAX,
        "The greatest assignment interval of a consumer group.",
    ),
    int("group.consumer.max.size", "2147483647", 1, MAX, "Most members of a consumer group."),
    list("group.consumer.assignors", "uniform,range", "Assignors of consumer groups; the first is the default."),
    key(
        "group.consumer.migration.policy",
        Kind::Word(&["bidirectional", "upgrade", "downgrade", "disabled"]),
        "bidirectional",
        "Which way a group may change between the classic and the consumer protocol.",
    ),
    int(
        "group.consumer.regex.refresh.interval.ms",
        "600000",
        10_000,
        MAX,
        "How often the topics of a regular expression are looked up again.",
    ),
    // Share groups.
    int("group.share.session.timeout.ms", "45000", 1, MAX, "Session time-out of members of share groups."),
    int("group.share.min.session.timeout.ms", "45000", 1, MAX, "The least session time-out of a share group."),
    int("group.share.max.session.timeout.ms", "60000", 1, MAX, "The greatest session time-out of a share group."),
    int("group.share.heartbeat.interval.ms", "5000", 1, MAX, "Heartbeat interval that members are told."),
    int("group.share.min.heartbeat.interval.ms", "5000", 1, MAX, "The least heartbeat interval of a share group."),
    int("group.share.max.heartbeat.interval.ms", "15000", 1, MAX, "The greatest heartbeat interval of a share group."),
    int("group.share.assignment.interval.ms", "1000", 0, MAX, "Least time between two assignments of a share group."),
    int("group.share.min.assignment.interval.ms", "0", 0, MAX, "The least assignment interval of a share group."),
    int(
        "group.share.max.assignment.interval.ms",
        "15000",
        0,
        MAX,
        "The greatest assignment interval of a share group.",
    ),
    int("group.share.max.size", "200", 1, 1_000, "Most members of a share group."),
    int("group.share.record.lock.duration.ms", "30000", 1_000, 3_600_000, "How long a record is locked to a member."),
    int("group.share.min.record.lock.duration.ms", "15000", 1_000, 30_000, "The least lock duration of a share group."),
    int(
        "group.share.max.record.lock.duration.ms",
        "60000",
        30_000,
        3_600_000,
        "The greatest lock duration of a share group.",
    ),
    int("group.share.delivery.count.limit", "5", 2, 10, "How often a record is delivered at most."),
    int("group.share.partition.max.record.locks", "2000", 100, 10_000, "Most locked records of a partition."),
    // Streams groups (KIP-1071).
    int("group.streams.session.timeout.ms", "45000", 1, MAX, "Session time-out of members of streams groups."),
    int("group.streams.min.session.timeout.ms", "45000", 1, MAX, "The least session time-out of a streams group."),
    int("group.streams.max.session.timeout.ms", "60000", 1, MAX, "The greatest session time-out of a streams group."),
    int("group.streams.heartbeat.interval.ms", "5000", 1, MAX, "Heartbeat interval that members are told."),
    int("group.streams.min.heartbeat.interval.ms", "5000", 1, MAX, "The least heartbeat interval of a streams group."),
    int(
        "group.streams.max.heartbeat.interval.ms",
        "15000",
        1,
        MAX,
        "The greatest heartbeat interval of a streams group.",
    ),
    int(
        "group.streams.assignment.interval.ms",
        "1000",
        0,
        MAX,
        "Least time between two assignments of a streams group.",
    ),
    int("group.streams.min.assignment.interval.ms", "0", 0, MAX, "The least assignment interval of a streams group."),
    int(
        "group.streams.max.assignment.interval.ms",
        "15000",
        0,
        MAX,
        "The greatest assignment interval of a streams group.",
    ),
    int(
        "group.streams.initial.rebalance.delay.ms",
        "3000",
        0,
        MAX,
        "How long the first assignment of an empty streams group waits for more members.",
    ),
    int("group.streams.max.size", "2147483647", 1, MAX, "Most members of a streams group."),
    int("group.streams.num.standby.replicas", "0", 0, MAX, "Standby copies of each task."),
    int("group.streams.max.standby.replicas", "2", 0, MAX, "Most standby copies that a group may ask for."),
];

//! Rows of everything but groups: listeners, limits of connections, topics.

use std::path::PathBuf;

use super::{Key, Kind, MAX, int, key, list, long, short};
use crate::journal::store::Durability;
use crate::limits::{CORES_MAX, PARTITIONS_MAX, QUEUED_REQUESTS_MAX_BYTES, RECORDS_PER_PARTITION_MAX};

const PARTITIONS: i32 = PARTITIONS_MAX as i32;

pub(super) static KEYS: &[Key] = &[
    // Who this server is.
    int("node.id", "1", 0, MAX, "The node id of core 0; core i is the node with this id plus i.")
        .alias("broker.id")
        .composed(),
    int("rallypoint.cores", "1", 1, CORES_MAX, "How many cores serve; each is a Kafka node of its own.")
        .flag("--cores N")
        .sets(|settings, value| settings.cores = value.size()),
    list(
        "log.dirs",
        "./rallypoint-data",
        "The directory of the server's state; made if missing. Of several, only the first is used.",
    )
    .alias("log.dir")
    .flag("--data-dir DIR")
    .sets(|settings, value| settings.data_dir = PathBuf::from(&value.list()[0])),
    // Where it listens.
    list(
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "NAME://HOST:PORT of each listener. An empty HOST is 0.0.0.0. CONTROLLER is ignored.",
    )
    .flag("--listen [NAME=]HOST:PORT")
    .composed(),
    key(
        "advertised.listeners",
        Kind::List { may_be_empty: true },
        "",
        "NAME://HOST:PORT that clients are told; a listener that is not named tells them where it binds.",
    )
    .flag("--advertise HOST")
    .composed(),
    list(
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "NAME:PROTOCOL for each listener. Only PLAINTEXT is built; a listener of another protocol stops the start.",
    )
    .composed(),
    key(
        "controller.listener.names",
        Kind::List { may_be_empty: true },
        "CONTROLLER",
        "Listeners that are ignored, since there is no controller process here.",
    )
    .composed(),
    int(
        "rallypoint.core.port.stride",
        "",
        1,
        65_535,
        "Distance of the cores' own ports; unset: the smallest that leaves all ports distinct.",
    )
    .sets(|settings, value| settings.core_port_stride = u16::try_from(value.long()).ok()),
    key("rallypoint.metrics.listen", Kind::Text, "", "HOST:PORT where metrics are served over HTTP; unset: nowhere.")
        .flag("--metrics HOST:PORT")
        .composed(),
    // Connections.
    int(
        "socket.request.max.bytes",
        "104857600",
        1,
        MAX,
        "The largest request frame in bytes; above it, the connection closes.",
    )
    .sets(|settings, value| settings.request_max_bytes = value.size()),
    long(
        "queued.max.request.bytes",
        "-1",
        -1,
        i64::MAX,
        "Most bytes of requests that have come and are not executed, large ones that are under way above all, over all \
         connections; above it, the connection that has most of them is closed. At least two of the largest requests for each core. -1: 1 GiB.",
    )
    .sets(|settings, value| {
        let bytes = usize::try_from(value.long()).ok().filter(|&bytes| bytes > 0);
        settings.queued_requests_max_bytes = bytes.unwrap_or(QUEUED_REQUESTS_MAX_BYTES);
    }),
    int("max.connections", "2147483647", 0, MAX, "Most connections at once, over all cores and listeners.")
        .sets(|settings, value| settings.max_connections = value.size()),
    int("max.connections.per.ip", "2147483647", 1, MAX, "Most connections at once from one address, over all cores.")
        .sets(|settings, value| settings.max_connections_per_ip = value.size()),
    long(
        "connections.max.idle.ms",
        "600000",
        i64::MIN,
        i64::MAX,
        "A connection without a request for this long is closed; negative: never.",
    )
    .sets(|settings, value| settings.connections_max_idle_ms = value.long()),
    key(
        "rallypoint.journal.mode",
        Kind::Word(&["fsync", "os", "none", "memory"]),
        "fsync",
        "When a commit is acknowledged: fsync (on disk), os (the system has it), none (at once, written soon after), memory \
         (kept nowhere).",
    )
    .sets(|settings, value| settings.journal_mode = Durability::of_name(value.text())),
    int(
        "rallypoint.journal.segment.bytes",
        "16777216",
        65_536,
        1 << 30,
        "Size of the files that the journal is written to, for each core; snapshots keep it at about five of them.",
    )
    .sets(|settings, value| settings.journal_segment_bytes = value.size() as u64),
    // Topics.
    key(
        "rallypoint.topics",
        Kind::List { may_be_empty: true },
        "",
        "NAME or NAME:PARTITIONS of topics that exist from the start on.",
    )
    .flag("--topic NAME[:PARTITIONS]")
    .composed(),
    long(
        "rallypoint.topic.records",
        "1000",
        0,
        RECORDS_PER_PARTITION_MAX,
        "How many generated records each partition of a topic holds.",
    )
    .sets(|settings, value| settings.records_per_partition = value.long()),
    key(
        "auto.create.topics.enable",
        Kind::Boolean,
        "true",
        "Whether asking for the metadata of a missing topic creates it, if the client allows it too.",
    )
    .sets(|settings, value| settings.auto_create_topics = value.boolean()),
    key("delete.topic.enable", Kind::Boolean, "true", "Whether DeleteTopics is allowed.")
        .sets(|settings, value| settings.delete_topics = value.boolean()),
    int("num.partitions", "1", 1, PARTITIONS, "Partitions of a topic that is created without a number.")
        .sets(|settings, value| settings.num_partitions = value.int()),
    int("default.replication.factor", "1", 1, 32_767, "Replication factor of a topic that is created without one.")
        .sets(|settings, value| settings.default_replication_factor = value.short()),
    int(
        "offsets.topic.num.partitions",
        "50",
        1,
        PARTITIONS,
        "Partitions of the offsets topic: what groups are spread over.",
    )
    .sets(|settings, value| settings.offsets_topic.partitions = value.int()),
    short(
        "offsets.topic.replication.factor",
        "1",
        1,
        i16::MAX,
        "Above the number of nodes the offsets topic is not created, as in Kafka (whose default is 3).",
    )
    .sets(|settings, value| settings.offsets_topic.replication_factor = value.short()),
    int(
        "offsets.topic.segment.bytes",
        "104857600",
        1,
        MAX,
        "Nothing here; Kafka 4.4 cannot create its offsets topic below 1048576.",
    ),
    int("transaction.state.log.num.partitions", "50", 1, PARTITIONS, "Partitions of the transactions topic.")
        .sets(|settings, value| settings.transaction_topic.partitions = value.int()),
    short(
        "transaction.state.log.replication.factor",
        "1",
        1,
        i16::MAX,
        "Above the number of nodes the transactions topic is not created, as in Kafka (whose default is 3).",
    )
    .sets(|settings, value| settings.transaction_topic.replication_factor = value.short()),
    int("share.coordinator.state.topic.num.partitions", "50", 1, PARTITIONS, "Partitions of the share state topic.")
        .sets(|settings, value| settings.share_state_topic.partitions = value.int()),
    short(
        "share.coordinator.state.topic.replication.factor",
        "1",
        1,
        i16::MAX,
        "Above the number of nodes the share state topic is not created, as in Kafka (whose default is 3).",
    )
    .sets(|settings, value| settings.share_state_topic.replication_factor = value.short()),
];

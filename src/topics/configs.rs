//! The configs that a topic may have: Kafka 4.4's keys with their defaults and what each accepts, and one of our own.
//! A coordinator obeys none of Kafka's; they are kept and shown, so that tools that set and read them work.

use super::Topic;
use crate::limits::RECORDS_PER_PARTITION_MAX;

/// Our own key: how many records each partition of the topic seems to hold.
pub const RECORDS_KEY: &str = "rallypoint.records";

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// As Kafka spells it.
    pub name: &'static str,
    /// The value of a topic that does not set it.
    pub default: &'static str,
    /// What it accepts.
    pub kind: ConfigKind,
}

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigKind {
    /// `true` or `false`, in any case.
    Boolean,
    /// A 32-bit number between both, inclusive.
    Int(i32, i32),
    /// A 64-bit number between both, inclusive.
    Long(i64, i64),
    /// A fraction between 0 and 1.
    Ratio,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words, by comma; may be empty.
    Words(&'static [&'static str]),
    /// `*`, or pairs of partition and broker.
    Replicas,
    /// 1 to 9, or -1.
    GzipLevel,
    /// `false`, because the feature is not there.
    OnlyFalse,
}

use ConfigKind::*;

const fn key(name: &'static str, default: &'static str, kind: ConfigKind) -> ConfigKey {
    ConfigKey { name, default, kind }
}

const MAX: &str = "9223372036854775807";
const COUNT: ConfigKind = Long(0, i64::MAX);
const POSITIVE: ConfigKind = Long(1, i64::MAX);

/// All keys, in the order of their names.
pub const KEYS: &[ConfigKey] = &[
    key("cleanup.policy", "delete", Words(&["compact", "delete"])),
    key("compression.gzip.level", "-1", GzipLevel),
    key("compression.lz4.level", "9", Int(1, 17)),
    key("compression.type", "producer", Word(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"])),
    key("compression.zstd.level", "3", Int(-131_072, 22)),
    key("delete.retention.ms", "86400000", COUNT),
    key("errors.deadletterqueue.group.enable", "false", Boolean),
    key("file.delete.delay.ms", "60000", COUNT),
    key("flush.messages", MAX, POSITIVE),
    key("flush.ms", MAX, COUNT),
    key("follower.replication.throttled.replicas", "", Replicas),
    key("index.interval.bytes", "4096", Int(0, i32::MAX)),
    key("leader.replication.throttled.replicas", "", Replicas),
    key("local.retention.bytes", "-2", Long(-2, i64::MAX)),
    key("local.retention.ms", "-2", Long(-2, i64::MAX)),
    key("max.compaction.lag.ms", MAX, POSITIVE),
    key("max.decompressed.message.bytes", "2147483639", Int(0, i32::MAX)),
    key("max.message.bytes", "1048588", Int(0, i32::MAX)),
    key("message.timestamp.after.max.ms", "3600000", COUNT),
    key("message.timestamp.before.max.ms", MAX, COUNT),
    key("message.timestamp.type", "CreateTime", Word(&["CreateTime", "LogAppendTime"])),
    key("min.cleanable.dirty.ratio", "0.5", Ratio),
    key("min.compaction.lag.ms", "0", COUNT),
    key("min.insync.replicas", "1", Int(1, i32::MAX)),
    key("preallocate", "false", Boolean),
    key(RECORDS_KEY, "", Long(0, RECORDS_PER_PARTITION_MAX)),
    key("remote.copy.lag.bytes", "-1", Long(-1, i64::MAX)),
    key("remote.copy.lag.ms", "0", Long(-1, i64::MAX)),
    key("remote.log.copy.disable", "false", Boolean),
    key("remote.log.delete.on.disable", "false", Boolean),
    key("remote.storage.enable", "false", OnlyFalse),
    key("retention.bytes", "-1", Long(i64::MIN, i64::MAX)),
    key("retention.ms", "604800000", Long(-1, i64::MAX)),
    key("segment.bytes", "1073741824", Int(1_048_576, i32::MAX)),
    key("segment.index.bytes", "10485760", Int(4, i32::MAX)),
    key("segment.jitter.ms", "0", COUNT),
    key("segment.ms", "604800000", POSITIVE),
    key("unclean.leader.election.enable", "false", Boolean),
];

/// A key by name.
pub fn find(name: &str) -> Option<&'static ConfigKey> {
    KEYS.binary_search_by(|key| key.name.cmp(name)).ok().map(|place| &KEYS[place])
}

/// The largest batch that a topic takes, in bytes: `max.message.bytes`.
pub fn max_message_bytes(topic: &Topic) -> usize {
    const KEY: &str = "max.message.bytes";
    let default = find(KEY).map_or("0", |key| key.default);
    let value = topic.configs.get(KEY).map_or(default, |value| value.trim());
    value.parse().expect("configs are validated before they are set")
}

/// Whether a topic may have all these configs together; a text for the client if not.
pub fn validate<'a>(configs: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<(), String> {
    let (mut min_lag_ms, mut max_lag_ms) = (0, i64::MAX);
    for (name, value) in configs {
        let key = find(name).ok_or_else(|| format!("{name} is no topic config"))?;
        let value = value.ok_or_else(|| format!("{name} may not be null"))?.trim();
        if !key.kind.accepts(value) {
            return Err(format!("{name} cannot be {value}: {}", key.kind.wants()));
        }
        match name {
            "min.compaction.lag.ms" => min_lag_ms = value.parse().unwrap_or(0),
            "max.compaction.lag.ms" => max_lag_ms = value.parse().unwrap_or(i64::MAX),
            _ => {}
        }
    }
    if min_lag_ms > max_lag_ms {
        return Err("min.compaction.lag.ms is above max.compaction.lag.ms".into());
    }
    Ok(())
}

impl ConfigKind {
    fn accepts(self, value: &str) -> bool {
        let number = || value.parse::<i64>().ok();
        match self {
            Boolean => ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word)),
            OnlyFalse => value.eq_ignore_ascii_case("false"),
            Int(low, high) => number().is_some_and(|n| (low as i64..=high as i64).contains(&n)),
            Long(low, high) => number().is_some_and(|n| (low..=high).contains(&n)),
            GzipLevel => number().is_some_and(|n| n == -1 || (1..=9).contains(&n)),
            Ratio => value.parse::<f64>().is_ok_and(|n| (0.0..=1.0).contains(&n)),
            Word(words) => words.contains(&value),
            Words(words) => value.is_empty() || value.split(',').all(|word| words.contains(&word.trim())),
            Replicas => value.is_empty() || value == "*" || value.split(',').all(|pair| is_pair(pair.trim())),
        }
    }

    fn wants(self) -> String {
        match self {
            Boolean => "true or false".into(),
            OnlyFalse => "there is no tiered storage".into(),
            Int(low, high) => format!("a number from {low} to {high}"),
            Long(low, high) => format!("a number from {low} to {high}"),
            GzipLevel => "a number from 1 to 9, or -1".into(),
            Ratio => "a number from 0 to 1".into(),
            Word(words) => format!("one of {}", words.join(", ")),
            Words(words) => format!("a list of {}", words.join(", ")),
            Replicas => "* or a list of partition:broker".into(),
        }
    }
}

fn is_pair(text: &str) -> bool {
    text.split_once(':').is_some_and(|(partition, broker)| {
        [partition, broker].iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(name: &str, value: &str) -> bool {
        validate([(name, Some(value))].into_iter()).is_ok()
    }

    #[test]
    fn keys_are_in_order_and_accept_their_defaults() {
        assert!(KEYS.is_sorted_by(|a, b| a.name < b.name));
        for key in KEYS.iter().filter(|key| key.name != RECORDS_KEY) {
            assert!(accepts(key.name, key.default), "{}", key.name);
        }
    }

    /// What a broker of Apache Kafka 4.4.0 said to each.
    #[test]
    fn values_as_kafka_takes_them() {
        for (name, good, bad) in [
            ("compression.type", &["zstd"][..], &["BAD", "ZSTD", ""][..]),
            ("retention.ms", &["-1", " 5 ", "+5"], &["-2", "5.0", "", "0x10", "soon"]),
            ("min.insync.replicas", &["7"], &["0"]),
            ("cleanup.policy", &["", "compact, delete", "delete,delete"], &["burn", "delete,burn"]),
            ("max.message.bytes", &["0"], &["-1", "2147483648"]),
            ("segment.bytes", &["1048576", "2000000"], &["13", "1048575"]),
            ("preallocate", &["TRUE"], &["yes"]),
            ("min.cleanable.dirty.ratio", &["0.3"], &["1.1", "NaN"]),
            ("message.timestamp.type", &["LogAppendTime"], &["logappendtime"]),
            ("leader.replication.throttled.replicas", &["*", "", "0:1,2:3"], &["0:1,x", ":", "1:"]),
            ("remote.storage.enable", &["false"], &["true"]),
            ("retention.bytes", &["-5"], &["9223372036854775808"]),
            ("local.retention.ms", &["100"], &["-3"]),
            ("compression.gzip.level", &["9", "-1"], &["0", "10"]),
            ("compression.lz4.level", &["17"], &["18"]),
            ("compression.zstd.level", &["-131072"], &["-200000", "23"]),
            ("flush.messages", &["1"], &["0"]),
            (RECORDS_KEY, &["0", "1000000000000"], &["-1", "1000000000001"]),
        ] {
            assert!(good.iter().all(|value| accepts(name, value)), "{name}");
            assert!(!bad.iter().any(|value| accepts(name, value)), "{name}");
        }
        for gone in ["message.format.version", "message.downconversion.enable", "no.such.key", ""] {
            assert!(!accepts(gone, "1"), "{gone}");
        }
        assert!(validate([("retention.ms", None)].into_iter()).is_err());
    }

    #[test]
    fn lags_that_exclude_each_other() {
        let both = |min, max| {
            validate([("min.compaction.lag.ms", Some(min)), ("max.compaction.lag.ms", Some(max))].into_iter()).is_ok()
        };
        assert!(both("50", "50"));
        assert!(!both("100", "50"));
    }
}

//! What the owner of the server may set of the group coordinator's behaviour.

use crate::limits::MEMBERS_PER_PIECE;

/// Kafka's `group.*` keys of the classic protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// `group.min.session.timeout.ms`, inclusive.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`, inclusive.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`, at least 1.
    pub max_size: i32,
    /// [`MEMBERS_PER_PIECE`], less in tests; at least 1.
    pub members_per_piece: u32,
}

impl Default for GroupSettings {
    fn default() -> Self {
        GroupSettings {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX,
            members_per_piece: MEMBERS_PER_PIECE,
        }
    }
}

/// Kafka's `offset.*` and `offsets.*` keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetSettings {
    /// `offset.metadata.max.bytes`; compared with the length in UTF-16 code units, as in Kafka.
    pub metadata_max_bytes: i32,
    /// `offsets.retention.minutes`.
    pub retention_minutes: i32,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
}

impl Default for OffsetSettings {
    fn default() -> Self {
        OffsetSettings { metadata_max_bytes: 4_096, retention_minutes: 10_080, retention_check_interval_ms: 600_000 }
    }
}

//! How a member behaves. Shared by all members that behave alike.

use crate::wire::{ApiKey, VersionRange};

/// What members that behave alike have in common. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct MemberSettings {
    /// `group.id`.
    pub group_id: Box<str>,
    /// `client.id`.
    pub client_id: Box<str>,
    /// What is subscribed to.
    pub topics: Vec<Box<str>>,
    /// Names of assignors, the favourite first; at least one. Whatever the name, partitions are dealt out in turn.
    pub protocols: Vec<Box<str>>,
    /// `session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `max.poll.interval.ms`.
    pub rebalance_timeout_ms: i32,
    /// `heartbeat.interval.ms`.
    pub heartbeat_interval_ms: u64,
    /// `auto.commit.interval.ms`; `None`: never.
    pub commit_interval_ms: Option<u64>,
    /// How far each partition is consumed from one commit to the next.
    pub records_per_commit: i64,
    /// Goes with each commit.
    pub commit_metadata: Box<str>,
    /// `retry.backoff.ms`.
    pub retry_backoff_ms: u64,
    /// `request.timeout.ms`; a JoinGroup may last for the rebalance time-out and five seconds.
    pub request_timeout_ms: u64,
    /// What is spoken.
    pub versions: Versions,
}

impl Default for MemberSettings {
    fn default() -> Self {
        MemberSettings {
            group_id: "group".into(),
            client_id: "member".into(),
            topics: vec!["topic".into()],
            protocols: vec!["range".into()],
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 300_000,
            heartbeat_interval_ms: 3_000,
            commit_interval_ms: Some(5_000),
            records_per_commit: 500,
            commit_metadata: "".into(),
            retry_backoff_ms: 100,
            request_timeout_ms: 30_000,
            versions: Versions::NEWEST,
        }
    }
}

/// The version of each API that a member speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Versions {
    pub metadata: i16,
    pub find_coordinator: i16,
    pub join_group: i16,
    pub sync_group: i16,
    pub heartbeat: i16,
    pub leave_group: i16,
    pub offset_commit: i16,
    pub offset_fetch: i16,
}

impl Versions {
    /// The highest that this crate knows.
    pub const NEWEST: Versions = Versions {
        metadata: 13,
        find_coordinator: 6,
        join_group: 9,
        sync_group: 5,
        heartbeat: 4,
        leave_group: 5,
        offset_commit: 10,
        offset_fetch: 10,
    };

    /// Any mixture that the server serves: `choose(n)` gives a number below n. A static member's versions know its instance
    /// id; topics go by id only if Metadata tells ids.
    pub fn mixed(is_static: bool, choose: &mut dyn FnMut(u64) -> u64) -> Versions {
        let mut any = |api: ApiKey, knows_instances_from: i16| {
            let VersionRange { first, last } = api.api().served.expect("the server serves it");
            let first = if is_static { first.max(knows_instances_from) } else { first };
            first + choose((last - first + 1) as u64) as i16
        };
        let mut versions = Versions {
            metadata: any(ApiKey::Metadata, 0),
            find_coordinator: any(ApiKey::FindCoordinator, 0),
            join_group: any(ApiKey::JoinGroup, 5),
            sync_group: any(ApiKey::SyncGroup, 3),
            heartbeat: any(ApiKey::Heartbeat, 3),
            leave_group: any(ApiKey::LeaveGroup, 3),
            offset_commit: any(ApiKey::OffsetCommit, 7),
            offset_fetch: any(ApiKey::OffsetFetch, 0),
        };
        if versions.metadata < 10 {
            versions.offset_commit = versions.offset_commit.min(9);
            versions.offset_fetch = versions.offset_fetch.min(9);
        }
        // SyncGroup v5 repeats the protocol type that JoinGroup tells from v7 on.
        if versions.join_group < 7 {
            versions.sync_group = versions.sync_group.min(4);
        }
        versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_fit_together() {
        let mut seed = 7u64;
        let mut choose = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for round in 0..1_000 {
            let is_static = round % 2 == 0;
            let versions = Versions::mixed(is_static, &mut choose);
            assert!(versions.metadata >= 10 || versions.offset_commit.max(versions.offset_fetch) < 10);
            assert!(versions.join_group >= 7 || versions.sync_group < 5);
            assert!(!is_static || versions.join_group >= 5 && versions.offset_commit >= 7);
            assert!(ApiKey::OffsetCommit.serves(versions.offset_commit));
        }
    }
}

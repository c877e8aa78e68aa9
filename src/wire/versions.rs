//! Which versions of which APIs there are. `decoded` is what this module can read and write: all that Kafka ever had,
//! from 0.10's v0 on. `served` is what ApiVersions advertises and dispatch lets through: a version goes there only when
//! every field of it is honoured. To serve one more (or one less), change its column here.

use std::fmt;

/// Number of an API's version, and whether it has compact encodings and tag sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// As in the request header.
    pub number: i16,
    /// From the API's first flexible version on.
    pub flexible: bool,
}

/// First and last version, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// The lowest.
    pub first: i16,
    /// The highest.
    pub last: i16,
}

impl VersionRange {
    /// Whether a version is within.
    #[inline]
    pub const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// Which API.
    pub key: ApiKey,
    /// Kafka's name of it.
    pub name: &'static str,
    /// What can be read and written.
    pub decoded: VersionRange,
    /// What is advertised and let through; None while nothing of it is.
    pub served: Option<VersionRange>,
    /// The first version with compact encodings and tag sections.
    pub flexible_from: Option<i16>,
}

macro_rules! apis {
    ($(
        $name:ident = $key:literal,
        decoded $first:literal..=$last:literal, served $served:expr, flexible $flexible:expr;
    )*) => {
        /// The APIs that can be read and written, by their number in the request header.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(i16)]
        pub enum ApiKey {
            $($name = $key,)*
        }

        impl ApiKey {
            /// None for a number that is not in the table; [`name`] knows more of them.
            #[inline]
            pub const fn from_number(number: i16) -> Option<ApiKey> {
                match number {
                    $($key => Some(ApiKey::$name),)*
                    _ => None,
                }
            }

            /// The row of this API.
            #[inline]
            pub const fn api(self) -> &'static Api {
                match self {
                    $(ApiKey::$name => const {
                        &Api {
                            key: ApiKey::$name,
                            name: stringify!($name),
                            decoded: VersionRange { first: $first, last: $last },
                            served: $served,
                            flexible_from: $flexible,
                        }
                    },)*
                }
            }
        }

        /// All rows, by rising key.
        pub const TABLE: &[&Api] = &[$(ApiKey::$name.api(),)*];
    };
}

const fn from_to(first: i16, last: i16) -> Option<VersionRange> {
    Some(VersionRange { first, last })
}

// The served column starts from what Kafka 4.4 advertises.
apis! {
    Produce = 0, decoded 0..=13, served from_to(3, 13), flexible Some(9);
    Fetch = 1, decoded 0..=18, served from_to(0, 18), flexible Some(12);
    ListOffsets = 2, decoded 0..=11, served from_to(0, 11), flexible Some(6);
    Metadata = 3, decoded 0..=13, served from_to(0, 13), flexible Some(9);
    OffsetCommit = 8, decoded 0..=10, served from_to(2, 10), flexible Some(8);
    OffsetFetch = 9, decoded 0..=10, served from_to(1, 10), flexible Some(6);
    FindCoordinator = 10, decoded 0..=6, served from_to(0, 6), flexible Some(3);
    JoinGroup = 11, decoded 0..=9, served from_to(0, 9), flexible Some(6);
    Heartbeat = 12, decoded 0..=4, served from_to(0, 4), flexible Some(4);
    LeaveGroup = 13, decoded 0..=5, served from_to(0, 5), flexible Some(4);
    SyncGroup = 14, decoded 0..=5, served from_to(0, 5), flexible Some(4);
    DescribeGroups = 15, decoded 0..=6, served from_to(0, 6), flexible Some(5);
    ListGroups = 16, decoded 0..=5, served from_to(0, 5), flexible Some(3);
    ApiVersions = 18, decoded 0..=5, served from_to(0, 5), flexible Some(3);
    CreateTopics = 19, decoded 0..=7, served from_to(2, 7), flexible Some(5);
    DeleteTopics = 20, decoded 0..=6, served from_to(1, 6), flexible Some(4);
    OffsetForLeaderEpoch = 23, decoded 0..=4, served from_to(2, 4), flexible Some(4);
    DeleteGroups = 42, decoded 0..=3, served from_to(0, 3), flexible Some(2);
    OffsetDelete = 47, decoded 0..=0, served from_to(0, 0), flexible None;
    DescribeCluster = 60, decoded 0..=2, served from_to(0, 2), flexible Some(0);
}

impl ApiKey {
    /// The number in the request header.
    #[inline]
    pub const fn number(self) -> i16 {
        self as i16
    }

    /// Kafka's name of the API.
    pub const fn name(self) -> &'static str {
        self.api().name
    }

    /// A version of this API, whether it is in the decoded range or not.
    #[inline]
    pub const fn version(self, number: i16) -> Version {
        let flexible = match self.api().flexible_from {
            Some(first) => number >= first,
            None => false,
        };
        Version { number, flexible }
    }

    /// Whether a version is let through.
    #[inline]
    pub const fn serves(self, version: i16) -> bool {
        match self.api().served {
            Some(served) => served.contains(version),
            None => false,
        }
    }

    /// Which request header a version has, 1 or 2. So an ApiVersions request of an unknown version reads as 2 above the
    /// range, as 1 when negative, as in Kafka. (Header 0 belonged to ControlledShutdown v0 alone.)
    #[inline]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.version(version).flexible { 2 } else { 1 }
    }

    /// Which response header a version has: 1 when flexible, but 0 always for ApiVersions, whose answer must be
    /// readable before the versions are agreed on.
    #[inline]
    pub const fn response_header_version(self, version: i16) -> i16 {
        match self {
            ApiKey::ApiVersions => 0,
            _ => self.version(version).flexible as i16,
        }
    }
}

/// Kafka's name for any of its API numbers, decoded here or not: for log lines and metrics.
pub fn name(number: i16) -> &'static str {
    usize::try_from(number).ok().and_then(|index| NAMES.get(index)).copied().unwrap_or("unknown")
}

#[rustfmt::skip]
const NAMES: [&str; 95] = [
    "Produce", "Fetch", "ListOffsets", "Metadata", "LeaderAndIsr",
    "StopReplica", "UpdateMetadata", "ControlledShutdown", "OffsetCommit", "OffsetFetch",
    "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup",
    "DescribeGroups", "ListGroups", "SaslHandshake", "ApiVersions", "CreateTopics",
    "DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn",
    "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit", "DescribeAcls",
    "CreateAcls", "DeleteAcls", "DescribeConfigs", "AlterConfigs", "AlterReplicaLogDirs",
    "DescribeLogDirs", "SaslAuthenticate", "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken",
    "ExpireDelegationToken", "DescribeDelegationToken", "DeleteGroups", "ElectLeaders", "IncrementalAlterConfigs",
    "AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete", "DescribeClientQuotas", "AlterClientQuotas",
    "DescribeUserScramCredentials", "AlterUserScramCredentials", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch",
    "DescribeQuorum", "AlterPartition", "UpdateFeatures", "Envelope", "FetchSnapshot",
    "DescribeCluster", "DescribeProducers", "BrokerRegistration", "BrokerHeartbeat", "UnregisterBroker",
    "DescribeTransactions", "ListTransactions", "AllocateProducerIds", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe",
    "ControllerRegistration", "GetTelemetrySubscriptions", "PushTelemetry", "AssignReplicasToDirs", "ListConfigResources",
    "DescribeTopicPartitions", "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge",
    "AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "InitializeShareGroupState", "ReadShareGroupState",
    "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary", "StreamsGroupHeartbeat", "StreamsGroupDescribe",
    "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "StreamsGroupTopologyDescriptionUpdate", "UnregisterController",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        assert!(TABLE.is_sorted_by_key(|api| api.key.number()));
        for api in TABLE {
            assert_eq!(ApiKey::from_number(api.key.number()), Some(api.key));
            assert_eq!(api.key.api().name, api.name);
            assert_eq!(name(api.key.number()), api.name);
            if let Some(served) = api.served {
                assert!(api.decoded.contains(served.first) && api.decoded.contains(served.last), "{api:?}");
                assert!(served.first <= served.last, "{api:?}");
                assert!(api.key.serves(served.last) && !api.key.serves(served.last + 1));
            }
        }
        assert_eq!(ApiKey::from_number(94), None);
        assert_eq!(name(94), "UnregisterController");
        assert_eq!((name(95), name(-1)), ("unknown", "unknown"));
    }

    #[test]
    fn headers_follow_from_key_and_version() {
        assert_eq!(ApiKey::Heartbeat.request_header_version(3), 1);
        assert_eq!(ApiKey::Heartbeat.request_header_version(4), 2);
        assert_eq!(ApiKey::Heartbeat.response_header_version(3), 0);
        assert_eq!(ApiKey::Heartbeat.response_header_version(4), 1);
        assert_eq!(ApiKey::ApiVersions.response_header_version(5), 0);
        assert_eq!(ApiKey::ApiVersions.request_header_version(99), 2);
        assert_eq!(ApiKey::ApiVersions.request_header_version(-1), 1);
        assert_eq!(ApiKey::OffsetDelete.request_header_version(0), 1);
        assert_eq!(ApiKey::DescribeCluster.request_header_version(0), 2);
    }
}

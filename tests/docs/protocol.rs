//! docs/protocol.md: every API of Kafka with what is decoded and served here, and why the rest is not.

use std::fmt::Write as _;
use std::fs;

use rallypoint::wire::versions::{ApiKey, VersionRange};

use super::{compare, path};

const HEAD: &str = "\
# Protocol

Made from the table in `src/wire/versions.rs` by `UPDATE_DOCS=1 cargo test --test docs`; what is left out, and why, stands in
`tests/docs/protocol.rs`.

- *known*: the versions that Kafka has ever had, as far as they are described in `tests/protocol`.
- *Kafka 4.4*: what a broker of that release advertises to its clients; nothing where it does not.
- *decoded*: what can be read and written here.
- *served*: what ApiVersions advertises here, and what is let through. A version is served only when each field of it is
  honoured. A request of any other version closes its connection, as at Kafka; only ApiVersions is answered in every version,
  with error 35 and its own range.

";

/// What an API that is not served, or not in all versions that are decoded, lacks; or how what is served differs from Kafka.
#[rustfmt::skip]
const REMARKS: &[(&[&str], &str)] = &[
    (&["Produce"], "records are checked, acknowledged and dropped. Versions 0 to 2 carry old record formats, which Kafka 4 does not take either"),
    (&["Fetch"], "records are made up; no fetch sessions: each request is answered in full. Versions 0 to 3, which Kafka 4 does not serve, get the old message formats"),
    (&["ListOffsets"], "answered out of the made-up records"),
    (&["OffsetCommit"], "versions 0 and 1 kept offsets in ZooKeeper, or a timestamp for each; Kafka 4 does not serve them either"),
    (&["OffsetFetch"], "version 0 read from ZooKeeper; Kafka 4 does not serve it either"),
    (&["CreateTopics", "DeleteTopics", "OffsetForLeaderEpoch"], "the oldest versions are those that Kafka 4 does not serve either"),
    (&["ConsumerGroupHeartbeat", "ConsumerGroupDescribe"], "not built yet: consumer groups of KIP-848"),
    (&["ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch", "ShareAcknowledge", "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"], "not built yet: share groups"),
    (&["InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary"], "not built yet: share groups; between brokers"),
    (&["StreamsGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate"], "not built yet: streams groups"),
    (&["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "DescribeProducers", "DescribeTransactions", "ListTransactions"], "not built yet: transactions"),
    (&["WriteTxnMarkers"], "not built yet: transactions; between brokers"),
    (&["SaslHandshake", "SaslAuthenticate", "DescribeUserScramCredentials", "AlterUserScramCredentials"], "not built yet: SASL"),
    (&["DescribeAcls", "CreateAcls", "DeleteAcls"], "not built yet: ACLs"),
    (&["CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"], "delegation tokens are of SASL, which is not built yet"),
    (&["DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs", "ListConfigResources"], "not built yet: configurations at run time"),
    (&["CreatePartitions", "DescribeTopicPartitions"], "not built yet"),
    (&["DeleteRecords"], "records are made up, there are none to delete"),
    (&["AlterReplicaLogDirs", "DescribeLogDirs", "ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments"], "a partition has one replica, its leader"),
    (&["DescribeClientQuotas", "AlterClientQuotas"], "there are no quotas"),
    (&["DescribeQuorum", "UpdateFeatures", "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter", "UnregisterController"], "there is no KRaft quorum"),
    (&["Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "AlterPartition", "Envelope", "FetchSnapshot", "BrokerRegistration", "BrokerHeartbeat", "AllocateProducerIds", "ControllerRegistration", "AssignReplicasToDirs", "UpdateRaftVoter"], "between the nodes of Kafka; there is no KRaft quorum"),
    (&["LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"], "was between the nodes of Kafka with ZooKeeper; Kafka 4 does not have it"),
    (&["GetTelemetrySubscriptions", "PushTelemetry"], "nobody receives clients' telemetry; Kafka advertises it only with a receiver"),
];

/// One line of tests/protocol/apis.tsv.
struct KafkaApi {
    key: i16,
    name: String,
    known: String,
    advertised: String,
}

fn kafka_apis() -> Vec<KafkaApi> {
    let text = fs::read_to_string(path("tests/protocol/apis.tsv")).expect("the facts");
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().expect("names of columns");
    let column = |name: &str| head.iter().position(|column| *column == name).expect("a column");
    let columns = ["api_key", "name", "all_known_versions", "adv_4.4-dev"].map(column);
    let api = |line: Vec<&str>| {
        let [key, name, known, advertised] = columns.map(|column| line[column].to_owned());
        KafkaApi { key: key.parse().expect("a number"), name, known, advertised }
    };
    lines.map(api).collect()
}

fn remark(name: &str) -> &'static str {
    let mut found = REMARKS.iter().filter(|(names, _)| names.contains(&name)).map(|(_, remark)| *remark);
    let remark = found.next().unwrap_or_default();
    assert!(found.next().is_none(), "{name} has two remarks");
    remark
}

fn range(range: Option<VersionRange>) -> String {
    match range {
        Some(VersionRange { first, last }) if first == last => first.to_string(),
        Some(range) => range.to_string(),
        None => String::new(),
    }
}

/// How many versions a range such as `0-3` or `2` has.
fn count(range: &str) -> i16 {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<i16>(), last.parse::<i16>()) {
        (Ok(first), Ok(last)) => last - first + 1,
        _ => 0,
    }
}

#[test]
fn every_api_is_listed_with_what_is_served_and_why_not() {
    let apis = kafka_apis();
    let mut rows = String::new();
    let (mut served, mut versions) = (0, 0);
    for KafkaApi { key, name, known, advertised } in &apis {
        let ours = ApiKey::from_number(*key).map(ApiKey::api);
        assert_eq!(rallypoint::wire::versions::name(*key), name);
        let serves = ours.and_then(|api| api.served);
        let is_whole = ours.is_some_and(|api| api.served == Some(api.decoded));
        let remark = remark(name);
        assert!(is_whole || !remark.is_empty(), "{name}: not all of it is served; say why in REMARKS");
        served += u32::from(serves.is_some());
        versions += serves.map_or(0, |range| range.last - range.first + 1);
        let advertised = if advertised == "-" { "" } else { advertised };
        let (decoded, serves) = (range(ours.map(|api| api.decoded)), range(serves));
        writeln!(rows, "| {key} | {name} | {known} | {advertised} | {decoded} | {serves} | {remark} |").expect("text");
    }
    let names: Vec<&str> = apis.iter().map(|api| &*api.name).collect();
    for name in REMARKS.iter().flat_map(|(names, _)| *names) {
        assert!(names.contains(name), "REMARKS: there is no {name}");
    }
    let theirs: i16 = apis.iter().map(|api| count(&api.advertised)).sum();
    let page = format!(
        "{HEAD}{served} of {} APIs are served, in {versions} versions; Kafka 4.4 advertises {theirs} versions of {}.\n\n\
         | key | API | known | Kafka 4.4 | decoded | served | left out, or different |\n|---|---|---|---|---|---|---|\n{rows}",
        apis.len(),
        apis.iter().filter(|api| api.advertised != "-").count(),
    );
    compare("docs/protocol.md", &page);
}

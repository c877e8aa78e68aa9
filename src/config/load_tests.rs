use tracing::Level;

use super::*;
use crate::config::{DeclaredTopic, Listener};
use crate::limits::{CORES_MAX, LISTENERS_MAX};

#[test]
fn metrics_are_served_where_one_says() {
    assert_eq!(settings("", &[]).metrics, None);
    assert_eq!(settings("", &["--metrics", "[::1]:9100"]).metrics, Some(("::1".to_owned(), 9_100)));
    assert_eq!(settings("rallypoint.metrics.listen=:9100", &[]).metrics, Some(("0.0.0.0".to_owned(), 9_100)));
    let found = problems("", &["--metrics", "localhost"]);
    assert_eq!(found, ["--metrics: rallypoint.metrics.listen: `localhost`: the port is missing"]);
}

fn options(words: &[&str]) -> ServeArguments {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ServeArguments,
    }
    <Line as clap::Parser>::try_parse_from(std::iter::once(&"serve").chain(words)).expect("options").arguments
}

fn run(file: &str, words: &[&str]) -> Result<Loaded, Vec<String>> {
    load_text(&options(words), Some((Path::new("server.properties"), file.as_bytes())))
        .map_err(|error| error.problems.iter().map(ToString::to_string).collect())
}

fn settings(file: &str, words: &[&str]) -> Settings {
    run(file, words).unwrap_or_else(|problems| panic!("{problems:?}")).settings
}

fn problems(file: &str, words: &[&str]) -> Vec<String> {
    run(file, words).expect_err("this cannot be used")
}

fn notices(file: &str, words: &[&str], level: Level) -> Vec<String> {
    let loaded = run(file, words).unwrap_or_else(|problems| panic!("{problems:?}"));
    loaded.notices.into_iter().filter(|notice| notice.level == level).map(|notice| notice.text).collect()
}

/// `NAME=BIND told ADVERTISED` of each listener.
fn listening(file: &str, words: &[&str]) -> Vec<String> {
    let show = |listener: Listener| {
        let Listener { name, bind_host, bind_port, advertised_host, advertised_port } = listener;
        format!("{name}={bind_host}:{bind_port} told {advertised_host}:{advertised_port}")
    };
    settings(file, words).listeners.into_iter().map(show).collect()
}

#[test]
fn nothing_said_is_the_default() {
    assert_eq!(settings("", &[]), Settings::default());
    assert!(run("", &[]).expect("defaults").notices.is_empty());
}

#[test]
fn set_beats_option_beats_file_beats_default() {
    let file = "log.dirs=/from/file\nrallypoint.cores=2\n";
    assert_eq!(settings(file, &[]).data_dir, Path::new("/from/file"));
    assert_eq!(settings(file, &["--data-dir", "/option"]).data_dir, Path::new("/option"));
    let words = ["--set", "log.dirs=/set", "--data-dir", "/option", "--cores", "3"];
    assert_eq!((settings(file, &words).data_dir.as_path(), settings(file, &words).cores), (Path::new("/set"), 3));
}

#[test]
fn older_names_count_too() {
    assert_eq!(settings("broker.id=7", &[]).node_id, 7);
    assert_eq!(settings("broker.id=-1\nnode.id=4", &[]).node_id, 4);
    assert_eq!(settings("broker.id=-1", &[]).node_id, 1);
    assert_eq!(settings("node.id=4", &["--set", "broker.id=5"]).node_id, 5);
    assert_eq!(problems("node.id=4\nbroker.id=5", &[]), ["server.properties:2: node.id (4) and broker.id (5) differ"]);
    assert_eq!(settings("log.dir=/a", &[]).data_dir, Path::new("/a"));
    assert_eq!(settings("log.dirs=/a\nlog.dir=/b", &[]).data_dir, Path::new("/a"));
    assert_eq!(settings("log.dirs=/a", &["--set", "log.dir=/b"]).data_dir, Path::new("/b"));
}

#[test]
fn only_the_first_directory_is_used_and_that_is_said() {
    assert_eq!(settings("log.dirs=/a, /b", &[]).data_dir, Path::new("/a"));
    let warnings = notices("\nlog.dirs=/a, /b", &[], Level::WARN);
    assert_eq!(warnings, ["server.properties:2: log.dirs: only the first directory is used, /a"]);
}

#[test]
fn a_bad_value_names_its_place_and_all_are_named() {
    let found = problems("# groups\ngroup.max.size=0\n\nnum.partitions=two", &["--cores", "many", "--set", "x"]);
    assert_eq!(
        found,
        [
            "--set: `x` is not of the form KEY=VALUE",
            "--cores: rallypoint.cores: `many` is not a whole number of 32 bits",
            "server.properties:4: num.partitions: `two` is not a whole number of 32 bits",
            "server.properties:2: group.max.size: 0 is below 1, the least allowed",
        ]
    );
}

#[test]
fn a_file_that_is_no_properties_file_names_the_line() {
    let found = problems("a=1\nb=\\u00", &[]);
    assert!(found[0].starts_with("server.properties:2: Malformed"), "{found:?}");
}

#[test]
fn a_missing_file_is_named() {
    let error = load(&options(&["--config", "/nonexistent/server.properties"])).expect_err("there is no such file");
    assert!(error.to_string().starts_with("--config: /nonexistent/server.properties: No such file"), "{error}");
}

#[test]
fn a_property_that_stands_twice_is_said_and_the_last_counts() {
    let file = "num.partitions=2\nnum.partitions=3";
    assert_eq!(settings(file, &[]).num_partitions, 3);
    let warnings = notices(file, &[], Level::WARN);
    assert_eq!(
        warnings,
        ["server.properties:2: num.partitions stands twice; this replaces the value of server.properties:1"]
    );
}

#[test]
fn an_unknown_property_warns_and_names_the_nearest() {
    assert_eq!(
        notices("num.partition=3\nzookeeper.connect=h:2181", &[], Level::WARN),
        [
            "server.properties:1: num.partition is not a known property; did you mean num.partitions?",
            "server.properties:2: zookeeper.connect is not a known property",
        ]
    );
}

#[test]
fn kafkas_other_properties_are_accepted_quietly() {
    let file = "process.roles=broker,controller\nlog.retention.hours=168\ngroup.consumer.max.size=3";
    assert!(notices(file, &[], Level::WARN).is_empty());
    assert_eq!(
        notices(file, &[], Level::DEBUG),
        [
            "server.properties:3: group.consumer.max.size is accepted, but does nothing here",
            "server.properties:2: log.retention.hours is Kafka's, but does nothing here",
            "server.properties:1: process.roles is Kafka's, but does nothing here",
        ]
    );
}

#[test]
fn what_would_open_the_server_stops_the_start_and_can_be_switched_off_knowingly() {
    let file = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let found = problems(file, &[]);
    assert!(
        found[0].starts_with("server.properties:1: authorizer.class.name: authorization is not built"),
        "{found:?}"
    );
    assert!(run(file, &["--set", "authorizer.class.name="]).is_ok());
}

#[test]
fn secrets_are_not_printed() {
    let found = problems("ssl.key.password=hunter2\nlistener.name.a.sasl.jaas.config=hunter2", &[]);
    assert_eq!(found.len(), 2);
    assert!(!found.concat().contains("hunter2"), "{found:?}");
}

#[test]
fn a_listener_of_another_protocol_stops_the_start() {
    for (file, name) in [
        ("listeners=SSL://h:9093", "listener SSL is of security protocol SSL"),
        ("listeners=SASL_PLAINTEXT://h:9093", "listener SASL_PLAINTEXT is of security protocol SASL_PLAINTEXT"),
        (
            "listeners=EXTERNAL://h:9093\nlistener.security.protocol.map=EXTERNAL:SASL_SSL",
            "listener EXTERNAL is of security protocol SASL_SSL",
        ),
        (
            "listeners=PLAINTEXT://h:9093\nlistener.security.protocol.map=PLAINTEXT:SSL",
            "listener PLAINTEXT is of security protocol SSL",
        ),
    ] {
        let found = problems(file, &[]);
        assert!(found[0].starts_with(&format!("server.properties:1: {name}")), "{found:?}");
    }
    let found = problems("", &["--listen", "SSL=127.0.0.1:9093"]);
    assert!(found[0].starts_with("--listen: listener SSL"), "{found:?}");
}

#[test]
fn a_protocol_of_a_listener_that_is_not_there_does_not_matter() {
    // Kafka's own sample file.
    let file = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n\
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n\
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
        controller.listener.names=CONTROLLER\n\
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL\n";
    assert_eq!(listening(file, &[]), ["PLAINTEXT=0.0.0.0:9092 told localhost:9092"]);
    assert!(notices(file, &[], Level::WARN).is_empty());
}

#[test]
fn a_listener_needs_a_protocol_that_exists() {
    assert_eq!(
        problems("listeners=EXTERNAL://h:9093", &[]),
        ["server.properties:1: listener EXTERNAL has no security protocol: add EXTERNAL:PLAINTEXT to \
            listener.security.protocol.map"]
    );
    let found = problems("listener.security.protocol.map=PLAINTEXT:FOO", &[]);
    assert!(found[0].contains("`PLAINTEXT:FOO` is not NAME:PROTOCOL"), "{found:?}");
    let file = "listeners=external://h:9093\nlistener.security.protocol.map=External:plaintext";
    assert_eq!(listening(file, &[]), ["EXTERNAL=h:9093 told h:9093"]);
}

#[test]
fn the_controllers_listeners_are_ignored() {
    let file = "listeners=PLAINTEXT://h:1,CONTROLLER://h:2,QUORUM://h:3\ncontroller.listener.names=QUORUM\n\
        advertised.listeners=PLAINTEXT://a:1,QUORUM://a:3";
    assert_eq!(listening(file, &[]), ["PLAINTEXT=h:1 told a:1"]);
    let found = problems("listeners=CONTROLLER://h:2", &[]);
    assert!(found[0].contains("none is left"), "{found:?}");
}

#[test]
fn listen_replaces_the_listener_of_its_name_and_leaves_the_others() {
    let file = "listeners=PLAINTEXT://h:1,EXTERNAL://h:2\nlistener.security.protocol.map=EXTERNAL:PLAINTEXT";
    assert_eq!(
        listening(file, &["--listen", "[::1]:9092"]),
        ["PLAINTEXT=::1:9092 told ::1:9092", "EXTERNAL=h:2 told h:2"]
    );
    assert_eq!(
        listening(file, &["--listen", "external=127.0.0.1:5"]),
        ["PLAINTEXT=h:1 told h:1", "EXTERNAL=127.0.0.1:5 told 127.0.0.1:5"]
    );
    let words = ["--listen", "127.0.0.1:7", "--set", "listeners=PLAINTEXT://h:9"];
    assert_eq!(listening(file, &words), ["PLAINTEXT=h:9 told h:9"]);
    assert_eq!(notices(file, &words, Level::WARN).len(), 1);
}

#[test]
fn listen_alone_leaves_no_default_beside_it() {
    let words = ["--listen", "EXTERNAL=h:5", "--set", "listener.security.protocol.map=EXTERNAL:PLAINTEXT"];
    assert_eq!(listening("", &words), ["EXTERNAL=h:5 told h:5"]);
}

#[test]
fn listeners_are_distinct() {
    let map = "\nlistener.security.protocol.map=B:PLAINTEXT";
    let twice = |listeners: &str| problems(&format!("listeners={listeners}{map}"), &[]).remove(0);
    assert!(twice("PLAINTEXT://h:1,PLAINTEXT://h:2").ends_with("listeners: PLAINTEXT stands twice"));
    assert!(twice("PLAINTEXT://h:1,B://i:1").ends_with("PLAINTEXT://h:1 and B://i:1 have the same port"));
    assert_eq!(settings(&format!("listeners=PLAINTEXT://127.0.0.1:1,B://[::1]:1{map}"), &[]).listeners.len(), 2);
    let found = problems("", &["--listen", "h:1", "--listen", "h:2"]);
    assert_eq!(found, ["--listen: listeners: PLAINTEXT stands twice"]);
}

#[test]
fn binding_everything_needs_an_advertised_host() {
    for bind in ["0.0.0.0:9092", "[::]:9092", ":9092"] {
        let found = problems("", &["--listen", bind]);
        assert!(found[0].contains("--advertise HOST or advertised.listeners=PLAINTEXT://HOST:9092"), "{found:?}");
        assert_eq!(
            listening("", &["--listen", bind, "--advertise", "here"])[0].split(" told ").nth(1),
            Some("here:9092")
        );
    }
    assert_eq!(
        listening("advertised.listeners=PLAINTEXT://there:19092", &["--listen", "0.0.0.0:9092"]),
        ["PLAINTEXT=0.0.0.0:9092 told there:19092"]
    );
}

#[test]
fn advertise_is_stronger_than_the_file_and_weaker_than_set() {
    let file = "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://file:19092";
    assert_eq!(listening(file, &["--advertise", "[::1]"]), ["PLAINTEXT=0.0.0.0:9092 told ::1:19092"]);
    let words = ["--advertise", "option", "--set", "advertised.listeners=PLAINTEXT://set:5"];
    assert_eq!(listening(file, &words), ["PLAINTEXT=0.0.0.0:9092 told set:5"]);
}

#[test]
fn advertise_takes_a_host_that_clients_can_connect_to() {
    for (host, what) in [("0.0.0.0", "cannot connect"), ("h:9092", "brackets"), ("a b", "neither a host")] {
        let found = problems("", &["--advertise", host]);
        assert!(found[0].starts_with("--advertise: ") && found[0].contains(what), "{found:?}");
    }
}

#[test]
fn advertised_listeners_are_listeners() {
    for (advertised, what) in [
        ("PLAINTEXT://0.0.0.0:9092", "cannot connect to 0.0.0.0"),
        ("OTHER://h:9092", "there is no listener OTHER"),
        ("PLAINTEXT://h:1,PLAINTEXT://h:2", "PLAINTEXT stands twice"),
        ("h:9092", "NAME://HOST:PORT"),
    ] {
        let found = problems(&format!("advertised.listeners={advertised}"), &[]);
        assert!(found[0].starts_with("server.properties:1: advertised.listeners: "), "{found:?}");
        assert!(found[0].contains(what), "{found:?}");
    }
}

#[test]
fn a_port_that_no_longer_fits_what_clients_are_told_is_warned_of() {
    let file = "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://here:9092";
    let warnings = notices(file, &["--listen", "127.0.0.1:29092"], Level::WARN);
    assert_eq!(
        warnings,
        ["server.properties:2: clients are told port 9092, but --listen binds PLAINTEXT://127.0.0.1:29092"]
    );
}

#[test]
fn topics_are_declared() {
    let declared = settings("rallypoint.topics=never", &["--topic", "demo:6", "--topic", "other"]).topics;
    let demo = DeclaredTopic { name: "demo".into(), partitions: Some(6) };
    assert_eq!(declared, [demo, DeclaredTopic { name: "other".into(), partitions: None }]);
    assert_eq!(problems("", &["--topic", "demo:6", "--topic", "demo"]), ["--topic: demo stands twice"]);
    assert!(problems("", &["--topic", "demo:0"])[0].starts_with("--topic: `demo:0`"));
}

#[test]
fn replication_factors_stay_as_written() {
    let of = |file| settings(file, &[]).offsets_topic.replication_factor;
    assert_eq!((of(""), of("offsets.topic.replication.factor=30")), (1, 30));
    assert_eq!(problems("offsets.topic.replication.factor=-1", &[]).len(), 1);
    assert_eq!(problems("offsets.topic.replication.factor=40000", &[]).len(), 1);
}

#[test]
fn cores_and_listeners_are_limited() {
    let most = CORES_MAX.to_string();
    assert_eq!(settings("", &["--cores", &most]).cores, CORES_MAX as usize);
    let found = problems("", &["--cores", &(CORES_MAX + 1).to_string()]);
    assert_eq!(found, ["--cores: rallypoint.cores: 1025 is above 1024, the most allowed"]);
    assert_eq!(problems("", &["--cores", "0"]).len(), 1);
    let listeners = |count: usize| {
        let of = |write: fn(usize) -> String| (0..count).map(write).collect::<Vec<_>>().join(",");
        let map = of(|index| format!("L{index}:PLAINTEXT"));
        format!(
            "listeners={}\nlistener.security.protocol.map={map}",
            of(|index| format!("L{index}://h:{}", 1000 + index))
        )
    };
    assert_eq!(settings(&listeners(LISTENERS_MAX), &[]).listeners.len(), LISTENERS_MAX);
    let found = problems(&listeners(LISTENERS_MAX + 1), &[]);
    assert_eq!(found, ["server.properties:1: listeners: 65 are more than 64, the most allowed"]);
}

#[test]
fn node_ids_end_where_kafkas_do() {
    assert_eq!(settings("node.id=2147483647", &[]).node_id, i32::MAX);
    let found = problems("node.id=2147483647", &["--cores", "2"]);
    assert!(found[0].starts_with("server.properties:1: node.id: the last core's would be 2147483648"), "{found:?}");
}

#[test]
fn ports_that_do_not_fit_stop_the_start() {
    let file = "rallypoint.core.port.stride=60000";
    assert!(run(file, &[]).is_ok());
    let found = problems(file, &["--cores", "2"]);
    assert!(found[0].starts_with("server.properties:1: rallypoint.core.port.stride 60000: the last core"), "{found:?}");
    let found = problems("", &["--cores", "2", "--listen", "127.0.0.1:65535"]);
    assert!(found[0].starts_with("there are no distinct ports up to 65535 for 2 cores"), "{found:?}");
}

#[test]
fn times_that_contradict_each_other_stop_the_start_as_in_kafka() {
    for (file, message) in [
        (
            "group.consumer.heartbeat.interval.ms=16000",
            "1: group.consumer.heartbeat.interval.ms (16000) must not be above \
             group.consumer.max.heartbeat.interval.ms (15000)",
        ),
        (
            "group.consumer.session.timeout.ms=44000",
            "1: group.consumer.min.session.timeout.ms (45000) must not be above group.consumer.session.timeout.ms (44000)",
        ),
        (
            "group.consumer.heartbeat.interval.ms=15000\ngroup.consumer.min.session.timeout.ms=15000\n\
             group.consumer.session.timeout.ms=15000",
            "3: group.consumer.heartbeat.interval.ms (15000) must be below group.consumer.session.timeout.ms (15000)",
        ),
        (
            "group.share.min.session.timeout.ms=70000\ngroup.share.session.timeout.ms=70000",
            "1: group.share.min.session.timeout.ms (70000) must not be above group.share.max.session.timeout.ms (60000)",
        ),
        (
            "group.streams.assignment.interval.ms=20000",
            "1: group.streams.assignment.interval.ms (20000) must not be above \
             group.streams.max.assignment.interval.ms (15000)",
        ),
        ("group.coordinator.rebalance.protocols=consumer", "1: group.coordinator.rebalance.protocols: classic cannot"),
        (
            "group.coordinator.rebalance.protocols=classic,foo",
            "1: group.coordinator.rebalance.protocols: `foo` is none",
        ),
        ("group.consumer.assignors=", "1: group.consumer.assignors: the list is empty"),
        ("group.max.session.timeout.ms=5000", "1: group.min.session.timeout.ms (6000) must not be above"),
    ] {
        let found = problems(file, &[]);
        assert!(found[0].starts_with(&format!("server.properties:{message}")), "{file}: {found:?}");
    }
}

#[test]
fn small_segments_of_the_offsets_topic_are_warned_of() {
    let warnings = |bytes| notices(&format!("offsets.topic.segment.bytes={bytes}"), &[], Level::WARN).len();
    assert_eq!((warnings(1_048_575), warnings(1_048_576)), (1, 0));
    assert_eq!(problems("offsets.topic.segment.bytes=0", &[]).len(), 1);
}

#[test]
fn effective_values_say_where_they_come_from() {
    let loaded = run("num.partitions=3", &["--cores", "2"]).expect("usable");
    let shown = crate::config::effective(&loaded.effective, false);
    assert_eq!(shown, "rallypoint.cores=2  # --cores\nnum.partitions=3  # server.properties:1\n");
    assert!(crate::config::effective(&loaded.effective, true).contains("group.max.size=2147483647  # default\n"));
}

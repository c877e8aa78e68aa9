//! The configuration as its user meets it: properties files of the conformance suite, and the command itself.

use std::path::{Path, PathBuf};

use rallypoint::config::{self, ConfigError, Notice, ServeArguments, Settings};

fn profiles() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conform/profiles")
}

/// Loads a profile as the conformance runner would have it loaded.
fn load(name: &str, cores: usize) -> Result<(Settings, Vec<Notice>), ConfigError> {
    let mut text = std::fs::read_to_string(profiles().join(name)).expect("a profile");
    for offset in (1..10).rev() {
        text = text.replace(&format!("{{port+{offset}}}"), &(24_000 + offset).to_string());
    }
    let text = text.replace("{port}", "24000").replace("{profiles}", "/profiles");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    std::fs::write(&file, text).expect("a file");
    config::load(&ServeArguments {
        listen: vec!["127.0.0.1:24000".into()],
        cores: Some(cores.to_string()),
        config: Some(file),
        ..ServeArguments::default()
    })
}

#[test]
fn profiles_load_without_a_warning_or_are_refused_by_name() {
    let refused = |name: &str| match name {
        "bad-heartbeat.properties" => Some("group.consumer.heartbeat.interval.ms (16000) must not be above"),
        "bad-session.properties" => Some("must not be above group.consumer.session.timeout.ms (44000)"),
        "secured.properties" | "tls.properties" => Some("authorizer.class.name"),
        _ => None,
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(profiles()).expect("profiles") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        if !name.ends_with(".properties") {
            continue;
        }
        seen += 1;
        for cores in [1, 2] {
            match (load(&name, cores), refused(&name)) {
                (Ok((_, notices)), None) => {
                    let warnings: Vec<_> =
                        notices.iter().filter(|notice| notice.level == tracing::Level::WARN).collect();
                    assert!(warnings.is_empty(), "{name}: {warnings:?}");
                }
                (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{name}: {error}"),
                (Ok(_), Some(_)) => panic!("{name} must be refused"),
                (Err(error), None) => panic!("{name}: {error}"),
            }
        }
    }
    assert!(seen > 20, "{seen} profiles");
}

#[test]
fn a_profile_says_what_it_says() {
    let (settings, _) = load("limits.properties", 1).expect("usable");
    assert_eq!((settings.request_max_bytes, settings.connections_max_idle_ms), (10_000, 3_000));
    assert_eq!((settings.max_connections_per_ip, settings.auto_create_topics), (20, false));
    let (settings, _) = load("replicas.properties", 1).expect("usable");
    assert_eq!(settings.offsets_topic.replication_factor, 30);
    let (settings, _) = load("small.properties", 1).expect("usable");
    assert_eq!((settings.group.max_size, settings.offsets.metadata_max_bytes), (2, 16));
    let (settings, _) = load("listeners.properties", 2).expect("usable");
    let told: Vec<_> = settings.listeners.iter().map(|listener| listener.advertised_host.as_str()).collect();
    assert_eq!(told, ["127.0.0.1", "localhost"]);
}

#[test]
fn the_clients_properties_load_without_a_warning() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/kafka.properties");
    let arguments = ServeArguments { config: Some(file), ..ServeArguments::default() };
    let (_, notices) = config::load(&arguments).expect("usable");
    assert!(notices.iter().all(|notice| notice.level != tracing::Level::WARN), "{notices:?}");
}

#[cfg(feature = "server")]
mod command {
    use std::process::{Command, Output};

    fn rallypoint(words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rallypoint")).args(words).output().expect("the command runs")
    }

    fn out(output: &Output) -> String {
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn error(output: &Output) -> String {
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    #[test]
    fn a_bad_configuration_ends_with_2_and_says_every_reason() {
        for verb in ["serve", "check", "config"] {
            let output = rallypoint(&[verb, "--cores", "none", "--set", "group.max.size=0"]);
            assert_eq!(output.status.code(), Some(2), "{verb}");
            let text = error(&output);
            assert!(text.contains("error: --cores: rallypoint.cores: `none`"), "{text}");
            assert!(text.contains("error: --set: group.max.size: 0 is below 1"), "{text}");
        }
    }

    #[test]
    fn check_fails_where_a_port_is_taken() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = taken.local_addr().expect("bound").to_string();
        let output = rallypoint(&["check", "--listen", &address]);
        assert_eq!(output.status.code(), Some(1), "{}", out(&output));
        assert!(out(&output).contains("FAILURE ports: PLAINTEXT cannot bind"), "{}", out(&output));
    }

    #[test]
    fn config_shows_what_would_be_used_and_lists_what_there_is() {
        let shown = rallypoint(&["config", "--cores", "2", "--set", "num.partitions=3"]);
        assert_eq!(out(&shown), "rallypoint.cores=2  # --cores\nnum.partitions=3  # --set\n");
        let listed = out(&rallypoint(&["config", "--list"]));
        assert!(listed.contains("socket.request.max.bytes\n    int, 1 or more; default 104857600\n"));
    }

    #[test]
    fn version_and_completions() {
        assert_eq!(out(&rallypoint(&["--version"])), format!("rallypoint {}\n", env!("CARGO_PKG_VERSION")));
        assert!(out(&rallypoint(&["--version", "--verbose"])).contains("features: server\n"));
        assert!(out(&rallypoint(&["completions", "bash"])).contains("_rallypoint"));
    }
}

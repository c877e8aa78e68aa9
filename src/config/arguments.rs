//! The options of `rallypoint serve`, as typed: what they mean is decided in [`mod@super::load`], by the same table that
//! reads the file, so that a bad value gets the same words wherever it was written.

use std::path::PathBuf;

/// Options of `rallypoint serve` (and of `check` and `config`, which look at what `serve` would do).
#[allow(rustdoc::broken_intra_doc_links, reason = "[::1] is an address, and the text is that of --help")]
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ServeArguments {
    /// Where to listen; may be given once for each listener
    ///
    /// NAME is Kafka's listener name, PLAINTEXT if left out. An IPv6 address stands in brackets: [::1]:9092. A listener
    /// of the same name in FILE is replaced; FILE's other listeners stay. [default: 127.0.0.1:9092]
    #[arg(long, value_name = "[NAME=]HOST:PORT")]
    pub listen: Vec<String>,

    /// The host that clients are told to connect to, on every listener
    ///
    /// Needed when a listener binds all addresses (0.0.0.0 or [::]).
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,

    /// How many cores serve; each is a Kafka node with a node id and ports of its own [default: 1]
    #[arg(long, value_name = "N")]
    pub cores: Option<String>,

    /// Where the server keeps its state; made if missing [default: ./rallypoint-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,

    /// Where to serve metrics over HTTP, for Prometheus; nowhere unless told
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics: Option<String>,

    /// A topic that exists from the start on, with num.partitions partitions unless told; may be repeated
    #[arg(long, value_name = "NAME[:PARTITIONS]")]
    pub topic: Vec<String>,

    /// A Kafka server.properties file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// A property, by its name in FILE; stronger than options and FILE; may be repeated
    ///
    /// `rallypoint config --list` shows all properties.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

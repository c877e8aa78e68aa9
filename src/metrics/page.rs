//! The page of metrics as Prometheus reads it, and the tables of them in the documentation.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::table::{self, CoreMetrics, Metric, Shown, Snapshot};

/// The media type of the page.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// What the page is made of.
#[derive(Debug)]
pub struct Page {
    cores: Arc<[Arc<CoreMetrics>]>,
    registry: Registry,
}

impl Page {
    /// A page of these cores, and of this process where it can be looked at.
    pub fn new(cores: Vec<Arc<CoreMetrics>>) -> Page {
        let cores: Arc<[Arc<CoreMetrics>]> = cores.into();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Cores(cores.clone())));
        #[cfg(feature = "server")]
        registry.register_collector(Box::new(super::process::Process));
        Page { cores, registry }
    }

    /// The page as it is now.
    pub fn text(&self) -> String {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry).expect("a String takes what is written");
        text
    }

    /// The cores that are stuck at `now_ms` on the monotonic clock.
    pub fn stuck_cores(&self, now_ms: u64) -> Vec<usize> {
        let cores = self.cores.iter().enumerate();
        cores.filter(|(_, core)| !core.pulse.is_alive(now_ms)).map(|(core, _)| core).collect()
    }
}

#[derive(Debug)]
struct Cores(Arc<[Arc<CoreMetrics>]>);

impl Collector for Cores {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshots: Vec<Snapshot> = self.0.iter().map(|core| core.snapshot()).collect();
        table::encode(&snapshots, &mut encoder)
    }
}

/// The tables of docs/operating.md.
pub fn markdown() -> String {
    let mut text = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for Metric { name, kind, label, shown, help, .. } in table::TABLE {
        let core = (*shown == Shown::PerCore).then_some("core");
        let labels: Vec<String> = core.iter().chain(label).map(|label| format!("`{label}`")).collect();
        let suffix = if *kind == MetricType::Counter { "_total" } else { "" };
        let (kind, labels) = (kind.as_str(), labels.join(", "));
        writeln!(text, "| `rallypoint_{name}{suffix}` | {kind} | {labels} | {help} |").expect("a String takes it");
    }
    #[cfg(feature = "server")]
    for (name, kind, help) in super::process::METRICS.iter().map(|(metric, _)| metric) {
        let suffix = if *kind == MetricType::Counter { "_total" } else { "" };
        writeln!(text, "| `process_{name}{suffix}` | {} | | {help} |", kind.as_str()).expect("a String takes it");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shown_apart_or_added_up() {
        let cores: Vec<Arc<CoreMetrics>> = (0..2).map(|_| Arc::default()).collect();
        for (core, count) in cores.iter().zip([1, 2]) {
            core.connections_accepted.add(count);
            core.turns.add(10 * count);
            core.groups.set(100 * count);
            core.api_requests.count(12);
            core.api_errors.count(16);
            core.close_reasons.count("mal\"formed");
            core.turn_seconds.count(60);
        }
        let text = Page::new(cores).text();
        for line in [
            "# HELP rallypoint_connections_accepted_total Connections accepted and admitted.",
            "# TYPE rallypoint_connections_accepted_total counter",
            "rallypoint_connections_accepted_total 3",
            "rallypoint_turns_total{core=\"0\"} 10",
            "rallypoint_turns_total{core=\"1\"} 20",
            "# TYPE rallypoint_groups gauge",
            "rallypoint_groups{core=\"1\"} 200",
            "rallypoint_api_requests_total{api=\"Heartbeat\"} 2",
            "rallypoint_api_errors_total{code=\"NOT_COORDINATOR\"} 2",
            "rallypoint_close_reasons_total{reason=\"mal\\\"formed\"} 2",
            "# TYPE rallypoint_turn_seconds histogram",
            "rallypoint_turn_seconds_bucket{core=\"1\",le=\"5e-05\"} 0",
            "rallypoint_turn_seconds_bucket{core=\"1\",le=\"0.0001\"} 1",
            "rallypoint_turn_seconds_bucket{core=\"1\",le=\"+Inf\"} 1",
            "rallypoint_turn_seconds_sum{core=\"1\"} 0.00006",
            "rallypoint_turn_seconds_count{core=\"1\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nin\n{text}");
        }
    }

    #[test]
    fn every_metric_is_on_the_page_and_in_the_documentation() {
        let (text, documentation) = (Page::new(vec![Arc::default()]).text(), markdown());
        for metric in table::TABLE {
            assert!(text.contains(&format!("# HELP rallypoint_{}", metric.name)), "{}", metric.name);
            assert!(documentation.contains(metric.help), "{}", metric.name);
        }
    }

    #[test]
    fn stuck_cores_are_named() {
        let cores: Vec<Arc<CoreMetrics>> = (0..3).map(|_| Arc::default()).collect();
        cores[0].pulse.turning(100_000);
        cores[2].pulse.sleeping(None);
        assert_eq!(Page::new(cores).stuck_cores(100_000), [1]);
    }
}

//! What the kernel knows of this process, under the names that Prometheus' own libraries use. Read from /proc when somebody
//! asks; what cannot be read is left out.

use std::fmt;

use procfs::process::{LimitValue, Stat};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Name, kind, and a sentence.
type ProcessMetric = (&'static str, MetricType, &'static str);

type Read = fn(&procfs::process::Process, &Stat) -> Option<f64>;

const COUNTER: MetricType = MetricType::Counter;
const GAUGE: MetricType = MetricType::Gauge;

/// The metrics of the process, without `process_` and `_total`, and how they are read.
#[rustfmt::skip]
pub(super) const METRICS: &[(ProcessMetric, Read)] = &[
    (("cpu_seconds", COUNTER, "CPU time of all threads, in user and in kernel mode."), |_, stat| Some(seconds(stat.utime + stat.stime))),
    (("resident_memory_bytes", GAUGE, "Memory in RAM."), |_, stat| Some((stat.rss * procfs::page_size()) as f64)),
    (("virtual_memory_bytes", GAUGE, "Address space in use."), |_, stat| Some(stat.vsize as f64)),
    (("threads", GAUGE, "Threads."), |_, stat| Some(stat.num_threads as f64)),
    (("open_fds", GAUGE, "Open descriptors."), |process, _| process.fd_count().ok().map(|count| count as f64)),
    (("max_fds", GAUGE, "Descriptors that may be open."), |process, _| max_fds(process)),
    (("start_time_seconds", GAUGE, "When the process began, in seconds since 1970."), |_, stat| start_time(stat)),
];

/// Reads them all for a page.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(process) = procfs::process::Process::myself() else { return Ok(()) };
        let Ok(stat) = process.stat() else { return Ok(()) };
        for ((name, kind, help), read) in METRICS {
            let Some(value) = read(&process, &stat) else { continue };
            let name = format!("process_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, *kind)?;
            match kind {
                MetricType::Counter => ConstCounter::new(value).encode(metric)?,
                _ => ConstGauge::new(value).encode(metric)?,
            }
        }
        Ok(())
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

fn max_fds(process: &procfs::process::Process) -> Option<f64> {
    match process.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(count) => Some(count as f64),
        LimitValue::Unlimited => Some(f64::INFINITY),
    }
}

fn start_time(stat: &Stat) -> Option<f64> {
    Some(procfs::boot_time_secs().ok()? as f64 + seconds(stat.starttime))
}

#[cfg(test)]
mod tests {
    use crate::metrics::Page;

    #[test]
    fn this_process_uses_memory_and_descriptors() {
        let text = Page::new(Vec::new()).text();
        let value = |name: &str| -> f64 {
            let line =
                text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            line.trim().parse().expect("a number")
        };
        assert!(value("process_resident_memory_bytes ") > 1e6);
        assert!(value("process_threads ") >= 1.0);
        assert!(value("process_open_fds ") >= 3.0 && value("process_max_fds ") >= value("process_open_fds "));
        assert!(value("process_start_time_seconds ") > 1.7e9);
        assert!(value("process_cpu_seconds_total ") >= 0.0);
    }
}

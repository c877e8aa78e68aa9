//! The table of what cores count. A new metric is a line here and the place that counts it.
//!
//! The name on the page is the field's with `rallypoint_` in front, and `_total` behind a counter's.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::cells::{ByApi, ByErrorCode, ByReason, Cell, Counter, Durations, Gauge, Labels};
use super::health::Pulse;

/// Whether the page shows a metric for each core, or added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// With a label `core`.
    PerCore,
    /// One sum for all cores.
    Summed,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Without prefix and suffix.
    pub name: &'static str,
    /// As Prometheus calls its kind.
    pub kind: MetricType,
    /// What tells its rows apart.
    pub label: Option<&'static str>,
    /// For each core, or added up.
    pub shown: Shown,
    /// Where it is counted, in the source.
    pub counted_in: &'static str,
    /// A sentence.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($name:ident: $kind:ident, $shown:ident, $counted_in:literal, $help:literal;)*) => {
        /// What one core counts. Only its own thread writes.
        #[derive(Debug, Default)]
        // Two lines of the cache: no core's counting disturbs another's.
        #[repr(align(128))]
        pub struct CoreMetrics {
            $(#[doc = $help] pub $name: $kind,)*
            /// Whether the core is alive.
            pub pulse: Pulse,
        }

        /// What one core had counted at some moment.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Snapshot {
            $(#[doc = $help] pub $name: <$kind as Cell>::Reading,)*
        }

        impl CoreMetrics {
            /// What has been counted so far.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.read(),)* }
            }
        }

        /// All lines.
        pub const TABLE: &[Metric] = &[$(Metric {
            name: stringify!($name),
            kind: $kind::TYPE,
            label: $kind::LABEL,
            shown: Shown::$shown,
            counted_in: $counted_in,
            help: $help,
        },)*];

        /// Writes all metrics of all cores.
        pub(super) fn encode(cores: &[Snapshot], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
            $(
                let readings = cores.iter().map(|core| &core.$name);
                let name = concat!("rallypoint_", stringify!($name));
                encode_metric::<$kind>(name, $help, Shown::$shown, readings, encoder)?;
            )*
            Ok(())
        }
    };
}

metrics! {
    // Connections.
    connections_accepted: Counter, Summed, "net/accept", "Connections accepted and admitted.";
    connections_closed: Counter, Summed, "net/close", "Connections closed again, whoever began.";
    connections_open: Gauge, PerCore, "net/core", "Connections that are open now.";
    connections_refused: ByReason, Summed, "net/accept", "Connections refused, by what was exhausted.";
    connections_closed_idle: Counter, Summed, "net/close", "Connections closed for connections.max.idle.ms.";
    connections_closed_stalled: Counter, Summed, "net/close", "Connections closed because a reply made no progress.";
    close_reasons: ByReason, Summed, "net/close", "Connections closed for what the peer did, by the first word of the reason in the log.";
    malformed: ByReason, Summed, "shard/dispatch", "Requests that did not parse, by what was wrong; their connections are closed.";
    accepts_suspended: Counter, Summed, "net/accept", "Accepting ended for want of descriptors or memory and was taken up again later.";
    // Requests.
    requests: Counter, PerCore, "net/receive", "Request frames taken up, whatever became of them.";
    api_requests: ByApi, Summed, "shard/dispatch", "Requests of a version that is served, by API.";
    api_errors: ByErrorCode, Summed, "shard/dispatch", "Answers with an error, each by the first error code in it, at the top or in a row.";
    requests_parked: Gauge, PerCore, "net/close", "Requests that wait for an event now: the rest of a group, more records, a change of the control state.";
    // The core.
    received_bytes: Counter, PerCore, "net/receive", "Bytes received.";
    sent_bytes: Counter, PerCore, "net/send", "Bytes sent.";
    sends: Counter, Summed, "net/send", "Sends submitted.";
    receives_starved: Counter, PerCore, "net/receive", "Receives that ended for want of a buffer.";
    receives_suspended: Counter, Summed, "net/receive", "Receives ended because the peer does not read or runs ahead of a parked request.";
    turns: Counter, PerCore, "net/core", "Turns of the core: it woke up and did what was there to do.";
    wakes: Counter, PerCore, "net/core", "Wake-ups by other threads, mostly for mail of another core.";
    completions: Counter, PerCore, "net/core", "Completions of sockets.";
    turn_seconds: Durations, PerCore, "net/core", "How long turns took, from waking up until what they sent was out.";
    // Groups.
    groups: Gauge, PerCore, "shard", "Groups that the core coordinates.";
    group_members: Gauge, PerCore, "shard", "Members of these groups.";
    group_pending_members: Gauge, PerCore, "shard", "Member ids that were handed out and have not joined yet.";
    committed_offsets: Gauge, PerCore, "shard", "Partitions with a committed offset, counted for each group.";
    // The journal.
    journal_state: Gauge, PerCore, "shard/journal", "0 it takes records, 1 it is being read, 2 the disk is full, 3 it failed and takes nothing until a restart.";
    journal_mode: Gauge, PerCore, "shard/journal", "When a commit is acknowledged (rallypoint.journal.mode): 0 fsync, 1 os, 2 none, 3 memory.";
    journal_appended_bytes: Gauge, PerCore, "shard/journal", "Where the journal ends: all that was ever written to it.";
    journal_waiting_bytes: Gauge, PerCore, "shard/journal", "What was appended and is not as durable yet as it shall be.";
    journal_writes: Counter, PerCore, "shard/journal", "Writes to the journal's files, each of all records that came up meanwhile.";
    journal_failures: Counter, PerCore, "shard/journal", "Writes that failed, and took what they held with them.";
    // The cluster.
    leadership_epoch: Gauge, PerCore, "shard", "Epoch of the leadership table that the core used last.";
}

fn encode_metric<'r, C: Cell>(
    name: &str,
    help: &str,
    shown: Shown,
    readings: impl Iterator<Item = &'r C::Reading>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result
where
    C::Reading: 'r,
{
    let mut metric = encoder.encode_descriptor(name, help, None, C::TYPE)?;
    match shown {
        Shown::PerCore => {
            for (core, reading) in readings.enumerate() {
                C::encode(reading, &vec![("core", core.to_string())], &mut metric)?;
            }
            Ok(())
        }
        Shown::Summed => {
            let mut sum = C::Reading::default();
            readings.for_each(|reading| C::add(&mut sum, reading));
            C::encode(&sum, &Labels::new(), &mut metric)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_help_is_a_sentence() {
        let mut names = std::collections::BTreeSet::new();
        for metric in TABLE {
            assert!(names.insert(metric.name), "{} stands twice", metric.name);
            assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{}", metric.name);
            let source = format!("{}/src/{}", env!("CARGO_MANIFEST_DIR"), metric.counted_in);
            let is_there = [".rs", "/mod.rs"].iter().any(|end| std::path::Path::new(&(source.clone() + end)).exists());
            assert!(is_there, "{}: no source {}", metric.name, metric.counted_in);
        }
    }

    #[test]
    fn cores_do_not_share_a_line_of_the_cache() {
        assert!(align_of::<CoreMetrics>() == 128 && size_of::<CoreMetrics>().is_multiple_of(128));
    }
}

//! What a core counts in: cells that its own thread writes and anybody reads. An addition is a load and a store, both
//! relaxed, because there is one writer; only what is rare (a close, malformed bytes) takes a lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use crate::errors::ErrorCode;
use crate::wire::versions;

/// Name and value of each label of a row.
pub(super) type Labels = Vec<(&'static str, String)>;

/// A kind of metric.
pub trait Cell: Default {
    /// What a read gives.
    type Reading: Clone + Default + PartialEq + fmt::Debug;

    /// As Prometheus calls it.
    const TYPE: MetricType;

    /// The label by which rows of the same metric are told apart.
    const LABEL: Option<&'static str> = None;

    /// The present value.
    fn read(&self) -> Self::Reading;

    /// Adds what another core read.
    fn add(sum: &mut Self::Reading, more: &Self::Reading);

    /// Writes the rows of a reading, each with `labels`.
    ///
    /// # Errors
    /// Those of what is written to.
    fn encode(reading: &Self::Reading, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result;
}

/// A count that only rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`; for the owning thread.
    #[inline]
    pub fn add(&self, count: u64) {
        // An atomic addition would cost ten times as much.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}

impl Cell for Counter {
    type Reading = u64;

    const TYPE: MetricType = MetricType::Counter;

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(sum: &mut u64, more: &u64) {
        *sum += more;
    }

    fn encode(reading: &u64, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        encode_count(*reading, labels, metric)
    }
}

/// How much there is at present.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Tells how much there is now; for the owning thread.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Cell for Gauge {
    type Reading = u64;

    const TYPE: MetricType = MetricType::Gauge;

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(sum: &mut u64, more: &u64) {
        *sum += more;
    }

    fn encode(reading: &u64, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        metric.encode_family(labels)?.encode_gauge(reading)
    }
}

macro_rules! numbered {
    ($($(#[$doc:meta])* $kind:ident: $length:literal from $first:literal, label $label:literal, $name:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind([Counter; $length + 1]);

        impl $kind {
            /// Counts one; for the owning thread. Numbers that have no counter share one.
            #[inline]
            pub fn count(&self, number: i16) {
                let index = usize::from(number.wrapping_sub($first).cast_unsigned());
                self.0[index.min($length)].add(1);
            }
        }

        impl Default for $kind {
            fn default() -> Self {
                $kind([const { Counter(AtomicU64::new(0)) }; $length + 1])
            }
        }

        impl Cell for $kind {
            /// Those that are not 0, by number.
            type Reading = BTreeMap<i16, u64>;

            const TYPE: MetricType = MetricType::Counter;
            const LABEL: Option<&'static str> = Some($label);

            fn read(&self) -> BTreeMap<i16, u64> {
                let counts = ($first..).zip(&self.0).map(|(number, counter)| (number, counter.read()));
                counts.filter(|(_, count)| *count > 0).collect()
            }

            fn add(sum: &mut BTreeMap<i16, u64>, more: &BTreeMap<i16, u64>) {
                more.iter().for_each(|(number, count)| *sum.entry(*number).or_default() += count);
            }

            fn encode(reading: &BTreeMap<i16, u64>, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result {
                let name: fn(i16) -> &'static str = $name;
                reading.iter().try_for_each(|(number, count)| {
                    encode_count(*count, &labelled(labels, $label, name(*number)), metric)
                })
            }
        }
    )*};
}

numbered! {
    /// Counters by API.
    ByApi: 95 from 0, label "api", versions::name;
    /// Counters by error code.
    ByErrorCode: 138 from -1, label "code", |code| ErrorCode(code).name();
}

/// Different texts that are counted; what comes after them is counted as "other".
const REASONS_MAX: usize = 64;

/// Counters by a text that is known only when it comes; for what is rare.
#[derive(Debug, Default)]
pub struct ByReason(Mutex<Vec<(String, u64)>>);

impl ByReason {
    /// Counts one; for the owning thread.
    pub fn count(&self, reason: &str) {
        let mut reasons = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = reasons.len() < REASONS_MAX || reasons.iter().any(|(known, _)| known == reason);
        add_reason(&mut reasons, if is_known { reason } else { "other" }, 1);
    }
}

impl Cell for ByReason {
    /// In the order in which they came up first.
    type Reading = Vec<(String, u64)>;

    const TYPE: MetricType = MetricType::Counter;
    const LABEL: Option<&'static str> = Some("reason");

    fn read(&self) -> Vec<(String, u64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(sum: &mut Vec<(String, u64)>, more: &Vec<(String, u64)>) {
        more.iter().for_each(|(reason, count)| add_reason(sum, reason, *count));
    }

    fn encode(reading: &Vec<(String, u64)>, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        reading.iter().try_for_each(|(reason, count)| encode_count(*count, &labelled(labels, "reason", reason), metric))
    }
}

/// Upper bounds of the counted durations, in microseconds.
const BOUNDS_US: [u64; 11] = [50, 100, 250, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000];

/// How long something took, in a counter for each range.
#[derive(Debug, Default)]
pub struct Durations {
    counts: [Counter; BOUNDS_US.len() + 1],
    sum_us: Counter,
}

impl Durations {
    /// Counts one; for the owning thread.
    #[inline]
    pub fn count(&self, duration_us: u64) {
        // Most are in the first range.
        let range = BOUNDS_US.iter().position(|bound_us| duration_us <= *bound_us).unwrap_or(BOUNDS_US.len());
        self.counts[range].add(1);
        self.sum_us.add(duration_us);
    }
}

/// What [`Durations`] have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationsReading {
    /// By range; the last one has no upper bound.
    pub counts: [u64; BOUNDS_US.len() + 1],
    /// All durations together, in microseconds.
    pub sum_us: u64,
}

impl Cell for Durations {
    type Reading = DurationsReading;

    const TYPE: MetricType = MetricType::Histogram;

    fn read(&self) -> DurationsReading {
        DurationsReading { counts: self.counts.each_ref().map(Cell::read), sum_us: self.sum_us.read() }
    }

    fn add(sum: &mut DurationsReading, more: &DurationsReading) {
        sum.counts.iter_mut().zip(more.counts).for_each(|(sum, more)| *sum += more);
        sum.sum_us += more.sum_us;
    }

    fn encode(reading: &DurationsReading, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS_US.iter().map(|bound_us| *bound_us as f64 / 1e6).chain([f64::INFINITY]);
        let ranges: Vec<(f64, u64)> = bounds.zip(reading.counts).collect();
        let (sum, count) = (reading.sum_us as f64 / 1e6, reading.counts.iter().sum());
        metric.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &ranges, None)
    }
}

fn add_reason(reasons: &mut Vec<(String, u64)>, reason: &str, count: u64) {
    match reasons.iter_mut().find(|(known, _)| known == reason) {
        Some((_, sum)) => *sum += count,
        None => reasons.push((reason.to_owned(), count)),
    }
}

fn labelled(labels: &Labels, name: &'static str, value: &str) -> Labels {
    labels.iter().cloned().chain([(name, value.to_owned())]).collect()
}

fn encode_count(count: u64, labels: &Labels, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;
    metric.encode_family(labels)?.encode_counter(&count, NO_EXEMPLAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_counter_each_and_strangers_share_one() {
        let (apis, codes) = (ByApi::default(), ByErrorCode::default());
        [0, 12, 12, 94, 95, -1, i16::MIN, i16::MAX].iter().for_each(|key| apis.count(*key));
        assert_eq!(apis.read(), BTreeMap::from([(0, 1), (12, 2), (94, 1), (95, 4)]));
        [-1, 0, 136, 137, i16::MIN].iter().for_each(|code| codes.count(*code));
        assert_eq!(codes.read(), BTreeMap::from([(-1, 1), (0, 1), (136, 1), (137, 2)]));
        assert_ne!((versions::name(94), ErrorCode(136).name()), ("unknown", "UNKNOWN_ERROR_CODE"));
        assert_eq!((versions::name(95), ErrorCode(137).name()), ("unknown", "UNKNOWN_ERROR_CODE"));
    }

    #[test]
    fn reasons_are_counted_up_to_a_bound() {
        let reasons = ByReason::default();
        reasons.count("oversized");
        reasons.count("oversized");
        (0..REASONS_MAX + 1).for_each(|number| reasons.count(&format!("reason{number}")));
        let mut read = reasons.read();
        assert_eq!(read[0], ("oversized".to_owned(), 2));
        assert_eq!(read.len(), REASONS_MAX + 1);
        assert_eq!(read[REASONS_MAX], ("other".to_owned(), 2));
        ByReason::add(&mut read, &vec![("oversized".to_owned(), 1), ("new".to_owned(), 1)]);
        assert_eq!((read[0].1, read.len()), (3, REASONS_MAX + 2));
    }

    #[test]
    fn durations_fall_into_ranges_by_their_upper_bounds() {
        let durations = Durations::default();
        [0, 50, 51, 2_000, 2_001, 100_000, 100_001, 7_000_000].iter().for_each(|us| durations.count(*us));
        let mut read = durations.read();
        assert_eq!(read.counts, [2, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 2]);
        assert_eq!(read.sum_us, 7_204_103);
        Durations::add(&mut read, &durations.read());
        assert_eq!((read.counts[11], read.sum_us), (4, 14_408_206));
    }
}

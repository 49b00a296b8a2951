//! Distributions that are written by the engine thread and read by any other, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of buckets for times, seconds: from a fast token to a long answer.
const SECONDS: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    20.0, 40.0, 80.0, 160.0,
];

/// How often a time fell into each of a few ranges.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Of each bucket and of all above, not cumulative.
    counts: [AtomicU64; SECONDS.len() + 1],
    sum_ns: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramValue {
    /// Upper bound of each bucket, seconds, and how many times were at most that long.
    pub buckets: Vec<(f64, u64)>,
    /// All times.
    pub count: u64,
    /// Their sum, seconds.
    pub sum_s: f64,
}

impl Histogram {
    pub(crate) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = SECONDS.partition_point(|&bound| bound < seconds);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        // 584 years of waiting fit.
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// What has been observed so far. The count is that of the buckets, so the two never disagree.
    pub fn value(&self) -> HistogramValue {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(SECONDS.len());
        for (index, bucket) in self.counts.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            buckets.extend(SECONDS.get(index).map(|&bound| (bound, count)));
        }
        HistogramValue {
            buckets,
            count,
            sum_s: self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }
}

/// How long requests and tokens took.
#[derive(Debug, Default)]
pub struct Latencies {
    /// From submit to a slot, of each request that got one.
    pub queue: Histogram,
    /// From submit to the first token, of each request that got a token.
    pub first_token: Histogram,
    /// From a token to the next of the same request.
    pub between_tokens: Histogram,
    /// From submit to the end, of each request that got a token.
    pub whole: Histogram,
    /// Steps that ended well.
    pub step: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_their_bounds_included() {
        let histogram = Histogram::default();
        for ms in [1, 1, 2, 10, 500_000] {
            histogram.observe(Duration::from_millis(ms));
        }
        let value = histogram.value();
        assert_eq!((value.count, value.sum_s), (5, 500.014));
        assert_eq!(
            value.buckets[..4],
            [(0.001, 2), (0.0025, 3), (0.005, 3), (0.01, 4)]
        );
        assert_eq!(value.buckets.last(), Some(&(160.0, 4)));
    }
}

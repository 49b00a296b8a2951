//! Pictures of the records of a run.

use ucuz_report::{Axis, Plot, Point, Scale};

use crate::load::record::Record;
use crate::load::summary::answered;

/// Points of a line at most.
const POINTS_MAX: usize = 300;

/// Share of answers by latency; `None` without answers.
pub(super) fn cdf(records: &[Record]) -> Option<Plot> {
    let answered = answered(records);
    let line = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let step = values.len().div_ceil(POINTS_MAX).max(1);
        let last = values.len().saturating_sub(1);
        let share = |i: usize| (i + 1) as f64 / values.len() as f64 * 100.0;
        let places = (0..values.len()).filter(|i| i % step == 0 || *i == last);
        places
            .map(|i| Point::new(values[i] * 1e3, share(i)))
            .collect::<Vec<Point>>()
    };
    let x = Axis::new("latency, ms", Scale::Log10);
    let y = Axis::new("answers at or below, %", Scale::Linear);
    let ttft = line(answered.iter().filter_map(|r| r.ttft_s()).collect());
    let e2e = line(answered.iter().map(|r| r.e2e_s()).collect());
    let plot = Plot::new("Latency", x, y).with("TTFT", ttft);
    (!answered.is_empty()).then(|| plot.with("E2E", e2e))
}

/// Requests under way over time; `None` without any.
pub(super) fn timeline(records: &[Record], wall_s: f64) -> Option<Plot> {
    if records.is_empty() || wall_s <= 0.0 {
        return None;
    }
    let sorted = |time: fn(&Record) -> f64| {
        let mut times: Vec<f64> = records.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let (sent, ended) = (sorted(|r| r.times.sent_s), sorted(|r| r.times.end_s));
    let under_way = |at: f64| {
        let before = |times: &[f64]| times.partition_point(|time| *time <= at);
        (before(&sent) - before(&ended)) as f64
    };
    let points = (0..=POINTS_MAX).map(|i| {
        let at = wall_s * i as f64 / POINTS_MAX as f64;
        Point::new(at, under_way(at))
    });
    let x = Axis::new("time, s", Scale::Linear);
    let y = Axis::new("requests under way", Scale::Linear);
    Some(Plot::new("Requests under way", x, y).with("requests", points.collect()))
}

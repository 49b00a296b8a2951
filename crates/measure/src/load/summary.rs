//! Figures of a run.

use std::collections::BTreeMap;

use serde::Serialize;
use ucuz_report::Quantile;

use super::memory::MemoryTrend;
use super::probe::{Field, Probe};
use super::record::{Outcome, Record};
use super::run::LoadResult;
use super::validity::{Validity, at};

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// The median.
    pub p50: Quantile,
    /// 90 % lie at or below.
    pub p90: Quantile,
    /// 95 %.
    pub p95: Quantile,
    /// 99 %.
    pub p99: Quantile,
}

/// Latencies of whole answers, in seconds. A time starts when the request was due.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// To the first event with text.
    pub ttft_s: Option<Quantiles>,
    /// (last event - first event) / (tokens - 1); not of answers of one token.
    pub tpot_s: Option<Quantiles>,
    /// Gaps between events with text, of all answers together. Those of one answer resemble each other, so intervals are
    /// too narrow and left out.
    pub itl_s: Option<Quantiles>,
    /// Whether each event was one token, so that gaps between events are gaps between tokens.
    pub is_itl_of_tokens: bool,
    /// To the end.
    pub e2e_s: Option<Quantiles>,
}

/// Tokens and requests a second, of whole answers, over the whole run: its beginning and its end, when fewer are under way,
/// are included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Throughput {
    /// From the start to the end of the last request.
    pub wall_s: f64,
    /// Tokens of prompts, those from a cache included.
    pub input_tokens_per_s: f64,
    /// Tokens of answers.
    pub output_tokens_per_s: f64,
    /// Whole answers.
    pub requests_per_s: f64,
}

/// How the server answered what was asked beside the load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeSummary {
    /// The page.
    pub path: String,
    /// Answers by status; `none` counts those that never came.
    pub statuses: BTreeMap<String, u64>,
    /// Half of the answers took at most that.
    pub p50_s: f64,
    /// 99 of a hundred.
    pub p99_s: f64,
    /// The slowest.
    pub max_s: f64,
    /// Numbers of the page.
    pub fields: BTreeMap<String, Field>,
}

/// All figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// What speaks against them comes first.
    pub validity: Validity,
    /// Latencies.
    pub latency: Latency,
    /// Throughput.
    pub throughput: Throughput,
    /// One a page.
    pub probes: Vec<ProbeSummary>,
    /// Memory of the server; absent where no process was named, or it is not there.
    pub memory: Option<MemoryTrend>,
}

impl Quantiles {
    /// Sums up; `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self {
            count: values.len(),
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: *values.first()?,
            max: *values.last()?,
            p50: Quantile::of(&values, 0.5)?,
            p90: Quantile::of(&values, 0.9)?,
            p95: Quantile::of(&values, 0.95)?,
            p99: Quantile::of(&values, 0.99)?,
        })
    }

    /// Each quantile with its name.
    pub fn named(&self) -> [(&'static str, Quantile); 4] {
        [
            ("p50", self.p50),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p99", self.p99),
        ]
    }

    /// The same without intervals.
    fn bare(mut self) -> Self {
        for quantile in [&mut self.p50, &mut self.p90, &mut self.p95, &mut self.p99] {
            (quantile.low, quantile.high) = (None, None);
        }
        self
    }
}

impl Summary {
    /// Figures of a run.
    pub fn of(result: &LoadResult) -> Self {
        let answered = answered(&result.records);
        let latency = Latency::of(&answered);
        let ttft_p50_s = latency.ttft_s.map(|ttft| ttft.p50.value);
        Self {
            validity: Validity::of(result, ttft_p50_s),
            latency,
            throughput: Throughput::of(&answered, result.wall_s),
            probes: result.probes.iter().map(ProbeSummary::of).collect(),
            memory: MemoryTrend::of(&result.memory, result.plan.settle_s),
        }
    }
}

/// Those with a whole answer.
pub(super) fn answered(records: &[Record]) -> Vec<&Record> {
    let is_ok = |record: &&Record| record.outcome == Outcome::Ok;
    records.iter().filter(is_ok).collect()
}

impl Latency {
    fn of(answered: &[&Record]) -> Self {
        let gaps = answered.iter().flat_map(|record| {
            let events = record.times.events_s.windows(2);
            events.map(|pair| pair[1] - pair[0])
        });
        Self {
            ttft_s: Quantiles::of(answered.iter().filter_map(|r| r.ttft_s()).collect()),
            tpot_s: Quantiles::of(answered.iter().filter_map(|r| r.tpot_s()).collect()),
            itl_s: Quantiles::of(gaps.collect()).map(Quantiles::bare),
            is_itl_of_tokens: answered
                .iter()
                .all(|r| r.output_tokens == Some(r.times.events_s.len() as u64)),
            e2e_s: Quantiles::of(answered.iter().map(|r| r.e2e_s()).collect()),
        }
    }
}

impl Throughput {
    fn of(answered: &[&Record], wall_s: f64) -> Self {
        let per_s = |amount: u64| {
            if wall_s > 0.0 {
                amount as f64 / wall_s
            } else {
                0.0
            }
        };
        let made = |record: &&Record| record.asked_prompt_tokens as u64;
        let input = answered
            .iter()
            .map(|r| r.prompt_tokens.unwrap_or(made(r)))
            .sum();
        Self {
            wall_s,
            input_tokens_per_s: per_s(input),
            output_tokens_per_s: per_s(answered.iter().map(|r| r.tokens()).sum()),
            requests_per_s: per_s(answered.len() as u64),
        }
    }
}

impl ProbeSummary {
    fn of(probe: &Probe) -> Self {
        let mut sorted = probe.latencies_s.clone();
        sorted.sort_by(f64::total_cmp);
        Self {
            path: probe.path.clone(),
            statuses: probe.statuses.clone(),
            p50_s: at(&sorted, 0.5),
            p99_s: at(&sorted, 0.99),
            max_s: at(&sorted, 1.0),
            fields: probe.fields.clone(),
        }
    }
}

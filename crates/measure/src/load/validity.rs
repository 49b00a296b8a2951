//! Whether the figures of a run mean what they say.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::{Outcome, Record};
use super::run::LoadResult;

/// A client may be late by this share of the median time to the first token.
const DELAY_SHARE_MAX: f64 = 0.01;
/// Or by this, if that is more.
const DELAY_MAX_S: f64 = 0.005;
/// The client's timer may be late by this at 99 %.
const LAG_MAX_S: f64 = 0.005;
/// How far both sides of Little's law may lie apart.
const LITTLE_MAX: f64 = 0.05;

/// Refusals of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Refusals {
    /// How many.
    pub count: u64,
    /// Those that said when to come back.
    pub with_retry_after: u64,
    /// The shortest wait named, in seconds.
    pub retry_after_min_s: Option<u64>,
    /// The longest.
    pub retry_after_max_s: Option<u64>,
}

/// Lengths of whole answers, and of their prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OutputLengths {
    /// Tokens that were asked for.
    pub asked: u64,
    /// Tokens that came.
    pub obtained: u64,
    /// Answers whose length is another than asked for.
    pub differing: u64,
    /// Tokens of prompts that were made.
    pub prompt_asked: u64,
    /// Tokens of prompts by the server's count, where it tells.
    pub prompt_counted: u64,
    /// Answers whose tokens the server counted; the others are counted by events.
    pub counted_by_server: u64,
    /// Tokens an event with text.
    pub tokens_per_event: Option<f64>,
}

/// Requests a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Rates {
    /// By the schedule, from its first request to its last; a closed loop has none.
    pub offered_per_s: Option<f64>,
    /// As they were sent.
    pub sent_per_s: Option<f64>,
    /// Whole answers over the whole run, its beginning and its end included.
    pub completed_per_s: f64,
}

/// How late the client was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ClientDelay {
    /// From when a request was due to when it was sent: half of them at most.
    pub p50_s: f64,
    /// 99 of a hundred at most.
    pub p99_s: f64,
    /// The latest.
    pub max_s: f64,
    /// What the 99 % may be: a hundredth of the median time to the first token, or 5 ms.
    pub limit_s: f64,
    /// 99 % of what the timer was late by.
    pub timer_p99_s: f64,
    /// The most it was late by.
    pub timer_max_s: f64,
}

/// Two ways to the mean number of requests under way.
///
/// Source: J. D. C. Little, "A proof for the queuing formula L = λW", Operations Research 9 (1961).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LittlesLaw {
    /// Counted as they began and ended.
    pub mean_in_flight: f64,
    /// Requests a second times their mean time, from the records.
    pub rate_times_latency: f64,
    /// How far apart, as a share.
    pub deviation: f64,
}

/// What was asked, what came back, and what speaks against the figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Validity {
    /// Requests sent.
    pub sent: u64,
    /// Requests by outcome; all outcomes are listed.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Whole answers by finish reason.
    pub finish_reasons: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Refusals.
    pub refusals: Refusals,
    /// What the first failure said.
    pub first_failure: Option<String>,
    /// Lengths.
    pub lengths: OutputLengths,
    /// Share of prompt tokens that came out of a cache, where the server tells.
    pub cached_share: Option<f64>,
    /// Rates.
    pub rates: Rates,
    /// Delay of the client.
    pub client_delay: ClientDelay,
    /// Most requests under way at once.
    pub in_flight_max: usize,
    /// Little's law.
    pub littles_law: LittlesLaw,
    /// What speaks against the figures, in words; empty where nothing does.
    pub flags: Vec<String>,
}

impl Validity {
    /// Judges a run; `ttft_p50_s` is the median time to the first token.
    pub(super) fn of(result: &LoadResult, ttft_p50_s: Option<f64>) -> Self {
        let records = &result.records;
        let failure = records.iter().find(|record| record.outcome.is_failure());
        let mut validity = Self {
            sent: records.len() as u64,
            outcomes: Outcome::ALL.map(|outcome| (outcome.name(), 0)).into(),
            refusals: refusals(records),
            first_failure: failure.map(words),
            lengths: lengths(records),
            cached_share: cached_share(records),
            rates: rates(result),
            client_delay: client_delay(result, ttft_p50_s),
            in_flight_max: result.in_flight.max,
            littles_law: littles_law(result),
            ..Self::default()
        };
        for record in records {
            *validity.outcomes.entry(record.outcome.name()).or_default() += 1;
            if let Some(status) = record.status {
                *validity.statuses.entry(status).or_default() += 1;
            }
            let reason = record.finish_reason.clone();
            if let Some(reason) = reason.filter(|_| record.outcome == Outcome::Ok) {
                *validity.finish_reasons.entry(reason).or_default() += 1;
            }
        }
        validity.flags = validity.objections(result);
        validity
    }

    /// How many requests had that outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(outcome.name()).copied().unwrap_or(0)
    }

    fn objections(&self, result: &LoadResult) -> Vec<String> {
        let answers = self.of_answers(&result.records).into_iter();
        let flags = answers.chain(self.of_client()).flatten();
        let ill = result.probes.iter().filter(|probe| !probe.is_well());
        let pages = ill.map(|probe| format!("{} was not answered with 200 each time", probe.path));
        flags.chain(pages).collect()
    }

    /// What speaks against the figures in what came back.
    fn of_answers(&self, records: &[Record]) -> [Option<String>; 5] {
        let failed = records.iter().filter(|r| r.outcome.is_failure()).count();
        let (ok, refused) = (self.count(Outcome::Ok), self.refusals.count);
        let differing = self.lengths.differing;
        let uncounted = ok - self.lengths.counted_by_server;
        let others = match ok {
            0 => "none is left to be timed",
            _ => "latencies are those of the others",
        };
        [
            (ok == 0).then(|| "no request was answered: there is no latency".to_owned()),
            (failed > 0).then(|| format!("{failed} of {} requests failed; {others}", self.sent)),
            (refused > 0).then(|| format!("{refused} requests were refused; {others}")),
            (differing > 0).then(|| {
                format!("{differing} of {ok} answers have another length than asked for")
            }),
            (uncounted > 0).then(|| {
                format!(
                    "the server did not count the tokens of {uncounted} answers: their events are counted instead"
                )
            }),
        ]
    }

    /// What speaks against them in how the client did.
    fn of_client(&self) -> [Option<String>; 3] {
        let (delay, little) = (&self.client_delay, &self.littles_law);
        let (late_ms, limit_ms) = (delay.p99_s * 1e3, delay.limit_s * 1e3);
        [
            (delay.p99_s > delay.limit_s).then(|| {
                format!(
                    "the client was late by {late_ms:.1} ms at 99 %, allowed are {limit_ms:.1} ms: give it more of the \
                     processor, or lower the rate"
                )
            }),
            (delay.timer_p99_s > LAG_MAX_S).then(|| {
                let late_ms = delay.timer_p99_s * 1e3;
                format!("the client's timer was late by {late_ms:.1} ms at 99 %: it is short of a processor")
            }),
            (little.deviation > LITTLE_MAX).then(|| {
                let percent = little.deviation * 100.0;
                format!("Little's law is off by {percent:.1} %: requests were not counted right")
            }),
        ]
    }
}

fn words(record: &Record) -> String {
    let status = record.status.map_or_else(String::new, |s| format!(" {s}"));
    let detail = record.detail.as_deref().unwrap_or("");
    format!(
        "request {}: {}{status}: {detail}",
        record.index,
        record.outcome.name()
    )
}

fn refusals(records: &[Record]) -> Refusals {
    let refused: Vec<&Record> = records
        .iter()
        .filter(|record| record.outcome == Outcome::Refused)
        .collect();
    let waits = || refused.iter().filter_map(|record| record.retry_after_s());
    let with_retry_after = refused.iter().filter(|r| r.retry_after.is_some()).count();
    Refusals {
        count: refused.len() as u64,
        with_retry_after: with_retry_after as u64,
        retry_after_min_s: waits().min(),
        retry_after_max_s: waits().max(),
    }
}

fn lengths(records: &[Record]) -> OutputLengths {
    let mut lengths = OutputLengths::default();
    let mut events = 0;
    for record in records.iter().filter(|r| r.outcome == Outcome::Ok) {
        let asked = record.asked_output_tokens as u64;
        lengths.asked += asked;
        lengths.obtained += record.tokens();
        lengths.differing += u64::from(record.tokens() != asked);
        lengths.prompt_asked += record.asked_prompt_tokens as u64;
        lengths.prompt_counted += record.prompt_tokens.unwrap_or(0);
        lengths.counted_by_server += u64::from(record.output_tokens.is_some());
        events += record.times.events_s.len();
    }
    lengths.tokens_per_event = (events > 0).then(|| lengths.obtained as f64 / events as f64);
    lengths
}

fn cached_share(records: &[Record]) -> Option<f64> {
    let told = records
        .iter()
        .filter_map(|r| Some((r.cached_tokens?, r.prompt_tokens?)));
    let (cached, all) = told.fold((0, 0), |sum, told| (sum.0 + told.0, sum.1 + told.1));
    (all > 0).then(|| cached as f64 / all as f64)
}

fn rates(result: &LoadResult) -> Rates {
    let (records, wall_s) = (&result.records, result.wall_s);
    let ok = records.iter().filter(|r| r.outcome == Outcome::Ok).count();
    let has_schedule = result.plan.arrivals.rate().is_some();
    let due = || rate(records.iter().map(|r| r.times.intended_s));
    Rates {
        offered_per_s: has_schedule.then(due).flatten(),
        sent_per_s: rate(records.iter().map(|r| r.times.sent_s)),
        completed_per_s: if wall_s > 0.0 {
            ok as f64 / wall_s
        } else {
            0.0
        },
    }
}

/// Gaps a second between the first and the last of some times.
fn rate(times: impl Iterator<Item = f64>) -> Option<f64> {
    let start = (f64::INFINITY, f64::NEG_INFINITY, 0u64);
    let (first, last, count) = times.fold(start, |(first, last, count), t| {
        (first.min(t), last.max(t), count + 1)
    });
    (count > 1 && last > first).then(|| (count - 1) as f64 / (last - first))
}

fn client_delay(result: &LoadResult, ttft_p50_s: Option<f64>) -> ClientDelay {
    let mut delays: Vec<f64> = result.records.iter().map(Record::client_delay_s).collect();
    let mut lags = result.lags_s.clone();
    delays.sort_by(f64::total_cmp);
    lags.sort_by(f64::total_cmp);
    ClientDelay {
        p50_s: at(&delays, 0.5),
        p99_s: at(&delays, 0.99),
        max_s: at(&delays, 1.0),
        limit_s: DELAY_MAX_S.max(ttft_p50_s.unwrap_or(0.0) * DELAY_SHARE_MAX),
        timer_p99_s: at(&lags, 0.99),
        timer_max_s: at(&lags, 1.0),
    }
}

/// The value at or below which a share of `sorted` lies; 0 without values.
pub(super) fn at(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

fn littles_law(result: &LoadResult) -> LittlesLaw {
    if result.wall_s <= 0.0 {
        return LittlesLaw::default();
    }
    let times = result
        .records
        .iter()
        .map(|r| r.times.end_s - r.times.sent_s);
    let rate_times_latency = times.sum::<f64>() / result.wall_s;
    let mean_in_flight = result.in_flight.seconds / result.wall_s;
    let larger = mean_in_flight.max(rate_times_latency);
    let apart = (mean_in_flight - rate_times_latency).abs();
    LittlesLaw {
        mean_in_flight,
        rate_times_latency,
        deviation: if larger > 0.0 { apart / larger } else { 0.0 },
    }
}

//! The result of a run as a document.

use serde::Serialize;
use ucuz_report::{
    Axis, Block, Cell, Column, Document, Fact, Plot, Point, Quantile, Scale, Section,
};

use super::arrivals::End;
use super::plan::PlanFacts;
use super::record::{Outcome, Record};
use super::run::LoadResult;
use super::summary::{Quantiles, Summary, answered};
use crate::Provenance;

/// Points of a plotted line at most.
const POINTS_MAX: usize = 300;
/// Numbers of pages that tables show.
const FIELDS_SHOWN: [&str; 3] = ["running", "waiting", "kv_bytes_used"];

/// A run, summed up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// `serve`.
    pub bench: &'static str,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// What was done.
    pub plan: PlanFacts,
    /// Figures.
    #[serde(flatten)]
    pub summary: Summary,
}

impl LoadReport {
    /// Sums up.
    pub fn new(provenance: Provenance, result: &LoadResult) -> Self {
        Self {
            bench: "serve",
            provenance,
            plan: result.plan.clone(),
            summary: Summary::of(result),
        }
    }

    /// Facts, tables and, for a page, plots of the records.
    pub fn document(&self, records: &[Record]) -> Document {
        let mut facts = self.provenance.facts();
        facts.extend(self.plan_facts());
        let mut sections = vec![
            self.validity(),
            self.latency(records),
            self.throughput(records),
        ];
        if !self.summary.probes.is_empty() {
            sections.push(self.probes());
        }
        sections.extend(self.memory());
        Document {
            title: format!("Load on {}", self.plan.url),
            facts,
            sections,
        }
    }

    fn plan_facts(&self) -> Vec<Fact> {
        let (plan, shape) = (&self.plan, &self.plan.requests);
        let outputs = &shape.output_tokens;
        let answers = match outputs.as_slice() {
            [one] => format!("{one} tokens out"),
            many => format!("{} lengths of answers in turn", many.len()),
        };
        let end = match plan.end {
            End::Requests(count) => format!("{count} requests"),
            End::Seconds(seconds) => format!("{seconds} s"),
        };
        let mut facts = vec![
            Fact::new("server", format!("{}, model {}", plan.url, plan.model)),
            Fact::new(
                "requests",
                format!(
                    "{} tokens in, the first {} the same in all; {answers}",
                    shape.prompt_tokens, shape.shared_tokens
                ),
            ),
            Fact::new(
                "arrivals",
                format!(
                    "{}; {end}; seed {}; {} before the run",
                    plan.arrivals.words(),
                    plan.seed,
                    plan.warm_up
                ),
            ),
        ];
        if shape.disconnect_share > 0.0 {
            let percent = shape.disconnect_share * 100.0;
            facts.push(Fact::new(
                "hang-ups",
                format!("{percent} % of requests, on purpose"),
            ));
        }
        facts
    }

    fn validity(&self) -> Section {
        let validity = &self.summary.validity;
        let verdict = match validity.flags.is_empty() {
            true => "Nothing speaks against these figures.".to_owned(),
            false => format!("To be considered: {}.", validity.flags.join("; ")),
        };
        let mut blocks = vec![Block::Paragraph(verdict)];
        if let Some(failure) = &validity.first_failure {
            blocks.push(Block::Paragraph(format!("First failure: {failure}")));
        }
        let mut table = Table2::new();
        table.push("sent", validity.sent.to_string());
        for outcome in Outcome::ALL {
            let count = validity.count(outcome);
            if count > 0 || outcome == Outcome::Ok {
                table.push(&outcome.name().replace('_', " "), count.to_string());
            }
        }
        self.push_answers(&mut table);
        self.push_client(&mut table);
        blocks.push(Block::Table(table.0));
        Section {
            heading: "Validity".to_owned(),
            blocks,
        }
    }

    fn push_answers(&self, table: &mut Table2) {
        let (validity, lengths) = (&self.summary.validity, &self.summary.validity.lengths);
        if validity.refusals.count > 0 {
            let refusals = &validity.refusals;
            let waits = match (refusals.retry_after_min_s, refusals.retry_after_max_s) {
                (Some(min), Some(max)) => format!(": {min} to {max} s"),
                _ => String::new(),
            };
            table.push(
                "Retry-After",
                format!("{} of {}{waits}", refusals.with_retry_after, refusals.count),
            );
        }
        let reasons = validity.finish_reasons.iter();
        let reasons: Vec<String> = reasons
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        table.push("finish reasons", reasons.join(", "));
        table.push(
            "tokens out",
            format!("{} of {} asked for", lengths.obtained, lengths.asked),
        );
        table.push(
            "tokens in",
            format!(
                "{} of {} made",
                lengths.prompt_counted, lengths.prompt_asked
            ),
        );
        if let Some(tokens) = lengths.tokens_per_event {
            table.push("tokens an event", format!("{tokens:.2}"));
        }
        if let Some(share) = validity.cached_share {
            table.push("prompt from cache", format!("{:.1} %", share * 100.0));
        }
    }

    fn push_client(&self, table: &mut Table2) {
        let validity = &self.summary.validity;
        let (rates, delay, little) = (
            &validity.rates,
            &validity.client_delay,
            &validity.littles_law,
        );
        let per_s = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.3}"));
        let (offered, sent) = (per_s(rates.offered_per_s), per_s(rates.sent_per_s));
        let done = rates.completed_per_s;
        table.push(
            "requests a second",
            format!("{offered} offered, {sent} sent, {done:.3} answered"),
        );
        let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
        table.push(
            "client delay, ms",
            format!(
                "{} p50, {} p99, {} max; allowed {}",
                ms(delay.p50_s),
                ms(delay.p99_s),
                ms(delay.max_s),
                ms(delay.limit_s)
            ),
        );
        table.push(
            "client's timer, ms",
            format!(
                "late by {} p99, {} max",
                ms(delay.timer_p99_s),
                ms(delay.timer_max_s)
            ),
        );
        table.push("most under way", validity.in_flight_max.to_string());
        table.push(
            "Little's law",
            format!(
                "{:.2} under way, rate x latency {:.2}: {:.1} % apart",
                little.mean_in_flight,
                little.rate_times_latency,
                little.deviation * 100.0
            ),
        );
    }

    fn latency(&self, records: &[Record]) -> Section {
        let latency = &self.summary.latency;
        let columns = vec![
            Column::new("quantity", ""),
            Column::new("share", ""),
            Column::new("time", "ms"),
            Column::new("95 % interval", "ms"),
            Column::new("values", ""),
        ];
        let mut table = ucuz_report::Table::new("", columns);
        for (name, quantiles) in [
            ("TTFT", &latency.ttft_s),
            ("TPOT", &latency.tpot_s),
            ("ITL", &latency.itl_s),
            ("E2E", &latency.e2e_s),
        ] {
            let Some(quantiles) = quantiles else { continue };
            for row in rows(name, quantiles, name == "ITL") {
                table.push(row);
            }
        }
        let gaps = match latency.is_itl_of_tokens {
            true => "each event was one token",
            false => "events are not tokens one by one",
        };
        let words = format!(
            "Of whole answers, from when a request was due. TTFT: to the first text. TPOT: from the first text to the last, a token after the first. \
             ITL: between two events with text; {gaps}. E2E: to the end. Where a sample is too small for an interval, \
             >= names what is certain; gaps of one answer resemble each other, so ITL has none."
        );
        let mut blocks = vec![Block::Paragraph(words), Block::Table(table)];
        blocks.extend(cdf(records).map(Block::Plot));
        Section {
            heading: "Latency".to_owned(),
            blocks,
        }
    }

    fn throughput(&self, records: &[Record]) -> Section {
        let throughput = &self.summary.throughput;
        let columns = vec![
            Column::new("time", "s"),
            Column::new("answers", "1/s"),
            Column::new("tokens in", "1/s"),
            Column::new("tokens out", "1/s"),
        ];
        let mut table = ucuz_report::Table::new("", columns);
        table.push(vec![
            Cell::number(throughput.wall_s),
            Cell::number(throughput.requests_per_s),
            Cell::number(throughput.input_tokens_per_s),
            Cell::number(throughput.output_tokens_per_s),
        ]);
        let words = "Whole answers over the whole run, its beginning and its end included.";
        let mut blocks = vec![Block::Paragraph(words.to_owned()), Block::Table(table)];
        blocks.extend(timeline(records, throughput.wall_s).map(Block::Plot));
        Section {
            heading: "Throughput".to_owned(),
            blocks,
        }
    }

    fn probes(&self) -> Section {
        let columns = vec![
            Column::new("page", ""),
            Column::new("answers by status", ""),
            Column::new("p50", "ms"),
            Column::new("p99", "ms"),
            Column::new("max", "ms"),
        ];
        let mut times = ucuz_report::Table::new("", columns);
        let names = ["page", "number", "first", "last", "min", "max"];
        let columns = names.map(|name| Column::new(name, ""));
        let mut fields = ucuz_report::Table::new("", columns.into());
        let mut has_fields = false;
        for probe in &self.summary.probes {
            let statuses = probe.statuses.iter();
            let statuses: Vec<String> = statuses.map(|(s, n)| format!("{s}: {n}")).collect();
            let mut row = vec![Cell::text(&probe.path), Cell::text(statuses.join(", "))];
            row.extend([probe.p50_s, probe.p99_s, probe.max_s].map(|s| Cell::number(s * 1e3)));
            times.push(row);
            for name in FIELDS_SHOWN {
                let Some(field) = probe.fields.get(name) else {
                    continue;
                };
                has_fields = true;
                let mut row = vec![Cell::text(&probe.path), Cell::text(name)];
                let numbers = [field.first, field.last, field.min, field.max];
                row.extend(numbers.map(|number| Cell::text(number.to_string())));
                fields.push(row);
            }
        }
        let mut blocks = vec![
            Block::Paragraph("Asked for every 100 ms, from when each question was due.".to_owned()),
            Block::Table(times),
        ];
        if has_fields {
            blocks.push(Block::Table(fields));
        }
        Section {
            heading: "Pages beside the load".to_owned(),
            blocks,
        }
    }

    fn memory(&self) -> Option<Section> {
        let trend = self.summary.memory?;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let slope = match trend.mib_per_10_min {
            Some(slope) => format!(
                "{slope:+.2} MiB in 10 minutes over {} samples",
                trend.fitted
            ),
            None => format!(
                "too few samples ({}) after --settle to say how it grows",
                trend.fitted
            ),
        };
        let words = format!(
            "Resident: {:.1} MiB at first, {:.1} at last, {:.1} at most; {slope}.",
            mib(trend.first_bytes),
            mib(trend.last_bytes),
            mib(trend.max_bytes)
        );
        Some(Section {
            heading: "Memory of the server".to_owned(),
            blocks: vec![Block::Paragraph(words)],
        })
    }
}

/// A table of names and words.
struct Table2(ucuz_report::Table);

impl Table2 {
    fn new() -> Self {
        let columns = vec![Column::new("what", ""), Column::new("how much", "")];
        Self(ucuz_report::Table::new("", columns))
    }

    fn push(&mut self, name: &str, value: String) {
        self.0.push(vec![Cell::text(name), Cell::Text(value)]);
    }
}

/// One row a quantile.
fn rows(name: &str, quantiles: &Quantiles, is_bare: bool) -> Vec<Vec<Cell>> {
    let row = |(share, quantile): (&str, Quantile)| {
        let ms = quantile.scaled(1e3);
        let interval = match (ms.low, ms.high) {
            _ if is_bare => Cell::Empty,
            (Some(low), Some(high)) => Cell::Range {
                low,
                high,
                uncertainty: ms.uncertainty(),
            },
            (low, _) => Cell::text(format!(">= {:.1}", low.unwrap_or(0.0))),
        };
        let value = match is_bare || ms.high.is_some() {
            true => Cell::Number {
                value: ms.value,
                uncertainty: ms.uncertainty(),
            },
            false => Cell::Empty,
        };
        vec![
            Cell::text(name),
            Cell::text(share),
            value,
            interval,
            Cell::Count(quantiles.count as u64),
        ]
    };
    quantiles.named().into_iter().map(row).collect()
}

/// Share of answers by latency; `None` without answers.
fn cdf(records: &[Record]) -> Option<Plot> {
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
fn timeline(records: &[Record], wall_s: f64) -> Option<Plot> {
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

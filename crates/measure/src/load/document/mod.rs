//! The result of a run as a document.

mod beside;
mod plots;
mod validity;

use serde::Serialize;
use ucuz_report::{Block, Cell, Column, Document, Fact, Quantile, Section, Table};

use super::arrivals::End;
use super::plan::PlanFacts;
use super::record::Record;
use super::run::LoadResult;
use super::summary::{Quantiles, Summary};
use crate::Provenance;
use plots::{cdf, timeline};

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
        let summary = &self.summary;
        let mut sections = vec![
            summary.validity.section(),
            self.latency(records),
            self.throughput(records),
        ];
        sections.extend(beside::pages(&summary.probes));
        sections.extend(summary.memory.as_ref().map(beside::memory));
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

    fn latency(&self, records: &[Record]) -> Section {
        let latency = &self.summary.latency;
        let columns = vec![
            Column::new("quantity", ""),
            Column::new("share", ""),
            Column::new("time", "ms"),
            Column::new("95 % interval", "ms"),
            Column::new("values", ""),
        ];
        let mut table = Table::new("", columns);
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
        let mut table = Table::new("", columns);
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

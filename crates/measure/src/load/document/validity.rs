//! The validity block: what was asked, what came back, what speaks against the figures.

use ucuz_report::{Block, Cell, Column, Section, Table};

use crate::load::record::Outcome;
use crate::load::validity::Validity;

impl Validity {
    /// The section of a report.
    pub(in crate::load) fn section(&self) -> Section {
        let validity = self;
        let verdict = match validity.flags.is_empty() {
            true => "Nothing speaks against these figures.".to_owned(),
            false => format!("To be considered: {}.", validity.flags.join("; ")),
        };
        let mut blocks = vec![Block::Paragraph(verdict)];
        if let Some(failure) = &validity.first_failure {
            blocks.push(Block::Paragraph(format!("First failure: {failure}")));
        }
        let mut table = Facts::new();
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

    fn push_answers(&self, table: &mut Facts) {
        let (validity, lengths) = (self, &self.lengths);
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

    fn push_client(&self, table: &mut Facts) {
        let validity = self;
        let (rates, delay, little) = (
            &validity.rates,
            &validity.client_delay,
            &validity.littles_law,
        );
        let (offered, sent) = (rates.offered_per_s, rates.sent_per_s);
        let named = [
            ("offered", offered),
            ("sent", sent),
            ("answered", Some(rates.completed_per_s)),
        ];
        let rates = named
            .iter()
            .filter_map(|(name, rate)| Some(format!("{:.3} {name}", (*rate)?)));
        let rates: Vec<String> = rates.collect();
        table.push("requests a second", rates.join(", "));
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
}

/// A table of names and words.
struct Facts(Table);

impl Facts {
    fn new() -> Self {
        let columns = vec![Column::new("what", ""), Column::new("how much", "")];
        Self(Table::new("", columns))
    }

    fn push(&mut self, name: &str, value: String) {
        self.0.push(vec![Cell::text(name), Cell::Text(value)]);
    }
}

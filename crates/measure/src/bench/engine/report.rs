//! The result as a report.

use ucuz_report::{Axis, Block, Cell, Column, Document, Mark, Plot, Point, Scale, Section, Table};

use super::{EngineResult, Knee, STEPS};
use crate::bench::{Measured, Roofline};

impl EngineResult {
    /// The report, for the terminal and as a page.
    pub fn document(&self) -> Document {
        let mut facts = self.model.facts();
        facts.extend(self.provenance.facts());
        facts.extend(self.roofline.iter().map(Roofline::fact));
        let sections = [
            self.prefill_section(),
            self.decode_section(),
            self.batch_section(),
        ];
        Document {
            title: format!("Speed of {}", self.model.name),
            facts,
            sections: sections.into_iter().flatten().collect(),
        }
    }

    fn prefill_section(&self) -> Option<Section> {
        let points: Vec<(usize, &Measured)> = self
            .prefill
            .iter()
            .map(|point| (point.prompt_tokens, &point.measured))
            .collect();
        let words = format!(
            "Time from a prompt in hand to its first token: an empty cache, up to {} tokens a step.",
            self.step_rows
        );
        let x = "prompt, tokens";
        let plots = [
            time_plot("Time to the first token", x, &points),
            speed_plot("Prefill speed", x, &points),
        ];
        section("Prefill", words, &points, ("prompt", plots))
    }

    fn decode_section(&self) -> Option<Section> {
        let points: Vec<(usize, &Measured)> = self
            .decode
            .iter()
            .map(|point| (point.context, &point.measured))
            .collect();
        let words = format!(
            "Time of one step of one sequence with that many tokens in its cache, its own included; each run is the mean of {STEPS} steps."
        );
        let x = "context, tokens";
        let plots = [
            time_plot("Time of a decode step", x, &points),
            speed_plot("Decode speed", x, &points),
        ];
        section("Decode", words, &points, ("context", plots))
    }

    fn batch_section(&self) -> Option<Section> {
        let points: Vec<(usize, &Measured)> = self
            .batch
            .iter()
            .map(|point| (point.batch, &point.measured))
            .collect();
        let knee = self.knee.as_ref().map_or_else(String::new, knee_words);
        let words = format!(
            "One step of several sequences with {} tokens each in the cache, the step's own included; every sequence gets one token, so the time is what each waits for its next one. Each run is the mean of {STEPS} steps.{knee}",
            self.batch_context
        );
        let x = "sequences";
        let mut speed = speed_plot("Throughput", x, &points);
        speed.marks.extend(self.knee.iter().map(|knee| Mark {
            x: knee.batch as f64,
            label: format!("knee: {}", knee.batch),
        }));
        let plots = [speed, time_plot("Time between tokens", x, &points)];
        section("Batches", words, &points, ("sequences", plots))
    }
}

fn knee_words(knee: &Knee) -> String {
    let speed = knee.tokens_per_s;
    match knee.is_passed {
        true => format!(
            " The knee is at {} sequences ({speed:.0} tokens/s): the largest batch up to which each added sequence gains at least half of what one alone gives.",
            knee.batch
        ),
        false => format!(
            " No knee up to {} sequences ({speed:.0} tokens/s): each added sequence still gains at least half of what one alone gives.",
            knee.batch
        ),
    }
}

/// Words, table, plots; none without points.
fn section(
    heading: &str,
    words: String,
    points: &[(usize, &Measured)],
    (first_column, plots): (&str, [Plot; 2]),
) -> Option<Section> {
    if points.is_empty() {
        return None;
    }
    let unit = if first_column == "sequences" {
        ""
    } else {
        "tokens"
    };
    let mut columns = vec![Column::new(first_column, unit)];
    columns.extend(Measured::columns());
    let mut table = Table::new("", columns);
    for (x, measured) in points {
        let mut row = vec![Cell::Count(*x as u64)];
        row.extend(measured.cells());
        table.push(row);
    }
    let mut blocks = vec![Block::Paragraph(words), Block::Table(table)];
    blocks.extend(plots.map(Block::Plot));
    Some(Section {
        heading: heading.to_owned(),
        blocks,
    })
}

fn time_plot(title: &str, x: &str, points: &[(usize, &Measured)]) -> Plot {
    let time = points
        .iter()
        .map(|(x, measured)| Point::measured(*x as f64, &measured.seconds.scaled(1e3)));
    let axes = (
        Axis::new(x, Scale::Log2),
        Axis::new("time, ms", Scale::Log10),
    );
    Plot::new(title, axes.0, axes.1).with("measured", time.collect())
}

fn speed_plot(title: &str, x: &str, points: &[(usize, &Measured)]) -> Plot {
    let speed = points
        .iter()
        .map(|(x, measured)| Point::measured(*x as f64, &measured.tokens_per_s));
    let axes = (
        Axis::new(x, Scale::Log2),
        Axis::new("tokens/s", Scale::Linear),
    );
    Plot::new(title, axes.0, axes.1).with("measured", speed.collect())
}

//! The result as a report.

use ucuz_report::{
    Axis, Block, Cell, Column, Document, Plot, Point, PowerLaw, Scale, Section, Stroke, Table,
};

use super::{CachePoint, CacheResult, Cost, Growth};

const MIB: f64 = (1 << 20) as f64;

impl CacheResult {
    /// The report, for the terminal and as a page.
    pub fn document(&self) -> Document {
        let mut facts = self.model.facts();
        facts.extend(self.provenance.facts());
        Document {
            title: format!("With and without the KV cache: {}", self.model.name),
            facts,
            sections: vec![
                self.identity_section(),
                self.cost_section(),
                self.growth_section(),
            ],
        }
    }

    fn identity_section(&self) -> Section {
        let identity = &self.identity;
        let verdict = |equal| if equal { "all equal" } else { "NOT EQUAL" };
        let words = format!(
            "{} tokens {}, {} logits {} (with ==).",
            identity.tokens_compared,
            verdict(identity.tokens_equal),
            identity.logits_compared,
            verdict(identity.logits_equal)
        );
        Section {
            heading: "Identity".to_owned(),
            blocks: vec![Block::Paragraph(words)],
        }
    }

    fn cost_section(&self) -> Section {
        let words = "Everything from the first step to that many tokens. Memory is the peak beyond the loaded weights: by formula for just that many tokens, and as the system saw it.";
        let plots = [
            self.plot("Time to generate", "time, s", |cost| {
                Point::measured(0.0, &cost.seconds)
            }),
            self.plot("Multiply-accumulates", "GMAC", |cost| {
                Point::new(0.0, cost.macs as f64 / 1e9)
            }),
            self.plot("Attention scores", "MiB", |cost| {
                Point::new(0.0, cost.score_bytes as f64 / MIB)
            }),
            self.plot("Memory beyond the weights, by formula", "MiB", |cost| {
                Point::new(0.0, cost.memory_bytes as f64 / MIB)
            }),
        ];
        let mut blocks = vec![
            Block::Paragraph(words.to_owned()),
            Block::Table(self.time_table()),
            Block::Table(self.memory_table()),
        ];
        blocks.extend(plots.map(Block::Plot));
        Section {
            heading: "Costs".to_owned(),
            blocks,
        }
    }

    fn time_table(&self) -> Table {
        let columns = vec![
            Column::new("tokens", ""),
            Column::new("with", "s"),
            Column::new("min-max", "s"),
            Column::new("runs", ""),
            Column::new("without", "s"),
            Column::new("min-max", "s"),
            Column::new("runs", ""),
            Column::new("without/with", ""),
            Column::new("with", "GMAC"),
            Column::new("without", "GMAC"),
        ];
        let mut table = Table::new("Time and multiply-accumulates", columns);
        for CachePoint {
            tokens,
            with,
            without,
        } in &self.points
        {
            let mut row = vec![Cell::Count(*tokens as u64)];
            for cost in [with, without] {
                row.push(Cell::median(&cost.seconds));
                row.push(Cell::extremes(&cost.seconds));
                row.push(Cell::Count(cost.seconds.repetitions as u64));
            }
            row.push(Cell::number(without.seconds.median / with.seconds.median));
            row.push(Cell::number(with.macs as f64 / 1e9));
            row.push(Cell::number(without.macs as f64 / 1e9));
            table.push(row);
        }
        table
    }

    fn memory_table(&self) -> Table {
        let columns = vec![
            Column::new("tokens", ""),
            Column::new("scores with", "MiB"),
            Column::new("without", "MiB"),
            Column::new("keys+values with", "MiB"),
            Column::new("without", "MiB"),
            Column::new("formula with", "MiB"),
            Column::new("without", "MiB"),
            Column::new("peak with", "MiB"),
            Column::new("without", "MiB"),
        ];
        let mut table = Table::new("Bytes read, and memory", columns);
        let mib = |bytes: u64| Cell::number(bytes as f64 / MIB);
        for CachePoint {
            tokens,
            with,
            without,
        } in &self.points
        {
            let mut row = vec![Cell::Count(*tokens as u64)];
            let bytes: [fn(&Cost) -> Option<u64>; 4] = [
                |cost| Some(cost.score_bytes),
                |cost| Some(cost.kv_bytes),
                |cost| Some(cost.memory_bytes),
                |cost| cost.memory_peak_bytes,
            ];
            for value in bytes {
                row.extend([with, without].map(|cost| value(cost).map_or(Cell::Empty, mib)));
            }
            table.push(row);
        }
        table
    }

    fn growth_section(&self) -> Section {
        let columns = vec![
            Column::new("quantity", ""),
            Column::new("with", "exponent"),
            Column::new("error", ""),
            Column::new("without", "exponent"),
            Column::new("error", ""),
        ];
        let mut table = Table::new("", columns);
        for Growth {
            quantity,
            with,
            without,
        } in &self.growth
        {
            let mut row = vec![Cell::text(*quantity)];
            row.extend([with, without].into_iter().flat_map(exponent));
            table.push(row);
        }
        let words = "Each total over the number of tokens n, as a power n^e fitted by least squares on logarithms over all lengths, with the standard error of e.";
        Section {
            heading: "Growth".to_owned(),
            blocks: vec![Block::Paragraph(words.to_owned()), Block::Table(table)],
        }
    }

    fn plot(&self, title: &str, unit: &str, value: fn(&Cost) -> Point) -> Plot {
        let points = |side: fn(&CachePoint) -> &Cost| {
            let point = |point: &CachePoint| Point {
                x: point.tokens as f64,
                ..value(side(point))
            };
            self.points.iter().map(point).collect()
        };
        let x = Axis::new("tokens generated", Scale::Log2);
        Plot::new(title, x, Axis::new(unit, Scale::Log10))
            .with("with the cache", Stroke::Solid, points(|p| &p.with))
            .with("without", Stroke::Solid, points(|p| &p.without))
    }
}

/// Exponent and standard error.
fn exponent(law: &Option<PowerLaw>) -> [Cell; 2] {
    let Some(law) = law else {
        return [Cell::Empty, Cell::Empty];
    };
    let error = law.standard_error;
    [
        Cell::Number {
            value: law.exponent,
            uncertainty: error.unwrap_or(0.0).max(0.001),
        },
        error.map_or(Cell::Empty, |error| Cell::text(format!("{error:.3}"))),
    ]
}

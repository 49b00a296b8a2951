//! The result as a report.

use ucuz_report::{
    Axis, Block, Cell, Column, Document, Plot, Point, PowerLaw, Scale, Section, Table,
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
            self.plot("Time to generate", ("time", "time, s"), |cost| {
                Point::measured(0.0, &cost.seconds)
            }),
            self.plot(
                "Multiply-accumulates",
                ("multiply-accumulates", "GMAC"),
                |cost| Point::new(0.0, cost.macs as f64 / 1e9),
            ),
            self.plot("Attention scores", ("score bytes", "MiB"), |cost| {
                Point::new(0.0, cost.score_bytes as f64 / MIB)
            }),
            self.plot(
                "Memory beyond the weights, by formula",
                ("memory by formula", "MiB"),
                |cost| Point::new(0.0, cost.memory_bytes as f64 / MIB),
            ),
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
        let columns = [
            ("tokens", ""),
            ("with", "s"),
            ("min-max", "s"),
            ("runs", ""),
            ("without", "s"),
            ("min-max", "s"),
            ("runs", ""),
            ("without/with", ""),
            ("with", "GMAC"),
            ("without", "GMAC"),
        ];
        let giga = |cost: &Cost| Cell::number(cost.macs as f64 / 1e9);
        let cells = |point: &CachePoint| {
            let CachePoint { with, without, .. } = point;
            let mut row = vec![Cell::Count(point.tokens as u64)];
            for Cost { seconds, .. } in [with, without] {
                row.extend([Cell::median(seconds), Cell::extremes(seconds)]);
                row.push(Cell::Count(seconds.repetitions as u64));
            }
            row.push(Cell::number(without.seconds.median / with.seconds.median));
            row.extend([with, without].map(giga));
            row
        };
        let rows = self.points.iter().map(cells);
        table("Time and multiply-accumulates", &columns, rows)
    }

    fn memory_table(&self) -> Table {
        let columns = [
            ("tokens", ""),
            ("scores with", "MiB"),
            ("without", "MiB"),
            ("keys+values with", "MiB"),
            ("without", "MiB"),
            ("formula with", "MiB"),
            ("without", "MiB"),
            ("peak with", "MiB"),
            ("without", "MiB"),
        ];
        let mib = |bytes: u64| Cell::number(bytes as f64 / MIB);
        let bytes: [fn(&Cost) -> Option<u64>; 4] = [
            |cost| Some(cost.score_bytes),
            |cost| Some(cost.kv_bytes),
            |cost| Some(cost.memory_bytes),
            |cost| cost.memory_peak_bytes,
        ];
        let cells = |point: &CachePoint| {
            let mut row = vec![Cell::Count(point.tokens as u64)];
            for value in bytes {
                let both = [&point.with, &point.without];
                row.extend(both.map(|cost| value(cost).map_or(Cell::Empty, mib)));
            }
            row
        };
        let rows = self.points.iter().map(cells);
        table("Bytes read, and memory", &columns, rows)
    }

    fn growth_section(&self) -> Section {
        let columns = [
            ("quantity", ""),
            ("with", "exponent"),
            ("error", ""),
            ("without", "exponent"),
            ("error", ""),
        ];
        let cells = |growth: &Growth| {
            let laws = [&growth.with, &growth.without];
            let mut row = vec![Cell::text(growth.quantity)];
            row.extend(laws.into_iter().flat_map(exponent));
            row
        };
        let table = table("", &columns, self.growth.iter().map(cells));
        let words = "Each total over the number of tokens n, as a power n^e fitted by least squares on logarithms over all lengths, with the standard error of e.";
        Section {
            heading: "Growth".to_owned(),
            blocks: vec![Block::Paragraph(words.to_owned()), Block::Table(table)],
        }
    }

    /// A cost both ways, with the exponents of `quantity` in the legend.
    fn plot(&self, title: &str, (quantity, unit): (&str, &str), value: fn(&Cost) -> Point) -> Plot {
        let growth = self
            .growth
            .iter()
            .find(|growth| growth.quantity == quantity);
        let named = |name: &str, law: fn(&Growth) -> Option<PowerLaw>| match growth.and_then(law) {
            Some(law) => format!("{name}, n^{:.2}", law.exponent),
            None => name.to_owned(),
        };
        let points = |side: fn(&CachePoint) -> &Cost| {
            let point = |point: &CachePoint| Point {
                x: point.tokens as f64,
                ..value(side(point))
            };
            self.points.iter().map(point).collect()
        };
        let x = Axis::new("tokens generated", Scale::Log2);
        Plot::new(title, x, Axis::new(unit, Scale::Log10))
            .with(
                named("with the cache", |growth| growth.with),
                points(|p| &p.with),
            )
            .with(
                named("without", |growth| growth.without),
                points(|p| &p.without),
            )
    }
}

fn table(caption: &str, columns: &[(&str, &str)], rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    let columns = columns.iter();
    let columns = columns.map(|(name, unit)| Column::new(*name, *unit));
    let mut table = Table::new(caption, columns.collect());
    rows.for_each(|row| table.push(row));
    table
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

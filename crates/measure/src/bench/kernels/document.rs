//! How the measurements look.

use ucuz_report::{
    Axis, Block, Cell, Column, Document, Fact, Plot, Point, SERIES_MAX, Scale, Section, Table,
};

use super::{KernelBench, KernelRow, MARGIN, MeasuredCeiling, Operation};

/// A variant's name and its points.
type Line<'a> = (&'a str, Vec<Point>);

impl KernelBench {
    /// The report.
    pub fn document(&self) -> Document {
        let mut facts = self.provenance.facts();
        facts.extend(self.facts());
        let operations = Operation::ALL.iter();
        let sections = operations.filter_map(|operation| self.operation(operation.name()));
        let sections = [self.ceiling_section()]
            .into_iter()
            .chain(sections)
            .chain([self.verdict_section()]);
        Document {
            title: "Kernels against the roofline".to_owned(),
            facts,
            sections: sections.collect(),
        }
    }

    fn facts(&self) -> [Fact; 2] {
        let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
        let cache = self.largest_cache_bytes.map_or_else(
            || "the largest cache is not known".to_owned(),
            |bytes| format!("the largest cache holds {}", mib(bytes)),
        );
        let weights = format!("{}, activations {}", self.shape, self.activations);
        let cold = format!(
            "calls walk through {}; {cache}",
            mib(self.cold_bytes as u64)
        );
        [Fact::new("weights", weights), Fact::new("memory", cold)]
    }

    fn ceiling_section(&self) -> Section {
        let columns = [
            ("device", ""),
            ("ceiling", ""),
            ("median", "G/s"),
            ("after", "G/s"),
            ("best", "G/s"),
            ("unit", ""),
        ];
        let mut table = Table::new("", self::columns(&columns));
        for device in &self.ceilings {
            for ceiling in &device.ceilings.measured {
                table.push(ceiling_cells(&device.device, ceiling));
            }
        }
        let words = "The most that each device does, all threads together, measured before everything else and again after \
                     it where that differs by over 10 %. A share below is that of the larger median."
            .to_owned();
        Section {
            heading: "Ceilings".to_owned(),
            blocks: vec![Block::Paragraph(words), Block::Table(table)],
        }
    }

    /// One operation's table; none when it was not measured.
    fn operation(&self, name: &str) -> Option<Section> {
        let rows: Vec<&KernelRow> = self
            .rows
            .iter()
            .filter(|r| r.label.operation == name)
            .collect();
        if rows.is_empty() {
            return None;
        }
        let mut table = Table::new("", columns(&COLUMNS));
        rows.iter().for_each(|row| table.push(cells(row)));
        let mut blocks = vec![Block::Table(table)];
        blocks.extend(self.plots(&rows).into_iter().map(Block::Plot));
        Some(Section {
            heading: name.to_owned(),
            blocks,
        })
    }

    /// Operations against rows on the picked device, as many lines a plot as can be told apart; none when there is nothing
    /// to draw a line through.
    fn plots(&self, rows: &[&KernelRow]) -> Vec<Plot> {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for row in rows.iter().filter(|row| row.device == self.picked) {
            let point = Point::measured(
                row.label.rows as f64,
                &row.seconds.rate(row.operations as f64 / 1e9),
            );
            match lines
                .iter_mut()
                .find(|(name, _)| *name == row.label.variant)
            {
                Some((_, points)) => points.push(point),
                None => lines.push((&row.label.variant, vec![point])),
            }
        }
        lines.retain(|(_, points)| points.len() > 1 && points.iter().any(|p| p.y > 0.0));
        let title = format!("{} on {}", rows[0].label.operation, self.picked);
        lines
            .chunks(SERIES_MAX)
            .map(|part| plot(title.clone() + &names(part, lines.len()), part))
            .collect()
    }

    fn verdict_section(&self) -> Section {
        let mut blocks = Vec::new();
        if self.ceilings.len() < 2 {
            blocks.push(format!(
                "{} alone was measured: nothing to compare.",
                self.picked
            ));
        } else if self.slower_picks.is_empty() {
            blocks.push(format!(
                "{} is picked and is nowhere slower than another device by over {:.0} % and the spread.",
                self.picked,
                MARGIN * 100.0
            ));
        } else {
            blocks.push(format!(
                "{} is picked and is not the fastest in:",
                self.picked
            ));
            blocks.extend(self.slower_picks.iter().map(ToString::to_string));
        }
        Section {
            heading: "Pick".to_owned(),
            blocks: blocks.into_iter().map(Block::Paragraph).collect(),
        }
    }
}

/// What a title says of the lines of `part`, one of several plots of `all` lines; a plot of one line has no legend.
fn names(part: &[Line<'_>], all: usize) -> String {
    match part {
        [("", _)] => String::new(),
        [(only, _)] => format!(", {only}"),
        [(first, _), .., (last, _)] if part.len() < all => format!(", {first} to {last}"),
        _ => String::new(),
    }
}

fn plot(title: String, lines: &[Line<'_>]) -> Plot {
    let [x, y] = ["rows", "Goperations/s"].map(|label| Axis::new(label, Scale::Log2));
    let plot = Plot::new(title, x, y);
    lines.iter().fold(plot, |plot, (name, points)| {
        plot.with(*name, points.clone())
    })
}

/// Columns of an operation's table.
const COLUMNS: [(&str, &str); 11] = [
    ("variant", ""),
    ("rows", ""),
    ("device", ""),
    ("time", "us"),
    ("min-max", "us"),
    ("runs", ""),
    ("moved", "GB/s"),
    ("computed", "GOP/s"),
    ("floor", "us"),
    ("bound by", ""),
    ("share", "%"),
];

fn columns(names: &[(&str, &str)]) -> Vec<Column> {
    names
        .iter()
        .map(|(name, unit)| Column::new(*name, *unit))
        .collect()
}

fn ceiling_cells(device: &str, ceiling: &MeasuredCeiling) -> Vec<Cell> {
    let after = match ceiling.drifted() {
        true => Cell::number(ceiling.after / 1e9),
        false => Cell::Empty,
    };
    vec![
        Cell::text(device),
        Cell::text(ceiling.kind),
        Cell::number(ceiling.before / 1e9),
        after,
        Cell::number(ceiling.best / 1e9),
        Cell::text(ceiling.unit),
    ]
}

fn cells(row: &KernelRow) -> Vec<Cell> {
    let micros = row.seconds.scaled(1e6);
    let variant = match row.label.variant.as_str() {
        "" => row.label.shape.clone(),
        variant => format!("{variant}, {}", row.label.shape),
    };
    let known = |value: Option<f64>, factor: f64| {
        value.map_or(Cell::Empty, |value| Cell::number(value * factor))
    };
    vec![
        Cell::text(variant),
        Cell::Count(row.label.rows as u64),
        Cell::text(&row.device),
        Cell::median(&micros),
        Cell::extremes(&micros),
        Cell::Count(row.seconds.repetitions as u64),
        Cell::number(row.bytes_per_s / 1e9),
        Cell::number(row.operations_per_s / 1e9),
        known(row.floor_seconds, 1e6),
        Cell::text(row.bound.unwrap_or("unknown")),
        known(row.roofline_share, 100.0),
    ]
}

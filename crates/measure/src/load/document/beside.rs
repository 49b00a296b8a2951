//! What was looked at beside the load.

use ucuz_report::{Block, Cell, Column, Section, Table};

use crate::load::memory::MemoryTrend;
use crate::load::summary::ProbeSummary;

/// Numbers of pages that tables show; JSON has all of them.
const FIELDS_SHOWN: [&str; 3] = ["running", "waiting", "kv_bytes_used"];

/// How pages were answered; `None` where none was asked for.
pub(super) fn pages(probes: &[ProbeSummary]) -> Option<Section> {
    if probes.is_empty() {
        return None;
    }
    let words = "Asked for every 100 ms, from when each question was due.";
    let blocks = [
        Block::Paragraph(words.to_owned()),
        Block::Table(times(probes)),
    ];
    Some(Section {
        heading: "Pages beside the load".to_owned(),
        blocks: blocks.into_iter().chain(numbers(probes)).collect(),
    })
}

fn times(probes: &[ProbeSummary]) -> Table {
    let columns = vec![
        Column::new("page", ""),
        Column::new("answers by status", ""),
        Column::new("p50", "ms"),
        Column::new("p99", "ms"),
        Column::new("max", "ms"),
    ];
    let mut table = Table::new("", columns);
    for probe in probes {
        let statuses = probe.statuses.iter();
        let statuses: Vec<String> = statuses.map(|(s, n)| format!("{s}: {n}")).collect();
        let ms = |seconds: f64| Cell::number(seconds * 1e3);
        table.push(vec![
            Cell::text(&probe.path),
            Cell::text(statuses.join(", ")),
            ms(probe.p50_s),
            ms(probe.p99_s),
            ms(probe.max_s),
        ]);
    }
    table
}

/// Some numbers of the pages; `None` where no page has them.
fn numbers(probes: &[ProbeSummary]) -> Option<Block> {
    let names = ["page", "number", "first", "last", "min", "max"];
    let columns = names.map(|name| Column::new(name, ""));
    let mut table = Table::new("", columns.into());
    let shown = probes.iter().flat_map(|probe| {
        let fields = FIELDS_SHOWN.iter();
        fields.filter_map(move |name| Some((probe, *name, probe.fields.get(*name)?)))
    });
    let mut has_rows = false;
    for (probe, name, field) in shown {
        has_rows = true;
        let mut row = vec![Cell::text(&probe.path), Cell::text(name)];
        let numbers = [field.first, field.last, field.min, field.max];
        row.extend(numbers.map(|number| Cell::text(number.to_string())));
        table.push(row);
    }
    has_rows.then_some(Block::Table(table))
}

/// How the server's memory grew.
pub(super) fn memory(trend: &MemoryTrend) -> Section {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let growth = match trend.mib_per_10_min {
        Some(growth) => format!(
            "{growth:+.2} MiB in 10 minutes, by {} samples",
            trend.fitted
        ),
        None => format!(
            "{} samples after --settle are too few to say how it grows",
            trend.fitted
        ),
    };
    let words = format!(
        "Resident: {:.1} MiB at first, {:.1} at last, {:.1} at most; {growth}.",
        mib(trend.first_bytes),
        mib(trend.last_bytes),
        mib(trend.max_bytes)
    );
    Section {
        heading: "Memory of the server".to_owned(),
        blocks: vec![Block::Paragraph(words)],
    }
}

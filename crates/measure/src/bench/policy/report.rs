//! The result as a report.

use ucuz_report::{
    BarGroup, Bars, Block, Cell, Column, Document, Fact, Gantt, Interval, Lane, Section, Stay,
    Table,
};

use super::compare::{Comparison, Gain, Side};
use super::outcome::{Outcome, Policy};
use super::study::{FIXED_SHARES, ScanPoint};
use super::{PolicyResult, Real, Simulated, notes};

/// What sets real runs apart from simulated ones.
const REASONS: &str = "What differs: a real step also pays for scheduling and for telling its results, and its caches are shorter or longer than the \
                       mean one that was measured; the next static batch has to be handed over. Equal numbers of steps say that the scheduling is the same, so that the time of \
                       a step is what differs. With Poisson arrivals slower steps add up: work that comes at fixed times and takes longer queues longer, and latency differs by \
                       more than throughput.";

impl PolicyResult {
    /// The report, for the terminal and as a page.
    pub fn document(&self) -> Document {
        let mut facts = self.model.facts();
        facts.extend(self.provenance.facts());
        facts.push(Fact::new("slots", self.slots.to_string()));
        let mut sections = vec![
            section("What is compared", vec![words(notes::conventions(self))]),
            self.costs(),
        ];
        sections.extend(self.simulated.iter().map(simulated));
        if !self.real.is_empty() {
            sections.push(self.real());
        }
        sections.push(self.scan());
        sections.push(self.pictures());
        Document {
            title: format!("Static and continuous batching with {}", self.model.name),
            facts,
            sections,
        }
    }

    fn costs(&self) -> Section {
        let axis = &self.step_costs.sequences;
        let mut columns = vec![Column::new("begin", "")];
        columns.extend(axis.iter().map(|n| Column::new(format!("{n} go on"), "ms")));
        let mut table = Table::new("", columns);
        for (starting, row) in axis.iter().zip(&self.step_costs.seconds) {
            let mut cells = vec![Cell::Count(*starting as u64)];
            cells.extend(row.iter().map(|&seconds| match seconds > 0.0 {
                true => Cell::number(seconds * 1e3),
                false => Cell::Empty,
            }));
            table.push(cells);
        }
        let about = "Time of one step, measured on the model: so many sequences get their next token, so many others compute their \
                     prompt and get their first. In between, costs are linear.";
        section(
            "Step costs",
            vec![words(about.to_owned()), Block::Table(table)],
        )
    }

    fn real(&self) -> Section {
        let about = "The engine got the requests as they came (continuous), or a batch only when the one before had ended (static); the simulation \
                     had the same arrivals and the measured step costs. The difference is real over simulated.";
        let mut blocks = vec![
            words(about.to_owned()),
            Block::Table(real_sides(&self.real)),
            Block::Table(real_gains(&self.real)),
        ];
        blocks.push(words(REASONS.to_owned()));
        section("Run for real", blocks)
    }

    fn scan(&self) -> Section {
        let mut columns = vec![Column::new("arrivals", "")];
        columns.extend(FIXED_SHARES.map(|share| Column::new(format!("fixed {share}"), "")));
        let caption = "Throughput gain / latency gain over static, padded, handed back as a batch";
        let mut table = Table::new(caption, columns);
        let first = self
            .scan
            .iter()
            .filter(|p| p.fixed_share == FIXED_SHARES[0]);
        for ScanPoint { arrivals, .. } in first {
            let mut cells = vec![Cell::text(arrivals.name())];
            let row = self.scan.iter().filter(|p| p.arrivals == *arrivals);
            cells.extend(
                row.map(|p| Cell::text(format!("{:.2}x / {:.1}x", p.throughput, p.latency))),
            );
            table.push(cells);
        }
        let about = "Simulated where a step costs fixed + (1 - fixed) x sequences / slots: 1.0 is the constant cost of a plain simulation, small shares are \
                     machines on which a sequence more costs nearly as much as the first.";
        let blocks = vec![
            words(about.to_owned()),
            Block::Table(table),
            words(notes::article(self)),
        ];
        section("Under which arrivals and step costs", blocks)
    }

    fn pictures(&self) -> Section {
        let timeline = &self.timeline;
        let end = timeline.static_padded.makespan_s();
        let kind = if timeline.is_real {
            "real run"
        } else {
            "simulated"
        };
        let title = |policy: &str| format!("Slots, {policy}, all at once ({kind})");
        let mut blocks = vec![
            words("Pictures are in the page that --html writes.".to_owned()),
            Block::Gantt(gantt(
                title("static"),
                &timeline.static_padded,
                (self.slots, end),
            )),
            Block::Gantt(gantt(
                title("continuous"),
                &timeline.continuous,
                (self.slots, end),
            )),
        ];
        let measured = self.simulated.last().map(|s| s.comparisons.as_slice());
        blocks.push(Block::Bars(latency_bars(
            "Mean latency, simulated",
            measured.unwrap_or(&[]),
        )));
        if !self.real.is_empty() {
            let real: Vec<Comparison> = self.real.iter().map(|r| r.real.clone()).collect();
            blocks.push(Block::Bars(latency_bars(
                "Mean latency, run for real",
                &real,
            )));
        }
        section("Pictures", blocks)
    }
}

fn section(heading: &str, blocks: Vec<Block>) -> Section {
    Section {
        heading: heading.to_owned(),
        blocks,
    }
}

fn words(text: String) -> Block {
    Block::Paragraph(text)
}

fn cell(interval: &Interval, factor: f64) -> Cell {
    Cell::Number {
        value: interval.value * factor,
        uncertainty: interval.half_width() * factor,
    }
}

fn ends(interval: &Interval) -> Cell {
    match interval.half_width() > 0.0 {
        true => Cell::Range {
            low: interval.low,
            high: interval.high,
            uncertainty: interval.half_width(),
        },
        false => Cell::Empty,
    }
}

fn simulated(simulated: &Simulated) -> Section {
    let is_constant = simulated.step_cost == "constant";
    let (heading, unit, time, factor) = match is_constant {
        true => ("Simulated with a constant step cost", "step", "steps", 1.0),
        false => ("Simulated with measured step costs", "s", "ms", 1e3),
    };
    let about = format!(
        "Capacity is {:.4} requests/{unit}: what continuous batching completes when all requests are there at once. Poisson arrivals come at that share of it.",
        simulated.capacity_requests_per_s
    );
    let blocks = vec![
        words(about),
        Block::Table(sides(&simulated.comparisons, (unit, time, factor))),
        Block::Table(gains(&simulated.comparisons)),
    ];
    section(heading, blocks)
}

fn sides(comparisons: &[Comparison], (unit, time, factor): (&str, &str, f64)) -> Table {
    let columns = vec![
        Column::new("arrivals", ""),
        Column::new("policy", ""),
        Column::new("speed", format!("tokens/{unit}")),
        Column::new("latency", time),
        Column::new("last token", time),
        Column::new("first token", time),
        Column::new("steps", ""),
        Column::new("runs", ""),
    ];
    let mut table = Table::new("Both policies", columns);
    for comparison in comparisons {
        for side in &comparison.sides {
            table.push(vec![
                Cell::text(comparison.arrivals.name()),
                Cell::text(side.policy.name()),
                cell(&side.tokens_per_s, 1.0),
                cell(&side.latency_s, factor),
                cell(&side.last_token_s, factor),
                cell(&side.first_token_s, factor),
                Cell::Count(side.steps.round() as u64),
                Cell::Count(comparison.runs as u64),
            ]);
        }
    }
    table
}

fn gain_columns() -> Vec<Column> {
    vec![
        Column::new("arrivals", ""),
        Column::new("over", ""),
        Column::new("throughput", "x"),
        Column::new("95 %", "x"),
        Column::new("latency", "x"),
        Column::new("95 %", "x"),
        Column::new("last token", "x"),
        Column::new("first word", "x"),
    ]
}

fn gain_cells(comparison: &Comparison, gain: &Gain) -> Vec<Cell> {
    vec![
        Cell::text(comparison.arrivals.name()),
        Cell::text(gain.over.name()),
        cell(&gain.throughput, 1.0),
        ends(&gain.throughput),
        cell(&gain.latency, 1.0),
        ends(&gain.latency),
        cell(&gain.latency_last_token, 1.0),
        cell(&gain.first_word, 1.0),
    ]
}

fn gains(comparisons: &[Comparison]) -> Table {
    let mut table = Table::new("What continuous batching gains", gain_columns());
    for comparison in comparisons {
        for gain in &comparison.gains {
            table.push(gain_cells(comparison, gain));
        }
    }
    table
}

fn real_gains(all: &[Real]) -> Table {
    let mut columns = gain_columns();
    columns.push(Column::new("simulated", "x / x"));
    let mut table = Table::new("What continuous batching gained", columns);
    for Real { real, simulated } in all {
        for (gain, expected) in real.gains.iter().zip(&simulated.gains) {
            let mut cells = gain_cells(real, gain);
            let (throughput, latency) = (expected.throughput.value, expected.latency.value);
            cells.push(Cell::text(format!("{throughput:.2} / {latency:.1}")));
            table.push(cells);
        }
    }
    table
}

fn real_sides(all: &[Real]) -> Table {
    let columns = vec![
        Column::new("arrivals", ""),
        Column::new("policy", ""),
        Column::new("speed", "tokens/s"),
        Column::new("simulated", "tokens/s"),
        Column::new("differs", "%"),
        Column::new("latency", "ms"),
        Column::new("simulated", "ms"),
        Column::new("differs", "%"),
        Column::new("steps", ""),
        Column::new("simulated", ""),
        Column::new("runs", ""),
    ];
    let mut table = Table::new("Both policies", columns);
    for Real { real, simulated } in all {
        for (side, expected) in real.sides.iter().zip(&simulated.sides) {
            table.push(vec![
                Cell::text(real.arrivals.name()),
                Cell::text(side.policy.name()),
                cell(&side.tokens_per_s, 1.0),
                Cell::number(expected.tokens_per_s.value),
                differs(side, expected, |side| side.tokens_per_s.value),
                cell(&side.latency_s, 1e3),
                Cell::number(expected.latency_s.value * 1e3),
                differs(side, expected, |side| side.latency_s.value),
                Cell::Count(side.steps.round() as u64),
                Cell::Count(expected.steps.round() as u64),
                Cell::Count(real.runs as u64),
            ]);
        }
    }
    table
}

fn differs(real: &Side, simulated: &Side, of: impl Fn(&Side) -> f64) -> Cell {
    let percent = 100.0 * (of(real) / of(simulated) - 1.0);
    Cell::text(format!("{percent:+.1}"))
}

/// One lane a slot: a request's own tokens, then the time its slot waits for the batch.
fn gantt(title: String, outcome: &Outcome, (slots, x_end): (usize, f64)) -> Gantt {
    let lane = |slot: usize| {
        let served = outcome.served.iter().filter(|served| served.slot == slot);
        let stays = served.flat_map(|served| {
            let own = (
                served.started_s,
                served.last_token_s,
                0,
                served.tokens.to_string(),
            );
            let held = (served.last_token_s, served.released_s, 1, String::new());
            [own, held].map(|(start, end, kind, label)| Stay {
                start,
                end,
                kind,
                label,
            })
        });
        Lane {
            name: format!("slot {}", slot + 1),
            stays: stays.filter(|stay| stay.end > stay.start).collect(),
        }
    };
    Gantt {
        title,
        x_label: "time, s".to_owned(),
        x_end,
        kinds: vec!["own tokens".to_owned(), "waits for its batch".to_owned()],
        lanes: (0..slots).map(lane).collect(),
    }
}

fn latency_bars(title: &str, comparisons: &[Comparison]) -> Bars {
    let group = |comparison: &Comparison| BarGroup {
        name: comparison.arrivals.name(),
        values: comparison
            .sides
            .iter()
            .map(|side| side.latency_s.value * 1e3)
            .collect(),
    };
    Bars {
        title: title.to_owned(),
        y_label: "mean latency, ms".to_owned(),
        series: Policy::ALL.map(|policy| policy.name().to_owned()).to_vec(),
        groups: comparisons.iter().map(group).collect(),
    }
}

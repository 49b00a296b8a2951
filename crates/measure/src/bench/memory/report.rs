//! The result as a report.

use ucuz_report::{BarGroup, Bars, Block, Cell, Column, Document, Fact, Section, Table};
use ucuz_tensor::cache::BLOCK_TOKENS;

use super::MemoryResult;

const MIB: f64 = (1 << 20) as f64;

impl MemoryResult {
    /// The report, for the terminal and as a page.
    pub fn document(&self) -> Document {
        let mut facts = self.model.facts();
        facts.extend(self.provenance.facts());
        facts.push(Fact::new(
            "KV memory",
            format!("{:.1} MiB", self.memory_bytes as f64 / MIB),
        ));
        let sections = vec![self.users(), self.groups(), self.table(), self.pictures()];
        Document {
            title: format!("Users in the same KV memory with {}", self.model.name),
            facts,
            sections,
        }
    }

    fn users(&self) -> Section {
        let columns = vec![
            Column::new("way", ""),
            Column::new("users", ""),
            Column::new("a user", "KiB"),
            Column::new("held", "MiB"),
            Column::new("against naive", "x"),
        ];
        let mut table = Table::new("", columns);
        let naive = self.naive.max(1) as f64;
        let mut row = |way: &str, users: usize, bytes: f64| {
            table.push(vec![
                Cell::text(way),
                Cell::Count(users as u64),
                Cell::number(bytes / users.max(1) as f64 / 1024.0),
                Cell::number(bytes / MIB),
                Cell::number(users as f64 / naive),
            ]);
        };
        let reserved = self.naive as f64 * self.reservation_bytes as f64;
        row("naive reservation", self.naive, reserved);
        row("paged, computed", self.paged, self.used_bytes());
        if let Some(real) = &self.real {
            row("paged, run for real", real.users, real.used_bytes as f64);
        }
        let mut blocks = vec![Block::Paragraph(self.about()), Block::Table(table)];
        blocks.push(Block::Paragraph(self.why()));
        if self.paged * 10 >= self.step_rows * 9 {
            let text = format!(
                "Steps have room for {} tokens, one for each user: that bounds the users here; raise --max-step-tokens.",
                self.step_rows
            );
            blocks.push(Block::Paragraph(text));
        }
        Section {
            heading: "Users at once".to_owned(),
            blocks,
        }
    }

    fn used_bytes(&self) -> f64 {
        let groups = self.groups.iter();
        groups.map(|g| (g.used * g.block_bytes) as f64).sum()
    }

    fn about(&self) -> String {
        let facts = &self.workload;
        let mean = facts.prompt_tokens as f64 + facts.tokens as f64 / facts.requests as f64;
        format!(
            "Naive reservation sets {} tokens aside for each user. Paged, each holds blocks of {BLOCK_TOKENS} tokens for what is in its cache: {:.0} tokens in the mean, \
             {} at most, when it comes, and one more with every step.",
            self.reserve,
            mean,
            facts.prompt_tokens + facts.longest as usize
        )
    }

    /// What the memory went to.
    fn why(&self) -> String {
        let tokens = self.paged_tokens as f64;
        let group = self.groups.iter().max_by(|a, b| {
            let share = |g: &super::GroupCount| g.used as f64 / g.blocks.max(1) as f64;
            share(a).total_cmp(&share(b))
        });
        let (used, blocks) = group.map_or((1, 1), |g| (g.used.max(1), g.blocks.max(1)));
        let rows = (used * BLOCK_TOKENS) as f64;
        format!(
            "Of the {blocks} blocks (of the group with the fewest to spare) users hold {used} when nobody more is let in: {:.0} % of them. What is free is a spare block for each user, kept so that a newcomer is not thrown out \
             at somebody's next block border. Of the tokens that held blocks have room for, {:.0} % are there; the rest is rounding to whole blocks. The real count differs from the computed one only if users came \
             in over other steps.",
            100.0 * used as f64 / blocks as f64,
            100.0 * (tokens / rows).min(1.0),
        )
    }

    fn groups(&self) -> Section {
        let columns = vec![
            Column::new("window", "tokens"),
            Column::new("a block", "KiB"),
            Column::new("pool", "blocks"),
            Column::new("a reservation", "blocks"),
            Column::new("held, computed", "blocks"),
            Column::new("held, real", "blocks"),
        ];
        let mut table = Table::new("", columns);
        for group in &self.groups {
            table.push(vec![
                group
                    .window
                    .map_or(Cell::text("all"), |w| Cell::text(w.to_string())),
                Cell::number(group.block_bytes as f64 / 1024.0),
                Cell::Count(group.blocks as u64),
                Cell::Count(group.reserved as u64),
                Cell::Count(group.used as u64),
                group
                    .used_real
                    .map_or(Cell::Empty, |n| Cell::Count(n as u64)),
            ]);
        }
        Section {
            heading: "Blocks".to_owned(),
            blocks: vec![
                Block::Paragraph(
                    "One row a group of layers; a group with a window gives blocks back that fell behind it. Every group gets the share of the memory \
                     that users of the whole reservation would need, so users who are short fill the group with the smallest share first."
                        .to_owned(),
                ),
                Block::Table(table),
            ],
        }
    }

    fn table(&self) -> Section {
        let columns = vec![
            Column::new("reserved", "tokens"),
            Column::new("a user has", "tokens"),
            Column::new("naive", "users"),
            Column::new("paged", "users"),
            Column::new("paged/naive", "x"),
        ];
        let mut table = Table::new("", columns);
        for point in &self.points {
            table.push(vec![
                Cell::Count(point.reserve as u64),
                Cell::Count(point.tokens as u64),
                Cell::Count(point.naive as u64),
                Cell::Count(point.paged as u64),
                match point.naive {
                    0 => Cell::Empty,
                    naive => Cell::number(point.paged as f64 / naive as f64),
                },
            ]);
        }
        Section {
            heading: "Over reservations and lengths".to_owned(),
            blocks: vec![
                Block::Paragraph(
                    "Computed, for the same memory and users who all have as many tokens."
                        .to_owned(),
                ),
                Block::Table(table),
            ],
        }
    }

    fn pictures(&self) -> Section {
        let mut groups = vec![
            bar("naive", &[self.naive]),
            bar("paged, computed", &[self.paged]),
        ];
        groups.extend(
            self.real
                .iter()
                .map(|real| bar("paged, real", &[real.users])),
        );
        let users = Bars {
            title: format!("Users in {:.0} MiB", self.memory_bytes as f64 / MIB),
            y_label: "users".to_owned(),
            series: vec!["users at once".to_owned()],
            groups,
        };
        let occupied = self.groups.iter().map(|group| {
            let name = group
                .window
                .map_or("sees all".to_owned(), |w| format!("window {w}"));
            let reserved = group.reserved * self.naive;
            let paged = group.used_real.unwrap_or(group.used);
            bar(&name, &[group.blocks, reserved, paged])
        });
        let occupied = Bars {
            title: "Blocks by group of layers".to_owned(),
            y_label: "blocks".to_owned(),
            series: [
                "in the pool",
                "reserved by naive users",
                "held by paged users",
            ]
            .map(str::to_owned)
            .to_vec(),
            groups: occupied.collect(),
        };
        Section {
            heading: "Pictures".to_owned(),
            blocks: vec![
                Block::Paragraph("Pictures are in the page that --html writes.".to_owned()),
                Block::Bars(users),
                Block::Bars(occupied),
            ],
        }
    }
}

fn bar(name: &str, values: &[usize]) -> BarGroup {
    BarGroup {
        name: name.to_owned(),
        values: values.iter().map(|value| *value as f64).collect(),
    }
}

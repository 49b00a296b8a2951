//! One measured point: time with its spread, the work counted, and what follows from both.

use serde::Serialize;
use ucuz_report::{Cell, Column, Spread};

use super::roofline::Roofline;
use super::work::Work;

/// A time and the work that was done in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// How long it took.
    pub seconds: Spread,
    /// Tokens that went in (prefill) or came out (decode) in that time, a second.
    pub tokens_per_s: Spread,
    /// What was read and multiplied.
    pub work: Work,
    /// Bytes of weights, keys and values a second, at the median.
    pub bytes_per_s: f64,
    /// Operations of the model a second, at the median; a multiply-accumulate is two.
    pub operations_per_s: f64,
    /// Share of what the device can do at most: least possible time through median time. Absent without ceilings.
    pub roofline_share: Option<f64>,
}

impl Measured {
    /// `tokens` took `seconds` for `work`.
    pub fn new(seconds: Spread, tokens: usize, work: Work, roofline: Option<&Roofline>) -> Self {
        Self {
            seconds,
            tokens_per_s: seconds.rate(tokens as f64),
            work,
            bytes_per_s: work.bytes() as f64 / seconds.median,
            operations_per_s: 2.0 * work.macs() as f64 / seconds.median,
            roofline_share: roofline.map(|roof| roof.floor_s(&work) / seconds.median),
        }
    }

    /// Headings of [`Measured::cells`].
    pub fn columns() -> Vec<Column> {
        vec![
            Column::new("time", "ms"),
            Column::new("min-max", "ms"),
            Column::new("speed", "tokens/s"),
            Column::new("runs", ""),
            Column::new("read", "MiB"),
            Column::new("multiplied", "GMAC"),
            Column::new("rate", "GB/s"),
            Column::new("rate", "GOP/s"),
            Column::new("of roofline", "%"),
        ]
    }

    /// The point as cells of a row.
    pub fn cells(&self) -> Vec<Cell> {
        let ms = self.seconds.scaled(1e3);
        let share = self.roofline_share;
        vec![
            Cell::median(&ms),
            Cell::extremes(&ms),
            Cell::median(&self.tokens_per_s),
            Cell::Count(self.seconds.repetitions as u64),
            Cell::number(self.work.bytes() as f64 / f64::from(1 << 20)),
            Cell::number(self.work.macs() as f64 / 1e9),
            Cell::number(self.bytes_per_s / 1e9),
            Cell::number(self.operations_per_s / 1e9),
            share.map_or(Cell::Empty, |share| Cell::number(share * 100.0)),
        ]
    }
}

//! The part of a product that a tile unit computes: many panels and blocks a call, each result stored as it comes.
//!
//! A gated product is two calls: the gate's results wait in their places of the destination, and each of the up projection's
//! takes the one it meets there.

use std::ops::Range;

use ucuz_tensor::format::Coding;
use ucuz_tensor::layout::{PANEL_ROWS, PanelKind};
use ucuz_tensor::weight::Part;

use super::linear::Output;
use super::packing::Blocks;
use super::product::Job;
use crate::activations::BLOCK_ROWS;
use crate::table::{Levels, TileBook, TileCall, TileKernels, TileOutput, TileStore};

/// Panels and blocks of one call.
type Area<'a> = (&'a Range<usize>, &'a Range<usize>);

impl Job<'_> {
    /// Computes what the tile unit takes of a task; returns the blocks that are left.
    pub(super) fn compute_tiles(
        &self,
        part: &Part,
        panels: &Range<usize>,
        blocks: &Range<usize>,
    ) -> Range<usize> {
        let Some(unit) = self.unit.filter(|_| !panels.is_empty()) else {
            return blocks.clone();
        };
        let own = self.blocks_of_the_unit(blocks, unit);
        if own.is_empty() {
            return blocks.clone();
        }
        let area = (panels, &own);
        let store = match self.output {
            Output::Add => TileStore::Add,
            Output::Replace | Output::Gated(_) => TileStore::Replace,
        };
        self.products(unit, part, area, self.output_of(part, part, area, store));
        if let (Output::Gated(kernel), Some(up)) = (self.output, self.up) {
            let store = TileStore::Gate(kernel);
            self.products(unit, up, area, self.output_of(part, up, area, store));
        }
        own.end..blocks.end
    }

    /// The blocks of a range that the unit computes: of those that both it and vectors can read, the ones with rows enough.
    /// Only the last may hold fewer.
    fn blocks_of_the_unit(&self, blocks: &Range<usize>, unit: &TileKernels) -> Range<usize> {
        let with_rows = |least: usize| {
            let last_rows = self.rows.min(blocks.end * BLOCK_ROWS) % BLOCK_ROWS;
            let short = (1..least).contains(&last_rows);
            blocks.start..blocks.end - usize::from(short)
        };
        let [one_digit, two_digits] = unit.coded_rows_min;
        match self.blocks {
            Blocks::Tiles(_) => blocks.clone(),
            Blocks::Floats(_) => 0..0,
            Blocks::I8(_) if self.rows < one_digit => 0..0,
            Blocks::I12(_) if self.rows < two_digits => 0..0,
            Blocks::I8(_) | Blocks::I12(_) => with_rows(BLOCK_ROWS),
            Blocks::Rows(..) => with_rows(unit.rows_min),
        }
    }

    /// Where an area's products with `part` go: to the columns of `place`.
    fn output_of<'a>(
        &'a self,
        place: &Part,
        part: &'a Part,
        (panels, blocks): Area<'_>,
        store: TileStore,
    ) -> TileOutput<'a> {
        let lane = panels.start * PANEL_ROWS;
        let row = blocks.start * BLOCK_ROWS;
        TileOutput {
            dst: &self.dst,
            start: row * self.dst_cols + place.first_row + lane,
            stride: self.dst_cols,
            rows: self.rows.min(blocks.end * BLOCK_ROWS) - row,
            lanes: part.layout.rows.min(panels.end * PANEL_ROWS) - lane,
            bias: part.bias.as_ref().map(|bias| &bias[lane..]),
            store,
        }
    }

    /// Products of a part over an area.
    fn products(&self, unit: &TileKernels, part: &Part, area: Area<'_>, output: TileOutput<'_>) {
        let coding = part.layout.format.info().coding;
        // SAFETY: a (panel, block) pair belongs to one task, and pairs do not share destinations.
        unsafe {
            match (&self.blocks, part.layout.kind, coding) {
                (Blocks::I8(groups), PanelKind::Coded(coded), _) => {
                    (unit.linear_i8)(&self.call(part, area, groups), &coded, &output);
                }
                (Blocks::I12(groups), PanelKind::Coded(coded), _) => {
                    (unit.linear_i12)(&self.call(part, area, groups), &coded, &output);
                }
                (Blocks::Rows(heads, spans), ..) => {
                    let heads = &heads[area.1.clone()];
                    (unit.linear_rows)(&self.call(part, area, spans), heads, &output);
                }
                (
                    Blocks::Tiles(groups),
                    PanelKind::Coded(coded),
                    Coding::Codebook { levels, .. },
                ) => {
                    let levels: &Levels = &levels.map(f32::from);
                    let book = TileBook { coded, levels };
                    (unit.linear_codebook)(&self.call(part, area, groups), &book, &output);
                }
                (Blocks::Tiles(groups), ..) => {
                    (unit.linear_bf16)(&self.call(part, area, groups), &output);
                }
                // Numbers that are not rounded to bf16 have no tile kernel, and no blocks here.
                (Blocks::I8(_) | Blocks::I12(_) | Blocks::Floats(_), ..) => {}
            }
        }
    }

    /// Panels and blocks as a tile kernel takes them; `x` holds the packed blocks of all rows.
    fn call<'a, X>(
        &self,
        part: &'a Part,
        (panels, blocks): Area<'_>,
        x: &'a [X],
    ) -> TileCall<'a, X> {
        let panel_bytes = part.layout.panel_bytes();
        let block_len = x.len() / self.rows.div_ceil(BLOCK_ROWS);
        TileCall {
            panels: &part.data.bytes()[panels.start * panel_bytes..panels.end * panel_bytes],
            panel_bytes,
            x: &x[blocks.start * block_len..blocks.end * block_len],
            block_len,
        }
    }
}

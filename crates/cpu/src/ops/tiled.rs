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
use super::product::{Job, Results, add_bias, bias_of};
use crate::activations::{BLOCK_ROWS, Tile};
use crate::arch::store::{Place, Store, StoreCall};
use crate::table::{GatedKernel, Levels, TileBook, TileCall, TileCodes, TileKernels, TileSink};

/// Panels and blocks of one call.
type Area<'a> = (&'a Range<usize>, &'a Range<usize>);

impl Job<'_> {
    /// Computes what the tile unit takes of a task; returns the blocks that are left.
    pub(super) fn compute_tiles(
        &self,
        part: &Part,
        panels: &Range<usize>,
        blocks: &Range<usize>,
        results: &mut Results,
    ) -> Range<usize> {
        let Some(unit) = self.unit.filter(|_| !panels.is_empty()) else {
            return blocks.clone();
        };
        let own = self.blocks_of_the_unit(blocks, unit.rows_min);
        if own.is_empty() {
            return blocks.clone();
        }
        let area = (panels, &own);
        let place = |panel: usize, block: usize| (panels.start + panel, own.start + block);
        let store = match self.output {
            Output::Add => Store::Add,
            Output::Replace | Output::Gated(_) => Store::Replace,
        };
        self.products(unit, part, area, &mut |panel, block, tile| {
            self.store(part, place(panel, block), tile, store);
        });
        if let (Output::Gated(kernel), Some(up)) = (self.output, self.up) {
            self.products(unit, up, area, &mut |panel, block, tile| {
                results.up = *tile;
                self.gate(part, up, (place(panel, block), kernel), results);
            });
        }
        own.end..blocks.end
    }

    /// The blocks of a range that the unit computes: of those that both it and vectors can read, the ones with at least
    /// `rows_min` rows. Only the last may hold fewer.
    fn blocks_of_the_unit(&self, blocks: &Range<usize>, rows_min: usize) -> Range<usize> {
        match self.blocks {
            Blocks::Tiles(_) => blocks.clone(),
            Blocks::Floats(_) => 0..0,
            Blocks::Codes(..) | Blocks::Rows(..) => {
                let last_rows = self.rows.min(blocks.end * BLOCK_ROWS) % BLOCK_ROWS;
                let short = (1..rows_min).contains(&last_rows);
                blocks.start..blocks.end - usize::from(short)
            }
        }
    }

    /// Products of a part over an area.
    fn products(&self, unit: &TileKernels, part: &Part, area: Area<'_>, sink: &mut TileSink<'_>) {
        match (
            &self.blocks,
            part.layout.kind,
            part.layout.format.info().coding,
        ) {
            (Blocks::Codes(groups, planes), PanelKind::Coded(coded), _) => {
                let codes = TileCodes {
                    coded,
                    planes: *planes,
                };
                (unit.linear_i8)(&self.call(part, area, groups), codes, sink);
            }
            (Blocks::Rows(heads, spans), ..) => {
                let heads = &heads[area.1.clone()];
                (unit.linear_rows)(&self.call(part, area, spans), heads, sink);
            }
            (Blocks::Tiles(groups), PanelKind::Coded(coded), Coding::Codebook { levels, .. }) => {
                let levels: Levels = levels.map(f32::from);
                let book = TileBook {
                    coded,
                    levels: &levels,
                };
                (unit.linear_codebook)(&self.call(part, area, groups), &book, sink);
            }
            (Blocks::Tiles(groups), ..) => {
                (unit.linear_bf16)(&self.call(part, area, groups), sink);
            }
            // Numbers that are not rounded to bf16 have no tile kernel, and no blocks here.
            (Blocks::Codes(..) | Blocks::Floats(_), ..) => {}
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

    /// Stores one product with the biases of `part`.
    fn store(&self, part: &Part, (panel, block): (usize, usize), tile: &Tile, store: Store) {
        let call = StoreCall {
            tile: &tile[..self.block_rows(block).len()],
            bias: bias_of(part, panel * PANEL_ROWS),
            store,
            dst: &self.dst,
            place: self.place(part, (panel, block)),
        };
        // SAFETY: a (panel, block) pair belongs to one task, and pairs do not share destinations.
        unsafe { (self.kernels.store_tile)(&call) };
    }

    /// Multiplies the gate's result, which waits in the destination, with the up projection's, `results.up`.
    fn gate(
        &self,
        part: &Part,
        up: &Part,
        ((panel, block), kernel): ((usize, usize), GatedKernel),
        results: &mut Results,
    ) {
        let rows = self.block_rows(block).len();
        let place = self.place(part, (panel, block));
        self.read(place, &mut results.own[..rows]);
        add_bias(up, panel * PANEL_ROWS, &mut results.up[..rows]);
        results.gate(kernel, rows);
        let call = StoreCall {
            tile: &results.gated[..rows],
            bias: None,
            store: Store::Replace,
            dst: &self.dst,
            place,
        };
        // SAFETY: as in `store`.
        unsafe { (self.kernels.store_tile)(&call) };
    }

    /// Reads whole panels' results back.
    fn read(&self, place: Place, tile: &mut [[f32; PANEL_ROWS]]) {
        for (row, sums) in tile.iter_mut().enumerate() {
            let start = place.start + row * place.stride;
            // SAFETY: as in `store`.
            let from = unsafe { self.dst.range(start..start + place.lanes) };
            sums[..place.lanes].copy_from_slice(from);
        }
    }
}

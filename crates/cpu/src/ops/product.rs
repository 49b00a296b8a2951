//! One panel of a weight times one block of rows, and what happens to the result.

use std::ops::Range;

use ucuz_tensor::format::{Coding, GROUP};
use ucuz_tensor::layout::{PANEL_ROWS, PanelKind};
use ucuz_tensor::weight::Part;

use super::linear::Output;
use super::packing::Blocks;
use crate::activations::{BLOCK_ROWS, FLOAT_ROWS, Tile};
use crate::arch::store::{Place, Store, StoreCall};
use crate::arch::{AHEAD_BYTES, prefetch_write};
use crate::pool::Disjoint;
use crate::table::{
    CodebookCall, CodedCall, FloatCall, GatedKernel, Kernels, Levels, RowCall, TileKernels,
};

/// Panels that a block of rows meets before the next block's turn: 64 columns of the destination are written together.
const PANELS_PER_PASS: usize = 4;

/// Weights that a kernel asks memory for while it computes.
#[derive(Debug, Clone, Copy)]
enum Ahead {
    /// What follows at once.
    Here,
    /// The panels of the next pass, this many further on: the last block of rows meets panels that are in the cache, and
    /// memory would have nothing to do. After a task's last pass these belong to another task, or to nobody.
    Pass(usize),
}

impl Ahead {
    /// In bytes, with panels of that many.
    fn bytes(self, panel_bytes: usize) -> usize {
        match self {
            Self::Here => AHEAD_BYTES,
            Self::Pass(panels) => panels * panel_bytes,
        }
    }
}

/// Everything that a panel needs to be computed.
pub struct Job<'a> {
    /// Functions of the tier.
    pub kernels: &'a Kernels,
    /// The tile unit, if there is one and rows enough.
    pub unit: Option<&'a TileKernels>,
    /// Packed activations.
    pub blocks: Blocks<'a>,
    /// Activation rows.
    pub rows: usize,
    /// Groups of 32 columns.
    pub groups: usize,
    /// Destination, `[rows, dst_cols]`.
    pub dst: Disjoint<'a, f32>,
    /// Columns of the destination.
    pub dst_cols: usize,
    /// What happens to it.
    pub output: Output,
    /// The part that a gated product multiplies with.
    pub up: Option<&'a Part>,
}

/// Results of a panel on their way: of the part itself, of the up projection, and of both multiplied.
pub struct Results {
    pub(super) own: Tile,
    pub(super) up: Tile,
    pub(super) gated: Tile,
}

impl Results {
    /// Nothing yet; kernels write what is read.
    pub const ZERO: Self = Self {
        own: [[0.0; PANEL_ROWS]; BLOCK_ROWS],
        up: [[0.0; PANEL_ROWS]; BLOCK_ROWS],
        gated: [[0.0; PANEL_ROWS]; BLOCK_ROWS],
    };

    /// The first `rows` rows of both products, the first through the activation, multiplied.
    pub(super) fn gate(&mut self, kernel: GatedKernel, rows: usize) {
        let numbers = rows * PANEL_ROWS;
        kernel(
            &mut self.gated.as_flattened_mut()[..numbers],
            &self.own.as_flattened()[..numbers],
            &self.up.as_flattened()[..numbers],
        );
    }
}

impl Job<'_> {
    /// Panels of a part times blocks of rows: a few panels at a time stay in a cache of the core for all blocks.
    pub fn compute_all(
        &self,
        part: &Part,
        panels: Range<usize>,
        blocks: &Range<usize>,
        results: &mut Results,
    ) {
        let blocks = &self.compute_tiles(part, &panels, blocks);
        for first in panels.clone().step_by(PANELS_PER_PASS) {
            let pass = first..panels.end.min(first + PANELS_PER_PASS);
            for block in blocks.clone() {
                let ahead = match block + 1 == blocks.end && blocks.len() > 1 {
                    true => Ahead::Pass(pass.len()),
                    false => Ahead::Here,
                };
                for panel in pass.clone() {
                    self.compute(part, (panel, block), ahead, results);
                }
            }
        }
    }

    /// One panel of a part times one block of rows, into the destination.
    fn compute(
        &self,
        part: &Part,
        (panel, block): (usize, usize),
        ahead: Ahead,
        results: &mut Results,
    ) {
        let rows = self.block_rows(block);
        let lane = panel * PANEL_ROWS;
        let place = self.place(part, (panel, block));
        // The lines of the destination are on their way while the product is computed.
        for row in 0..rows.len() {
            let start = place.start + row * place.stride;
            // SAFETY: a (panel, block) pair belongs to one task, and pairs do not share destinations.
            prefetch_write(unsafe { self.dst.range(start..start + place.lanes) });
        }
        self.product(part, (panel, block), ahead, &mut results.own);
        let (tile, bias, output) = match (self.output, self.up) {
            (Output::Gated(kernel), Some(up)) => {
                self.product(up, (panel, block), ahead, &mut results.up);
                add_bias(part, lane, &mut results.own[..rows.len()]);
                add_bias(up, lane, &mut results.up[..rows.len()]);
                results.gate(kernel, rows.len());
                (&results.gated, None, Store::Replace)
            }
            (Output::Add, _) => (&results.own, bias_of(part, lane), Store::Add),
            _ => (&results.own, bias_of(part, lane), Store::Replace),
        };
        let call = StoreCall {
            tile: &tile[..rows.len()],
            bias,
            store: output,
            dst: &self.dst,
            place,
        };
        // SAFETY: as above.
        unsafe { (self.kernels.store_tile)(&call) };
    }

    /// Where the product of a panel and a block goes.
    pub(super) fn place(&self, part: &Part, (panel, block): (usize, usize)) -> Place {
        let lane = panel * PANEL_ROWS;
        Place {
            start: self.block_rows(block).start * self.dst_cols + part.first_row + lane,
            stride: self.dst_cols,
            lanes: PANEL_ROWS.min(part.layout.rows - lane),
        }
    }

    /// Activation rows of a block.
    pub(super) fn block_rows(&self, block: usize) -> Range<usize> {
        let size = match self.blocks {
            Blocks::I8(_) | Blocks::I12(_) | Blocks::Rows(..) | Blocks::Tiles(_) => BLOCK_ROWS,
            Blocks::Floats(_) => FLOAT_ROWS,
        };
        block * size..self.rows.min((block + 1) * size)
    }

    /// One panel of a part times one block of rows, into the first rows of `tile`.
    fn product(&self, part: &Part, (panel, block): (usize, usize), ahead: Ahead, tile: &mut Tile) {
        let bytes = part.layout.panel_bytes();
        let ahead = ahead.bytes(bytes);
        let panel = &part.data.bytes()[panel * bytes..][..bytes];
        let rows = self.block_rows(block).len();
        match &self.blocks {
            Blocks::I8(groups) => {
                let call = self.coded(part, panel, &groups[self.groups * block..], (rows, ahead));
                (self.kernels.linear_i8)(tile, &call);
            }
            Blocks::I12(groups) => {
                let call = self.coded(part, panel, &groups[self.groups * block..], (rows, ahead));
                (self.kernels.linear_i12)(tile, &call);
            }
            Blocks::Rows(heads, spans) => {
                let stride = spans.len() / heads.len();
                let call = RowCall {
                    panel,
                    head: &heads[block],
                    spans: &spans[block * stride..][..stride],
                    rows,
                    ahead,
                };
                (self.kernels.linear_rows)(tile, &call);
            }
            Blocks::Floats(floats) => {
                let cols = self.groups * GROUP;
                let x = &floats[block * FLOAT_ROWS * cols..][..cols * rows.next_power_of_two()];
                self.float(
                    tile,
                    part,
                    FloatCall {
                        panel,
                        x,
                        rows,
                        ahead,
                    },
                );
            }
            Blocks::Tiles(_) => unreachable!("the tile unit takes all of these"),
        }
    }

    /// A panel of integer codes and the block that `groups` begins with.
    fn coded<'a, X>(
        &self,
        part: &Part,
        panel: &'a [u8],
        groups: &'a [X],
        (rows, ahead): (usize, usize),
    ) -> CodedCall<'a, X> {
        let PanelKind::Coded(coded) = part.layout.kind else {
            unreachable!("packed codes meet integer codes")
        };
        CodedCall {
            panel,
            coded,
            groups: &groups[..self.groups],
            rows,
            ahead,
        }
    }

    fn float(&self, tile: &mut Tile, part: &Part, call: FloatCall<'_>) {
        match (part.layout.kind, part.layout.format.info().coding) {
            (PanelKind::Coded(coded), Coding::Codebook { levels, .. }) => {
                let levels: Levels = levels.map(f32::from);
                let FloatCall {
                    panel,
                    x,
                    rows,
                    ahead,
                } = call;
                let call = CodebookCall {
                    panel,
                    coded,
                    levels: &levels,
                    x,
                    rows,
                    ahead,
                };
                (self.kernels.linear_codebook)(tile, &call);
            }
            (PanelKind::Coded(_) | PanelKind::Rows, _) => {
                unreachable!("integer codes meet packed codes")
            }
            (PanelKind::Bf16, _) => (self.kernels.linear_bf16)(tile, &call),
            (PanelKind::F16, _) => (self.kernels.linear_f16)(tile, &call),
            (PanelKind::F32, _) => (self.kernels.linear_f32)(tile, &call),
        }
    }
}

/// The biases of the panel that begins at row `lane` of a part, if it has any; zero past its end.
pub(super) fn bias_of(part: &Part, lane: usize) -> Option<[f32; PANEL_ROWS]> {
    let values = &part.bias.as_ref()?[lane..];
    let mut bias = [0.0; PANEL_ROWS];
    let lanes = values.len().min(PANEL_ROWS);
    bias[..lanes].copy_from_slice(&values[..lanes]);
    Some(bias)
}

pub(super) fn add_bias(part: &Part, lane: usize, tile: &mut [[f32; PANEL_ROWS]]) {
    let Some(bias) = bias_of(part, lane) else {
        return;
    };
    for sums in tile {
        sums.iter_mut()
            .zip(bias)
            .for_each(|(sum, bias)| *sum += bias);
    }
}

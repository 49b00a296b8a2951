//! The part of a product that a tile unit computes.

use std::ops::Range;

use ucuz_tensor::buffer::Buffer;
use ucuz_tensor::format::{Coding, GROUP};
use ucuz_tensor::layout::PanelKind;
use ucuz_tensor::tensor::View;
use ucuz_tensor::weight::Part;

use super::{Blocks, Job, block_values};
use crate::activations::{BLOCK_ROWS, Bf16Group, Tile};
use crate::pool::{Disjoint, ThreadPool};
use crate::table::{Levels, TileCall, TileCodes, TileKernels};

/// Packs activations as bf16 tiles; they take at most what float blocks would: 64 bytes a row and group against 128.
pub(super) fn pack<'a>(
    pool: &ThreadPool,
    tiles: Option<&TileKernels>,
    scratch: &'a mut Buffer,
    x: View<'_>,
) -> Blocks<'a> {
    let groups = x.num_cols().div_ceil(GROUP);
    let blocks = x.num_rows().div_ceil(BLOCK_ROWS);
    let packed = &mut scratch.cast_mut::<Bf16Group>()[..blocks * groups];
    if let Some(tiles) = tiles {
        let target = Disjoint::new(packed);
        pool.run(blocks, &|block, _| {
            // SAFETY: each task has its own block.
            let target = unsafe { target.range(block * groups..(block + 1) * groups) };
            (tiles.pack_tiles)(target, block_values(x, block, BLOCK_ROWS), x.num_cols());
        });
    }
    Blocks::Tiles(packed)
}

impl Job<'_> {
    /// Computes what the tile unit takes of a task; returns the blocks that are left.
    pub(super) fn compute_tiles(
        &self,
        part: &Part,
        panels: &Range<usize>,
        blocks: &Range<usize>,
    ) -> Range<usize> {
        let Some(tiles) = self.tiles.filter(|_| !panels.is_empty()) else {
            return blocks.clone();
        };
        let mut sink = |panel: usize, block: usize, tile: &Tile| {
            let first = (blocks.start + block) * BLOCK_ROWS;
            let rows = BLOCK_ROWS.min(self.rows - first);
            self.store(part, panels.start + panel, first, &tile[..rows]);
        };
        let coding = part.layout.format.info().coding;
        match (&self.blocks, part.layout.kind, coding) {
            (Blocks::Codes(groups, planes), PanelKind::Coded(coded), _) => {
                let full = self.blocks_of_rows(blocks, tiles.rows_min);
                let codes = TileCodes {
                    coded,
                    planes: *planes,
                };
                let call = self.call(part, panels, groups, &full);
                (tiles.linear_i8)(&call, codes, &mut sink);
                full.end..blocks.end
            }
            (Blocks::Tiles(groups), PanelKind::Coded(_), Coding::Codebook { levels }) => {
                let levels: Levels = levels.map(f32::from);
                let call = self.call(part, panels, groups, blocks);
                (tiles.linear_codebook)(&call, &levels, &mut sink);
                blocks.end..blocks.end
            }
            (Blocks::Tiles(groups), _, _) => {
                let call = self.call(part, panels, groups, blocks);
                (tiles.linear_bf16)(&call, &mut sink);
                blocks.end..blocks.end
            }
            _ => blocks.clone(),
        }
    }

    /// The blocks of a range that hold at least `rows_min` rows; only the last may hold fewer.
    fn blocks_of_rows(&self, blocks: &Range<usize>, rows_min: usize) -> Range<usize> {
        let last_rows = self.rows.min(blocks.end * BLOCK_ROWS) % BLOCK_ROWS;
        let short = (1..rows_min).contains(&last_rows);
        blocks.start..blocks.end - usize::from(short)
    }

    /// Panels and blocks as a tile kernel takes them; `x` holds the packed blocks of all rows.
    fn call<'a, X>(
        &self,
        part: &'a Part,
        panels: &Range<usize>,
        x: &'a [X],
        blocks: &Range<usize>,
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

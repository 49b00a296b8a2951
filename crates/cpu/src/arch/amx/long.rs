//! Products that stay in the tile unit over all columns: panels are made of weight tiles, blocks of activation tiles, and
//! what the unit sums up needs no scale until the end.
//!
//! ```text
//! for 2 panels, for 2 blocks:      four registers of sums, two of activations, two of weights
//!   for each tile along the columns:   four loads, four products
//!   hand out the sums
//! ```
//! Cost of one step of 2 panels and 2 blocks, in cycles: four products 64 (256 throttled), four loads of tiles 32. So the
//! unit is the bound if the second-level cache gives 64 bytes a cycle. A single panel or block reads twice as much for each
//! product. Both panels stay in the caches for all blocks.

use super::unit::{TileConfig, Tiles, WHOLE};
use crate::table::TileCall;

/// Bytes of a tile.
const TILE_BYTES: usize = 1024;
/// A tile of weights.
type WeightTile = [u8; TILE_BYTES];
/// Sums as they leave the unit, `[activation row][weight row]`, i32 or f32.
pub type Sums = [[u32; 16]; 16];

const CONFIG: TileConfig = TileConfig::new([WHOLE; 8]);
/// Registers of activations and weights; 0 to 3 are sums, two panels a block.
const A0: u8 = 4;
/// Activations of the second block.
const A1: u8 = 5;
/// Weights of the first panel.
const B0: u8 = 6;
/// Weights of the second panel.
const B1: u8 = 7;

/// Which product: `C += A · B` for registers 0 to 3.
pub trait Dot {
    /// The product into register `C`.
    fn dot<const C: u8, const A: u8, const B: u8>(tiles: &Tiles);
}

/// Takes the sums of one panel and block: `(panel, block, sums)`.
pub type Finish<'a> = dyn FnMut(usize, usize, &Sums) + 'a;

/// Products of all panels, each with `head_bytes` before its tiles, with all blocks of `call`, tiles of type `X`.
///
/// # Safety
/// Tile instructions execute, and no other kernel is at work on this thread.
pub unsafe fn products<D: Dot, X>(
    call: &TileCall<'_, X>,
    head_bytes: usize,
    finish: &mut Finish<'_>,
) {
    const { assert!(size_of::<X>() == TILE_BYTES, "an activation tile") };
    assert!(
        call.panel_bytes >= head_bytes + call.block_len * TILE_BYTES,
        "whole panels"
    );
    // SAFETY: the caller's promise.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    let (panels, blocks) = (call.num_panels(), call.num_blocks());
    let panel = |panel: usize| call.panel(panel)[head_bytes..].as_chunks().0;
    for p in (0..panels).step_by(2) {
        let w = [p, (p + 1).min(panels - 1)].map(panel);
        for b in (0..blocks).step_by(2) {
            let x = [b, (b + 1).min(blocks - 1)].map(|block| call.block(block));
            let (two_panels, two_blocks) = (p + 1 < panels, b + 1 < blocks);
            match (two_panels, two_blocks) {
                (false, false) => accumulate::<D, X, 1, 1>(&tiles, w, x),
                (false, true) => accumulate::<D, X, 1, 2>(&tiles, w, x),
                (true, false) => accumulate::<D, X, 2, 1>(&tiles, w, x),
                (true, true) => accumulate::<D, X, 2, 2>(&tiles, w, x),
            }
            finish(p, b, &stored::<0>(&tiles));
            if two_panels {
                finish(p + 1, b, &stored::<1>(&tiles));
            }
            if two_blocks {
                finish(p, b + 1, &stored::<2>(&tiles));
            }
            if two_panels && two_blocks {
                finish(p + 1, b + 1, &stored::<3>(&tiles));
            }
        }
    }
}

/// `P` panels times `B` blocks, each 1 or 2, into registers 0 to 3.
#[inline(always)]
fn accumulate<D: Dot, X, const P: usize, const B: usize>(
    tiles: &Tiles,
    w: [&[WeightTile]; 2],
    x: [&[X]; 2],
) {
    tiles.zero::<0>();
    tiles.zero::<1>();
    tiles.zero::<2>();
    tiles.zero::<3>();
    for step in 0..x[0].len() {
        // SAFETY: every operand is 16 rows of 64 bytes.
        unsafe {
            tiles.load::<A0>((&raw const x[0][step]).cast(), 64);
            tiles.load::<B0>(w[0][step].as_ptr(), 64);
            D::dot::<0, A0, B0>(tiles);
            if P == 2 {
                tiles.load::<B1>(w[1][step].as_ptr(), 64);
                D::dot::<1, A0, B1>(tiles);
            }
            if B == 2 {
                tiles.load::<A1>((&raw const x[1][step]).cast(), 64);
                D::dot::<2, A1, B0>(tiles);
            }
            if P == 2 && B == 2 {
                D::dot::<3, A1, B1>(tiles);
            }
        }
    }
}

/// One register of sums.
#[inline(always)]
fn stored<const C: u8>(tiles: &Tiles) -> Sums {
    let mut sums = [[0; 16]; 16];
    // SAFETY: a tile is 16 rows of 64 bytes.
    unsafe { tiles.store::<C>(sums.as_mut_ptr().cast(), 64) };
    sums
}

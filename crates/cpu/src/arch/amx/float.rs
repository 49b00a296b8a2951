//! bf16 weights times bf16 activations in tiles: a panel is already made of weight tiles, and the unit's own sums are the
//! canonical ones, so all columns are added up inside of it.
//!
//! Cost of 32 columns of 2 panels and 2 blocks, in cycles: four products 64 (256 throttled), four loads of tiles 32. So the
//! unit is the bound, 1,024 operations a cycle where it runs free, if the second-level cache gives 64 bytes a cycle;
//! AVX-512 has 64 operations. A single panel or block reads twice as much for each product. Both panels stay in the caches
//! for all blocks.

use super::unit::{TileConfig, Tiles, WHOLE};
use crate::activations::{Bf16Group, Tile};
use crate::table::{TileCall, TileSink};

/// Bytes of a weight tile: 32 columns of a panel.
const TILE_BYTES: usize = 1024;

const CONFIG: TileConfig = TileConfig::new([WHOLE; 8]);
/// Registers of activations and weights; 0 to 3 are sums, two panels a block.
const A0: u8 = 4;
const A1: u8 = 5;
const B0: u8 = 6;
const B1: u8 = 7;

/// Products of all panels with all blocks of `call`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_bf16(call: &TileCall<'_, Bf16Group>, sink: &mut TileSink<'_>) {
    assert!(
        call.panel_bytes >= call.block_len * TILE_BYTES,
        "whole panels"
    );
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    let (panels, blocks) = (call.num_panels(), call.num_blocks());
    for panel in (0..panels).step_by(2) {
        for block in (0..blocks).step_by(2) {
            let at = (panel, block);
            match (panels - panel, blocks - block) {
                (1, 1) => product::<1, 1>(&tiles, call, at, sink),
                (1, _) => product::<1, 2>(&tiles, call, at, sink),
                (_, 1) => product::<2, 1>(&tiles, call, at, sink),
                _ => product::<2, 2>(&tiles, call, at, sink),
            }
        }
    }
}

/// `P` panels times `X` blocks, each 1 or 2, from `(panel, block)`.
fn product<const P: usize, const X: usize>(
    tiles: &Tiles,
    call: &TileCall<'_, Bf16Group>,
    (panel, block): (usize, usize),
    sink: &mut TileSink<'_>,
) {
    let w = |p: usize| call.panel(panel + p.min(P - 1)).as_chunks::<TILE_BYTES>().0;
    let x = |b: usize| call.block(block + b.min(X - 1));
    let (w0, w1, x0, x1) = (w(0), w(1), x(0), x(1));
    tiles.zero::<0>();
    tiles.zero::<1>();
    tiles.zero::<2>();
    tiles.zero::<3>();
    for span in 0..call.block_len {
        // SAFETY: every operand is 16 rows of 64 bytes.
        unsafe {
            tiles.load::<A0>(x0[span].rows.as_ptr().cast(), 64);
            tiles.load::<B0>(w0[span].as_ptr(), 64);
            tiles.dot_bf16::<0, A0, B0>();
            if P == 2 {
                tiles.load::<B1>(w1[span].as_ptr(), 64);
                tiles.dot_bf16::<1, A0, B1>();
            }
            if X == 2 {
                tiles.load::<A1>(x1[span].rows.as_ptr().cast(), 64);
                tiles.dot_bf16::<2, A1, B0>();
            }
            if P == 2 && X == 2 {
                tiles.dot_bf16::<3, A1, B1>();
            }
        }
    }
    emit::<0>(tiles, (panel, block), sink);
    if P == 2 {
        emit::<1>(tiles, (panel + 1, block), sink);
    }
    if X == 2 {
        emit::<2>(tiles, (panel, block + 1), sink);
    }
    if P == 2 && X == 2 {
        emit::<3>(tiles, (panel + 1, block + 1), sink);
    }
}

/// Hands out one register of sums.
fn emit<const C: u8>(tiles: &Tiles, (panel, block): (usize, usize), sink: &mut TileSink<'_>) {
    let mut sums: Tile = [[0.0; 16]; 16];
    // SAFETY: a tile is 16 rows of 64 bytes.
    unsafe { tiles.store::<C>(sums.as_mut_ptr().cast(), 64) };
    sink(panel, block, &sums);
}

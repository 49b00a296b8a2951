//! Products that stay in the tile unit over all columns: panels are made of weight tiles, blocks of activation tiles, and
//! what the unit sums up needs no scale until the end.
//!
//! ```text
//! for 2 panels, for 2 blocks:      four registers of sums, two of activations, two of weights
//!   for each tile along the columns:   four loads, four products; beside them some rows of the sums before are finished
//!   store the sums, to be finished beside the next ones
//! ```
//! Cost of one step of 2 panels and 2 blocks, in cycles: four products 64 (256 throttled), four loads of tiles 32. So the
//! unit is the bound if the second-level cache gives 64 bytes a cycle. A single panel or block reads twice as much for each
//! product. Both panels stay in the caches for all blocks. A narrow product has few steps (9 of int8 for 576 columns), and
//! finishing 64 rows of sums takes about as long as they do: vectors and the unit work side by side, which finishing after
//! the last step would not let them.

use core::arch::x86_64::*;

use super::output::{BATCH, Corner, finish, prefetch};
use super::unit::{TileConfig, Tiles, WHOLE};
use crate::activations::BLOCK_ROWS;
use crate::table::{TileCall, TileOutput};

/// Bytes of a tile.
const TILE_BYTES: usize = 1024;
/// A tile of weights.
type WeightTile = [u8; TILE_BYTES];

/// Registers of four sums as they leave the unit, `[2 * block + panel][activation row][weight row]`, i32 or f32.
#[repr(C, align(64))]
struct Sums([[[u32; 16]; BLOCK_ROWS]; 4]);

impl Sums {
    const ZERO: Self = Self([[[0; 16]; BLOCK_ROWS]; 4]);
}

const CONFIG: TileConfig = TileConfig::new([WHOLE; 8]);
/// Registers of activations and weights; 0 to 3 are sums, two panels a block.
const A0: u8 = 4;
/// Activations of the second block.
const A1: u8 = 5;
/// Weights of the first panel.
const B0: u8 = 6;
/// Weights of the second panel.
const B1: u8 = 7;

/// Batches of rows in four registers of sums.
const BATCHES: usize = 4 * BLOCK_ROWS / BATCH;

/// Which product: `C += A · B` for registers 0 to 3.
pub trait Dot {
    /// The product into register `C`.
    fn dot<const C: u8, const A: u8, const B: u8>(tiles: &Tiles);
}

/// What becomes of the sums of a row.
pub struct Finish<S, R> {
    /// `scales(panel)`: what a panel says before its tiles.
    pub scales: S,
    /// `row(sums, scales, block, row)`: the numbers.
    pub row: R,
}

/// Four registers of sums on their way out.
struct Waiting {
    sums: Sums,
    corners: [Option<(Corner, __m512, usize)>; 4],
    /// The next batch of rows.
    next: usize,
}

/// Products of all panels, each with `head_bytes` before its tiles, with all blocks of `call`, tiles of type `X`.
///
/// # Safety
/// Tile instructions execute, no other kernel is at work on this thread, and the destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn products<D: Dot, X, S, R>(
    call: &TileCall<'_, X>,
    head_bytes: usize,
    finish: &Finish<S, R>,
    output: &TileOutput<'_>,
) where
    S: Fn(&[u8]) -> __m512,
    R: Fn(__m512i, __m512, usize, usize) -> __m512,
{
    const { assert!(size_of::<X>() == TILE_BYTES, "an activation tile") };
    assert!(
        call.panel_bytes >= head_bytes + call.block_len * TILE_BYTES,
        "whole panels"
    );
    // SAFETY: the caller's promise.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    let (panels, blocks) = (call.num_panels(), call.num_blocks());
    let panel = |panel: usize| call.panel(panel)[head_bytes..].as_chunks().0;
    let mut waiting = Waiting {
        sums: Sums::ZERO,
        corners: [None; 4],
        next: BATCHES,
    };
    let per_step = BATCHES.div_ceil(call.block_len.max(1));
    for p in (0..panels).step_by(2) {
        let w = [p, (p + 1).min(panels - 1)].map(panel);
        for b in (0..blocks).step_by(2) {
            let x = [b, (b + 1).min(blocks - 1)].map(|block| call.block(block));
            // SAFETY: the caller's promise.
            let mut beside = || unsafe { waiting.finish_some(per_step, finish, output) };
            let (two_panels, two_blocks) = (p + 1 < panels, b + 1 < blocks);
            match (two_panels, two_blocks) {
                (false, false) => accumulate::<D, X, 1, 1>(&tiles, w, x, &mut beside),
                (false, true) => accumulate::<D, X, 1, 2>(&tiles, w, x, &mut beside),
                (true, false) => accumulate::<D, X, 2, 1>(&tiles, w, x, &mut beside),
                (true, true) => accumulate::<D, X, 2, 2>(&tiles, w, x, &mut beside),
            }
            waiting.take(&tiles);
            for (index, corner) in waiting.corners.iter_mut().enumerate() {
                let (panel, block) = (p + index % 2, b + index / 2);
                *corner = (panel < panels && block < blocks).then(|| {
                    let scales = (finish.scales)(call.panel(panel));
                    prefetch(output, panel, block);
                    (Corner::new(output, panel, block), scales, block)
                });
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { waiting.finish_some(BATCHES, finish, output) };
}

impl Waiting {
    /// Takes four registers of sums out of the unit; those before are finished.
    #[inline(always)]
    fn take(&mut self, tiles: &Tiles) {
        debug_assert_eq!(self.next, BATCHES, "the sums before are finished");
        let to = &mut self.sums.0;
        // SAFETY: a tile is 16 rows of 64 bytes.
        unsafe {
            tiles.store::<0>(to[0].as_mut_ptr().cast(), 64);
            tiles.store::<1>(to[1].as_mut_ptr().cast(), 64);
            tiles.store::<2>(to[2].as_mut_ptr().cast(), 64);
            tiles.store::<3>(to[3].as_mut_ptr().cast(), 64);
        }
        self.next = 0;
    }

    /// Finishes the next `batches` of rows.
    ///
    /// # Safety
    /// As for [`products`].
    #[inline]
    #[target_feature(
        enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni"
    )]
    unsafe fn finish_some<S, R>(
        &mut self,
        batches: usize,
        how: &Finish<S, R>,
        output: &TileOutput<'_>,
    ) where
        R: Fn(__m512i, __m512, usize, usize) -> __m512,
    {
        let end = BATCHES.min(self.next + batches);
        for batch in self.next..end {
            let (register, first) = (batch * BATCH / BLOCK_ROWS, batch * BATCH % BLOCK_ROWS);
            let Some((corner, scales, block)) = &self.corners[register] else {
                continue;
            };
            let mut rows = [_mm512_setzero_ps(); BATCH];
            for (index, to) in rows.iter_mut().enumerate() {
                let row = first + index;
                // SAFETY: 64 readable bytes.
                let sums = unsafe { _mm512_load_si512(self.sums.0[register][row].as_ptr().cast()) };
                *to = (how.row)(sums, *scales, *block, row);
            }
            // SAFETY: the caller's promise.
            unsafe { finish(output, corner, first, rows) };
        }
        self.next = end;
    }
}

/// `P` panels times `B` blocks, each 1 or 2, into registers 0 to 3; `beside` runs once a step.
#[inline(always)]
fn accumulate<D: Dot, X, const P: usize, const B: usize>(
    tiles: &Tiles,
    w: [&[WeightTile]; 2],
    x: [&[X]; 2],
    beside: &mut impl FnMut(),
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
        beside();
    }
}

//! Products whose sums leave the tile unit once a group of 32 columns, because each group has scales of its own.
//!
//! ```text
//! for 2 panels, for up to 8 blocks of 16 rows:          sums wait in memory, [2][8][16 rows][16 lanes]
//!   for 8 groups:                                       unpack both panels once: 14 KiB, used by all 8 blocks
//!     for each block, for each panel:                   the block's 8 groups stay in the first-level cache for both panels
//!       for each group:                                 sixteen rows of sums in sixteen registers
//!         issue the next tile products; scale and add the one before
//! ```
//! A tile product takes some 50 cycles until its sums can be read, one every 16 cycles (64 where the unit is throttled);
//! issuing it one step ahead, and what the processor reorders, hides that behind the scales of the step before. Sums go
//! through memory because tile registers have no other way out: 16 stores and 16 loads a product.

use core::arch::x86_64::*;

use crate::activations::Tile;
use crate::arch::avx512::integer::each_row;
use crate::table::{TileCall, TileSink};

/// Groups unpacked at a time.
const CHUNK_GROUPS: usize = 8;
/// Panels that share one reading of the activations.
const PASS_PANELS: usize = 2;
/// Blocks that share one unpacking of the weights.
const PASS_BLOCKS: usize = 8;

/// Sums of one group as they leave the unit, `[part][activation row][weight row]`, i32 or f32: a part for each plane of the
/// activations, or for each half of each plane.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Dots([[[u32; 16]; 16]; 4]);

impl Dots {
    const ZERO: Self = Self([[[0; 16]; 16]; 4]);

    /// Where the unit stores a part, its rows 64 bytes apart.
    #[inline(always)]
    pub fn part_mut(&mut self, part: usize) -> *mut u8 {
        self.0[part].as_mut_ptr().cast()
    }

    /// A row of integer sums.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn integers(&self, part: usize, row: usize) -> __m512i {
        // SAFETY: a row is 64 readable bytes.
        unsafe { _mm512_loadu_si512(self.0[part][row].as_ptr().cast()) }
    }

    /// A row of float sums.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn floats(&self, row: usize) -> __m512 {
        _mm512_castsi512_ps(self.integers(0, row))
    }
}

/// What a kind of weights does with one group.
pub struct Steps<U, I, F> {
    /// `unpack(panel, group)`: a weight tile and its scales.
    pub unpack: U,
    /// `issue(weights, planes of activations, dots)`: one group's tile products, stored to `dots`.
    pub issue: I,
    /// `finish(sum, weights, planes of activations, dots, row)`: the sums of a row with this group added.
    pub finish: F,
}

/// Sums that wait in memory between chunks.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Sums(Tile);

/// All products of `call`, `planes` entries of activations a group; the unit is configured for `steps`.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn products<W: Copy, X, U, I, F>(
    call: &TileCall<'_, X>,
    planes: usize,
    steps: &Steps<U, I, F>,
    sink: &mut TileSink<'_>,
) where
    U: Fn(&[u8], usize) -> W,
    I: Fn(&W, &[X], &mut Dots),
    F: Fn(__m512, &W, &[X], &Dots, usize) -> __m512,
{
    let (panels, blocks) = (call.num_panels(), call.num_blocks());
    if panels == 0 || blocks == 0 {
        return;
    }
    let groups = call.block_len / planes;
    let first = (steps.unpack)(call.panel(0), 0);
    let mut weights = [[first; CHUNK_GROUPS]; PASS_PANELS];
    let mut sums = [[Sums([[0.0; 16]; 16]); PASS_PANELS]; PASS_BLOCKS];
    for first_panel in (0..panels).step_by(PASS_PANELS) {
        let panels = first_panel..panels.min(first_panel + PASS_PANELS);
        for first_block in (0..blocks).step_by(PASS_BLOCKS) {
            let blocks = first_block..blocks.min(first_block + PASS_BLOCKS);
            sums[..blocks.len()].fill([Sums([[0.0; 16]; 16]); PASS_PANELS]);
            for first in (0..groups).step_by(CHUNK_GROUPS) {
                let chunk = first..groups.min(first + CHUNK_GROUPS);
                for (panel, weights) in panels.clone().zip(&mut weights) {
                    for (group, weights) in chunk.clone().zip(weights) {
                        *weights = (steps.unpack)(call.panel(panel), group);
                    }
                }
                for (block, sums) in blocks.clone().zip(&mut sums) {
                    let x = &call.block(block)[chunk.start * planes..chunk.end * planes];
                    for ((sums, weights), _) in sums.iter_mut().zip(&weights).zip(panels.clone()) {
                        match planes {
                            1 => add_chunk::<1, _, _, _, _, _>(sums, weights, x, steps),
                            _ => add_chunk::<2, _, _, _, _, _>(sums, weights, x, steps),
                        }
                    }
                }
            }
            for (block, sums) in blocks.zip(&sums) {
                for (panel, sums) in panels.clone().zip(sums) {
                    sink(panel, block, &sums.0);
                }
            }
        }
    }
}

/// Adds the groups of a chunk, `P` entries of `x` a group, to the sums of one panel and block.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn add_chunk<const P: usize, W, X, U, I, F>(
    sums: &mut Sums,
    weights: &[W],
    x: &[X],
    steps: &Steps<U, I, F>,
) where
    I: Fn(&W, &[X], &mut Dots),
    F: Fn(__m512, &W, &[X], &Dots, usize) -> __m512,
{
    let mut acc = [_mm512_setzero_ps(); 16];
    for (acc, row) in acc.iter_mut().zip(&sums.0) {
        // SAFETY: a row of sums is 64 readable bytes.
        *acc = unsafe { _mm512_loadu_ps(row.as_ptr()) };
    }
    let mut dots = [Dots::ZERO; 2];
    let x = x.as_chunks::<P>().0;
    (steps.issue)(&weights[0], &x[0], &mut dots[0]);
    for (step, planes) in x.iter().enumerate() {
        if let Some(next) = x.get(step + 1) {
            (steps.issue)(&weights[step + 1], next, &mut dots[(step + 1) % 2]);
        }
        let (weights, dots) = (&weights[step], &dots[step % 2]);
        each_row!(16, row => acc[row] = (steps.finish)(acc[row], weights, planes, dots, row));
    }
    for (acc, row) in acc.iter().zip(&mut sums.0) {
        // SAFETY: a row of sums is 64 writable bytes.
        unsafe { _mm512_storeu_ps(row.as_mut_ptr(), *acc) };
    }
}

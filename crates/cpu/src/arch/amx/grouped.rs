//! Products whose sums leave the tile unit once a group of 32 columns, because each group has scales of its own.
//!
//! ```text
//! for 2 panels, for up to 8 blocks of 16 rows:          sums wait in memory, [8][2][16 rows][16 lanes]
//!   for up to 8 groups:                                 unpack both panels once: 14 KiB, used by all 8 blocks
//!     for each block, for each panel:                   the block's 8 groups stay in the first-level cache for both panels
//!       for each group:                                 tile products, stored
//!       for each group:                                 sixteen rows of sums in sixteen registers: scale and add
//! ```
//! Sums go through memory because tile registers have no other way out: 16 stores and 16 loads a product. Measured on Sapphire
//! Rapids, in loops of these instructions alone: a product, its two loads and its store take some 36 cycles, its rows of Q4_1 some 50, and one after the other with
//! one `tilezero` among them takes as long as both. So nothing is gained by mixing them group by group, and where another
//! thread of the core is at work, mixing loses: all products of a chunk come first.

use core::arch::x86_64::*;

use super::output::{BATCH, Corner, finish, prefetch};
use crate::activations::Tile;
use crate::arch::avx512::integer::each_row;
use crate::table::{TileCall, TileOutput};

/// Groups unpacked at a time, at most; a segment of activations.
pub const CHUNK_GROUPS: usize = 8;
/// Panels that share one reading of the activations.
const PASS_PANELS: usize = 2;
/// Blocks that share one unpacking of the weights.
const PASS_BLOCKS: usize = 8;

/// Sums of one group as they leave the unit, `[part][activation row][weight row]`, i32 or f32: a part for each digit of the
/// activations, for each half of a group, or for each half under each digit.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Dots<const PARTS: usize>([[[u32; 16]; 16]; PARTS]);

impl<const PARTS: usize> Dots<PARTS> {
    const ZERO: Self = Self([[[0; 16]; 16]; PARTS]);

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
pub struct Steps<U, I, F, E> {
    /// `unpack(panel, group)`: a weight tile and its scales.
    pub unpack: U,
    /// `issue(weights, activations, dots)`: one group's tile products, stored to `dots`.
    pub issue: I,
    /// `finish(sum, weights, activations, dots, row)`: the sums of a row with this group added.
    pub finish: F,
    /// `end(all, sum, activations, row)`: where a chunk is a segment of activations, all sums of a row with those of the segment
    /// added, which began at zero.
    pub end: Option<E>,
}

/// [`Steps::end`] of a kind of activations that has no segments.
pub type NoEnd<X> = fn(__m512, __m512, &X, usize) -> __m512;

/// Sums of one panel and block in memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Sums(pub Tile);

impl Sums {
    /// Nothing yet.
    pub const ZERO: Self = Self([[0.0; 16]; 16]);
}

/// Weights of a chunk, and the activations that meet them.
struct Chunk<'a, W, X> {
    weights: &'a [[W; CHUNK_GROUPS]; PASS_PANELS],
    panels: usize,
    /// Groups of each block.
    x: &'a [&'a [X]],
}

/// All products of `call`, one entry of activations a group, `PARTS` of sums; the unit is configured for `steps`.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn products<const PARTS: usize, W: Copy, X, U, I, F, E>(
    call: &TileCall<'_, X>,
    steps: &Steps<U, I, F, E>,
    output: &TileOutput<'_>,
) where
    U: Fn(&[u8], usize) -> W,
    I: Fn(&W, &X, &mut Dots<PARTS>),
    F: Fn(__m512, &W, &X, &Dots<PARTS>, usize) -> __m512,
    E: Fn(__m512, __m512, &X, usize) -> __m512,
{
    let (panels, blocks) = (call.num_panels(), call.num_blocks());
    let groups = call.block_len;
    if panels == 0 || blocks == 0 || groups == 0 {
        return;
    }
    let first = (steps.unpack)(call.panel(0), 0);
    let mut weights = [[first; CHUNK_GROUPS]; PASS_PANELS];
    let mut sums = [[Sums::ZERO; PASS_PANELS]; PASS_BLOCKS];
    let mut dots = [Dots::<PARTS>::ZERO; CHUNK_GROUPS];
    let chunk_groups = match steps.end {
        Some(_) => CHUNK_GROUPS,
        None => groups.div_ceil(groups.div_ceil(CHUNK_GROUPS)),
    };
    for first_panel in (0..panels).step_by(PASS_PANELS) {
        let panels = first_panel..panels.min(first_panel + PASS_PANELS);
        for first_block in (0..blocks).step_by(PASS_BLOCKS) {
            let blocks = first_block..blocks.min(first_block + PASS_BLOCKS);
            sums[..blocks.len()].fill([Sums::ZERO; PASS_PANELS]);
            for first in (0..groups).step_by(chunk_groups) {
                let is_last = first + chunk_groups >= groups;
                let groups = first..groups.min(first + chunk_groups);
                for (panel, weights) in panels.clone().zip(&mut weights) {
                    for (group, weights) in groups.clone().zip(weights) {
                        *weights = (steps.unpack)(call.panel(panel), group);
                    }
                }
                let mut x: [&[X]; PASS_BLOCKS] = [&[]; PASS_BLOCKS];
                for (block, x) in blocks.clone().zip(&mut x) {
                    *x = &call.block(block)[groups.clone()];
                }
                if is_last {
                    for block in blocks.clone() {
                        panels
                            .clone()
                            .for_each(|panel| prefetch(output, panel, block));
                    }
                }
                let chunk = Chunk {
                    weights: &weights,
                    panels: panels.len(),
                    x: &x[..blocks.len()],
                };
                add_chunk(&mut sums, &mut dots, &chunk, steps);
            }
            for (block, sums) in blocks.zip(&sums) {
                for (panel, sums) in panels.clone().zip(sums) {
                    // SAFETY: the caller's promise.
                    unsafe { hand_out(output, panel, block, sums) };
                }
            }
        }
    }
}

/// Adds a chunk to the sums of its panels and blocks.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn add_chunk<const PARTS: usize, W, X, U, I, F, E>(
    sums: &mut [[Sums; PASS_PANELS]; PASS_BLOCKS],
    dots: &mut [Dots<PARTS>; CHUNK_GROUPS],
    chunk: &Chunk<'_, W, X>,
    steps: &Steps<U, I, F, E>,
) where
    I: Fn(&W, &X, &mut Dots<PARTS>),
    F: Fn(__m512, &W, &X, &Dots<PARTS>, usize) -> __m512,
    E: Fn(__m512, __m512, &X, usize) -> __m512,
{
    for (x, sums) in chunk.x.iter().zip(sums) {
        for (weights, sums) in chunk.weights[..chunk.panels].iter().zip(sums) {
            for ((weights, x), dots) in weights.iter().zip(*x).zip(&mut *dots) {
                (steps.issue)(weights, x, dots);
            }
            let mut acc = [_mm512_setzero_ps(); 16];
            if steps.end.is_none() {
                for (acc, row) in acc.iter_mut().zip(&sums.0) {
                    // SAFETY: a row of sums is 64 readable bytes.
                    *acc = unsafe { _mm512_load_ps(row.as_ptr()) };
                }
            }
            for ((weights, x), dots) in weights.iter().zip(*x).zip(&*dots) {
                each_row!(16, row => acc[row] = (steps.finish)(acc[row], weights, x, dots, row));
            }
            if let (Some(end), Some(x)) = (&steps.end, x.first()) {
                for (row, (acc, sums)) in acc.iter_mut().zip(&sums.0).enumerate() {
                    // SAFETY: a row of sums is 64 readable bytes.
                    *acc = end(unsafe { _mm512_load_ps(sums.as_ptr()) }, *acc, x, row);
                }
            }
            for (acc, row) in acc.iter().zip(&mut sums.0) {
                // SAFETY: a row of sums is 64 writable bytes.
                unsafe { _mm512_store_ps(row.as_mut_ptr(), *acc) };
            }
        }
    }
}

/// Sums of all columns to their destination.
///
/// # Safety
/// As for [`products`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn hand_out(output: &TileOutput<'_>, panel: usize, block: usize, sums: &Sums) {
    let corner = Corner::new(output, panel, block);
    for (batch, rows) in sums.0.as_chunks::<BATCH>().0.iter().enumerate() {
        // SAFETY: a row of sums is 64 readable bytes.
        let rows = rows
            .each_ref()
            .map(|row| unsafe { _mm512_load_ps(row.as_ptr()) });
        // SAFETY: the caller's promise.
        unsafe { finish(output, &corner, batch * BATCH, rows) };
    }
}

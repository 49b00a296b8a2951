//! Products whose sums leave the tile unit once a group of 32 columns, because each group has scales of its own.
//!
//! ```text
//! for 2 panels, for up to 8 blocks of 16 rows:          sums wait in memory, [8][2][16 rows][16 lanes]
//!   for up to 8 groups:                                 unpack both panels once: 14 KiB, used by all 8 blocks
//!     for each block, for each panel:                   the block's 8 groups stay in the first-level cache for both panels
//!       for each group:                                 sixteen rows of sums in sixteen registers
//!         issue the tile products of three groups on; scale and add this group's
//! ```
//! Sums go through memory because tile registers have no other way out: 16 stores and 16 loads a product. A vector that is
//! loaded before the tile's store has reached the cache waits for it, and the loads behind it too: one group ahead, unit and
//! vectors take turns (146 cycles for Q4_1 with two codes a number), three ahead they overlap (95; Sapphire Rapids, one
//! thread). The products of the next block or panel are under way before this one ends.

use core::arch::x86_64::*;

use super::output::{BATCH, Corner, finish};
use crate::activations::Tile;
use crate::arch::avx512::integer::each_row;
use crate::table::{TileCall, TileOutput};

/// Groups unpacked at a time, at most.
const CHUNK_GROUPS: usize = 8;
/// Panels that share one reading of the activations.
const PASS_PANELS: usize = 2;
/// Blocks that share one unpacking of the weights.
const PASS_BLOCKS: usize = 8;
/// Groups between the products of a group and its scales.
const AHEAD: usize = 3;
/// Places for sums on their way.
const RING: usize = AHEAD + 1;

/// Sums of one group as they leave the unit, `[part][activation row][weight row]`, i32 or f32: a part for each plane of the
/// activations, or for each half of each plane.
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
pub struct Steps<U, I, F> {
    /// `unpack(panel, group)`: a weight tile and its scales.
    pub unpack: U,
    /// `issue(weights, planes of activations, dots)`: one group's tile products, stored to `dots`.
    pub issue: I,
    /// `finish(sum, weights, planes of activations, dots, row)`: the sums of a row with this group added.
    pub finish: F,
}

/// Sums of one panel and block in memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Sums(pub Tile);

impl Sums {
    /// Nothing yet.
    pub const ZERO: Self = Self([[0.0; 16]; 16]);
}

/// Weights of a chunk, and the activations that meet them.
struct Chunk<'a, W, X, const PLANES: usize> {
    weights: &'a [[W; CHUNK_GROUPS]; PASS_PANELS],
    panels: usize,
    /// Groups of each block.
    x: &'a [&'a [[X; PLANES]]],
}

/// Where a product of a chunk stands: groups first, then panels, then blocks.
#[derive(Clone, Copy, Default)]
struct Item {
    block: usize,
    panel: usize,
    group: usize,
}

impl<W, X, const PLANES: usize> Chunk<'_, W, X, PLANES> {
    /// The operands of an item; `None` past the last.
    #[inline(always)]
    fn operands(&self, item: Item) -> Option<(&W, &[X; PLANES])> {
        let x = self.x.get(item.block)?;
        Some((&self.weights[item.panel][item.group], &x[item.group]))
    }

    /// The item that follows.
    #[inline(always)]
    fn next(&self, item: Item) -> Item {
        let Item {
            block,
            panel,
            group,
        } = item;
        if group + 1 < self.x[0].len() {
            return Item {
                group: group + 1,
                ..item
            };
        }
        let last = panel + 1 == self.panels;
        Item {
            block: block + usize::from(last),
            panel: if last { 0 } else { panel + 1 },
            group: 0,
        }
    }
}

/// All products of `call`, `PLANES` entries of activations a group, `PARTS` of sums; the unit is configured for `steps`.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn products<const PLANES: usize, const PARTS: usize, W: Copy, X, U, I, F>(
    call: &TileCall<'_, X>,
    steps: &Steps<U, I, F>,
    output: &TileOutput<'_>,
) where
    U: Fn(&[u8], usize) -> W,
    I: Fn(&W, &[X], &mut Dots<PARTS>),
    F: Fn(__m512, &W, &[X], &Dots<PARTS>, usize) -> __m512,
{
    let (panels, blocks) = (call.num_panels(), call.num_blocks());
    let groups = call.block_len / PLANES;
    if panels == 0 || blocks == 0 || groups == 0 {
        return;
    }
    let first = (steps.unpack)(call.panel(0), 0);
    let mut weights = [[first; CHUNK_GROUPS]; PASS_PANELS];
    let mut sums = [[Sums::ZERO; PASS_PANELS]; PASS_BLOCKS];
    let mut ring = [Dots::<PARTS>::ZERO; RING];
    let chunk_groups = groups.div_ceil(groups.div_ceil(CHUNK_GROUPS));
    for first_panel in (0..panels).step_by(PASS_PANELS) {
        let panels = first_panel..panels.min(first_panel + PASS_PANELS);
        for first_block in (0..blocks).step_by(PASS_BLOCKS) {
            let blocks = first_block..blocks.min(first_block + PASS_BLOCKS);
            sums[..blocks.len()].fill([Sums::ZERO; PASS_PANELS]);
            for first in (0..groups).step_by(chunk_groups) {
                let groups = first..groups.min(first + chunk_groups);
                for (panel, weights) in panels.clone().zip(&mut weights) {
                    for (group, weights) in groups.clone().zip(weights) {
                        *weights = (steps.unpack)(call.panel(panel), group);
                    }
                }
                let mut x: [&[[X; PLANES]]; PASS_BLOCKS] = [&[]; PASS_BLOCKS];
                for (block, x) in blocks.clone().zip(&mut x) {
                    *x = &call.block(block).as_chunks().0[groups.clone()];
                }
                let chunk = Chunk {
                    weights: &weights,
                    panels: panels.len(),
                    x: &x[..blocks.len()],
                };
                add_chunk(&mut sums, &mut ring, &chunk, steps);
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
fn add_chunk<const PLANES: usize, const PARTS: usize, W, X, U, I, F>(
    sums: &mut [[Sums; PASS_PANELS]; PASS_BLOCKS],
    ring: &mut [Dots<PARTS>; RING],
    chunk: &Chunk<'_, W, X, PLANES>,
    steps: &Steps<U, I, F>,
) where
    I: Fn(&W, &[X], &mut Dots<PARTS>),
    F: Fn(__m512, &W, &[X], &Dots<PARTS>, usize) -> __m512,
{
    let mut ahead = Item::default();
    let mut issue = |ring: &mut [Dots<PARTS>; RING], place: usize| {
        if let Some((weights, x)) = chunk.operands(ahead) {
            (steps.issue)(weights, x, &mut ring[place % RING]);
            ahead = chunk.next(ahead);
        }
    };
    for place in 0..AHEAD {
        issue(ring, place);
    }
    let mut place = 0;
    for (x, sums) in chunk.x.iter().zip(sums) {
        for (weights, sums) in chunk.weights[..chunk.panels].iter().zip(sums) {
            let mut acc = [_mm512_setzero_ps(); 16];
            for (acc, row) in acc.iter_mut().zip(&sums.0) {
                // SAFETY: a row of sums is 64 readable bytes.
                *acc = unsafe { _mm512_load_ps(row.as_ptr()) };
            }
            for (weights, x) in weights.iter().zip(*x) {
                issue(ring, place + AHEAD);
                let dots = &ring[place % RING];
                each_row!(16, row => acc[row] = (steps.finish)(acc[row], weights, x, dots, row));
                place += 1;
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

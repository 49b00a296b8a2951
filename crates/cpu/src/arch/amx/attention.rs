//! Attention of a tile of rows over one span of a bf16 cache, in tiles. The arithmetic is `generic::attention`'s.
//!
//! ```text
//! scores  A = queries [16 rows][32 dims]     B = keys of half a block [16 pairs of dims][16 keys][2]     one store a half
//! weights vectors, as AVX-512; then bf16, which they are exactly
//! sums    A = weights [16 rows][32 keys]     B = values of a block [16 pairs of keys][16 dims][2]        one store a span
//! l       the same A times ones: `l = l + (even + odd)` is what the unit does with every cell
//! ```
//! Rows of a product share its keys and values, so a key that is hidden from some row meets a weight of +0. That adds nothing,
//! as long as its value is finite; where a block holds one that is not (a token that failed, memory never written) and some
//! row does not see the whole block, the AVX-512 kernel computes the span.
//!
//! Cost of 32 rows and a block at dim 64, in cycles: 8 products for scores, 8 for sums, 2 for `l`: 288 (1,152 throttled),
//! of which AVX-512 takes 4,100; weights stay at some 1,000. So exponentials bound it where the unit runs free, both alike
//! where it is throttled.

use core::arch::x86_64::*;
use std::ops::Range;

use ucuz_tensor::cache::BLOCK_TOKENS;

use super::ROWS_MIN;
use super::unit::{TileConfig, TileShape, Tiles, WHOLE};
use crate::activations::Bf16Group;
use crate::arch::avx512;
use crate::arch::generic::attention::{
    SPAN_BLOCKS, SPAN_TOKENS, SpanInput, SpanOutput, SpanRow, TILE_ROWS,
};

/// Rows of one product.
pub(super) const ROWS: usize = 16;
/// Row tiles of one attention tile, at most.
const ROW_TILES: usize = TILE_ROWS / ROWS;
/// Dims or keys that one product sums over.
pub(super) const DEPTH: usize = 32;
/// Widest head, in products.
pub(super) const SPANS_MAX: usize = crate::ops::attention::HEAD_DIM_MAX / DEPTH;
/// Words of a key or value tile: 16 rows of 16 pairs.
pub(super) const TILE_WORDS: usize = 256;

pub(super) const ZERO: Bf16Group = Bf16Group {
    rows: [[0; DEPTH]; ROWS],
};
/// 1.0 everywhere.
const ONES: Bf16Group = Bf16Group {
    rows: [[0x3f80; DEPTH]; ROWS],
};

/// Sums of the first and second row tile.
pub(super) const C0: u8 = 0;
pub(super) const C1: u8 = 1;
const A0: u8 = 2;
const A1: u8 = 3;
pub(super) const B: u8 = 4;
/// The same for the last 16 dims of a head that is no multiple of 32.
const A0_HALF: u8 = 5;
const A1_HALF: u8 = 6;
const B_HALF: u8 = 7;
pub(super) const CONFIG: TileConfig = {
    let a = TileShape {
        rows: 16,
        row_bytes: 32,
    };
    let b = TileShape {
        rows: 8,
        row_bytes: 64,
    };
    TileConfig::new([WHOLE, WHOLE, WHOLE, WHOLE, WHOLE, a, a, b])
};

/// Calls a kernel compiled for so many row tiles and products along a head.
macro_rules! by_size {
    ($rows:expr, $head_dim:expr, $span:ident($($argument:expr),*)) => {
        match ($rows.div_ceil(ROWS), $head_dim.div_ceil(DEPTH)) {
            (1, ..=2) => $span::<1, 2>($($argument),*),
            (1, ..=4) => $span::<1, 4>($($argument),*),
            (1, _) => $span::<1, SPANS_MAX>($($argument),*),
            (_, ..=2) => $span::<2, 2>($($argument),*),
            (_, ..=4) => $span::<2, 4>($($argument),*),
            _ => $span::<2, SPANS_MAX>($($argument),*),
        }
    };
}
pub(super) use by_size;

/// One tile over one span of bf16 keys and values. `output` has room for whole row tiles of 16.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, FMA and AMX, and tile instructions execute.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn attention_span(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    let rows = input.visible.len();
    let blocks = input.blocks();
    if rows < ROWS_MIN || hides_what_is_not_finite(input, &blocks) {
        return avx512::attention::attention_span(input, output);
    }
    assert_room(input, output);
    // SAFETY: the caller's promise; kernels do not nest.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    by_size!(rows, input.head_dim, span(&tiles, input, &blocks, output));
}

/// Fails unless `output` has room for whole row tiles.
pub(super) fn assert_room(input: &SpanInput<'_>, output: &SpanOutput<'_>) {
    let row_tiles = input.visible.len().div_ceil(ROWS);
    assert!(
        row_tiles <= ROW_TILES
            && input.head_dim <= SPANS_MAX * DEPTH
            && output.scores.len() >= row_tiles * ROWS
            && output.o.len() >= row_tiles * ROWS * (input.head_dim / 16),
        "room for whole row tiles"
    );
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
fn span<const T: usize, const SPANS: usize>(
    tiles: &Tiles,
    input: &SpanInput<'_>,
    blocks: &Range<usize>,
    output: &mut SpanOutput<'_>,
) {
    let mut queries = [[ZERO; SPANS]; T];
    pack_queries(&mut queries, input);
    for block in blocks.clone() {
        let (keys, _) = input.cache.block(input.span * SPAN_BLOCKS + block);
        for (half, keys) in keys.chunks_exact(input.head_dim * 8).enumerate() {
            scores(tiles, &queries, keys, 2 * block + half, output);
        }
    }
    for row in 0..input.visible.len() {
        avx512::attention::weigh(input, blocks.clone(), row, output);
        to_bf16(&mut output.scores[row], blocks.clone());
    }
    sums::<T>(tiles, input, blocks, output);
    weight_sums::<T>(tiles, blocks, output);
}

/// Makes bf16 of a row's weights, in place: those of a block are then 64 bytes, the ones of its first half before.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn to_bf16(row: &mut SpanRow, blocks: Range<usize>) {
    for block in blocks {
        let weights = bf16_of([&row[2 * block], &row[2 * block + 1]]);
        // Block by block, this overwrites only what has been read.
        bytemuck::cast_slice_mut(&mut row[block])[..DEPTH].copy_from_slice(&weights);
    }
}

/// Whether some row sees a block in part that holds a value which is not finite.
#[target_feature(enable = "avx512f,avx512bw")]
fn hides_what_is_not_finite(input: &SpanInput<'_>, blocks: &Range<usize>) -> bool {
    let rows = 0..input.visible.len();
    let (start, end) = rows.fold((0, SPAN_TOKENS), |(start, end), row| {
        let keys = input.row_keys(row);
        if keys.is_empty() {
            (SPAN_TOKENS, 0)
        } else {
            (keys.start.max(start), keys.end.min(end))
        }
    });
    blocks
        .clone()
        .filter(|block| block * BLOCK_TOKENS < start || (block + 1) * BLOCK_TOKENS > end)
        .any(|block| {
            let (_, values) = input.cache.block(input.span * SPAN_BLOCKS + block);
            !all_finite(values)
        })
}

/// Whether all bf16 numbers, two a word, are finite.
#[target_feature(enable = "avx512f,avx512bw")]
fn all_finite(words: &[u32]) -> bool {
    let exponent = _mm512_set1_epi16(0x7f80);
    words.as_chunks::<16>().0.iter().all(|words| {
        // SAFETY: 64 readable bytes.
        let numbers = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
        _mm512_cmpeq_epi16_mask(_mm512_and_si512(numbers, exponent), exponent) == 0
    })
}

/// Queries, bf16 numbers already, as first operands; rows past the last stay zero.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) fn pack_queries<const T: usize, const SPANS: usize>(
    queries: &mut [[Bf16Group; SPANS]; T],
    input: &SpanInput<'_>,
) {
    let vectors = input.head_dim / 16;
    let rows = input.q.chunks_exact(vectors).take(input.visible.len());
    for (row, q) in rows.enumerate() {
        let spans = &mut queries[row / ROWS];
        for (span, q) in spans.iter_mut().zip(q.chunks(2)) {
            let high = q.get(1).unwrap_or(&[0.0; 16]);
            span.rows[row % ROWS] = bf16_of([&q[0], high]);
        }
    }
}

/// The upper halves of 32 numbers that are bf16 already.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn bf16_of(numbers: [&[f32; 16]; 2]) -> [u16; DEPTH] {
    let mut bits = [0; DEPTH];
    for (numbers, bits) in numbers.iter().zip(bits.as_chunks_mut::<16>().0) {
        // SAFETY: 64 readable and 32 writable bytes.
        unsafe {
            let upper = _mm512_srli_epi32::<16>(_mm512_loadu_si512(numbers.as_ptr().cast()));
            _mm256_storeu_si256(bits.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(upper));
        }
    }
    bits
}

/// Dots of all rows with 16 keys, into vector `vector` of their scores.
#[target_feature(enable = "avx512f")]
pub(super) fn scores<const T: usize, const SPANS: usize>(
    tiles: &Tiles,
    queries: &[[Bf16Group; SPANS]; T],
    keys: &[u32],
    vector: usize,
    output: &mut SpanOutput<'_>,
) {
    tiles.zero::<C0>();
    tiles.zero::<C1>();
    let (whole, rest) = keys.as_chunks::<TILE_WORDS>();
    // SAFETY: queries are 16 rows of 64 bytes, keys 16 or, at the end, 8 rows of 64; the 16 rows of scores of each row tile lie
    // one span apart, which `assert_room` asserted.
    unsafe {
        for (span, keys) in whole.iter().enumerate() {
            tiles.load::<B>(keys.as_ptr().cast(), 64);
            tiles.load::<A0>(queries[0][span].rows.as_ptr().cast(), 64);
            tiles.dot_bf16::<C0, A0, B>();
            if T == 2 {
                tiles.load::<A1>(queries[1][span].rows.as_ptr().cast(), 64);
                tiles.dot_bf16::<C1, A1, B>();
            }
        }
        if !rest.is_empty() {
            tiles.load::<B_HALF>(rest.as_ptr().cast(), 64);
            tiles.load::<A0_HALF>(queries[0][whole.len()].rows.as_ptr().cast(), 64);
            tiles.dot_bf16::<C0, A0_HALF, B_HALF>();
            if T == 2 {
                tiles.load::<A1_HALF>(queries[1][whole.len()].rows.as_ptr().cast(), 64);
                tiles.dot_bf16::<C1, A1_HALF, B_HALF>();
            }
        }
        let row_bytes = SPAN_TOKENS * 4;
        let to = output.scores.as_mut_ptr().cast::<u8>().add(vector * 64);
        tiles.store::<C0>(to, row_bytes);
        if T == 2 {
            tiles.store::<C1>(to.add(ROWS * row_bytes), row_bytes);
        }
    }
}

/// Weighted sums of the values of all blocks.
#[target_feature(enable = "avx512f")]
fn sums<const T: usize>(
    tiles: &Tiles,
    input: &SpanInput<'_>,
    blocks: &Range<usize>,
    output: &mut SpanOutput<'_>,
) {
    for dims in 0..input.head_dim / 16 {
        tiles.zero::<C0>();
        tiles.zero::<C1>();
        for block in blocks.clone() {
            let (_, values) = input.cache.block(input.span * SPAN_BLOCKS + block);
            let values = &values.as_chunks::<TILE_WORDS>().0[dims];
            // SAFETY: 16 rows of 64 bytes.
            unsafe { tiles.load::<B>(values.as_ptr().cast(), 64) };
            add_block::<T>(tiles, output.scores, block);
        }
        store_sums::<T>(tiles, input, dims, output);
    }
}

/// The sums of 16 dims of all rows to their places.
#[inline(always)]
pub(super) fn store_sums<const T: usize>(
    tiles: &Tiles,
    input: &SpanInput<'_>,
    dims: usize,
    output: &mut SpanOutput<'_>,
) {
    let row_bytes = input.head_dim * 4;
    // SAFETY: the 16 rows of each row tile lie one head apart, which `assert_room` asserted.
    unsafe {
        let to = output.o.as_mut_ptr().add(dims).cast::<u8>();
        tiles.store::<C0>(to, row_bytes);
        if T == 2 {
            tiles.store::<C1>(to.add(ROWS * row_bytes), row_bytes);
        }
    }
}

/// Sums of the weights themselves: the values are ones.
#[target_feature(enable = "avx512f")]
fn weight_sums<const T: usize>(tiles: &Tiles, blocks: &Range<usize>, output: &mut SpanOutput<'_>) {
    let mut sums = [[[0.0f32; 16]; ROWS]; ROW_TILES];
    tiles.zero::<C0>();
    tiles.zero::<C1>();
    // SAFETY: every tile is 16 rows of 64 bytes.
    unsafe {
        tiles.load::<B>(ONES.rows.as_ptr().cast(), 64);
        for block in blocks.clone() {
            add_block::<T>(tiles, output.scores, block);
        }
        tiles.store::<C0>(sums[0].as_mut_ptr().cast(), 64);
        tiles.store::<C1>(sums[1].as_mut_ptr().cast(), 64);
    }
    for (l, sums) in output.l.iter_mut().zip(sums.as_flattened()) {
        *l = sums[0];
    }
}

/// Adds the weights of one block times what is in `B`.
#[inline(always)]
pub(super) fn add_block<const T: usize>(tiles: &Tiles, weights: &[SpanRow], block: usize) {
    let stride = size_of::<SpanRow>();
    // SAFETY: weights of a block are 64 bytes of each of 16 rows, which `assert_room` asserted; those of rows past the
    // last are numbers of no meaning, which reach no other row.
    unsafe {
        let from = weights.as_ptr().cast::<u8>().add(block * 64);
        tiles.load::<A0>(from, stride);
        tiles.dot_bf16::<C0, A0, B>();
        if T == 2 {
            tiles.load::<A1>(from.add(ROWS * stride), stride);
            tiles.dot_bf16::<C1, A1, B>();
        }
    }
}

//! Attention of a tile of rows over one span of an int8 cache, in tiles: codes are widened to bf16, which they are exactly,
//! once for all rows; the rest is as from bf16 (`attention.rs`). The arithmetic is `generic::attention`'s.
//!
//! Scales act outside of the unit: those of keys on scores, those of values on weights. So `l`, which sums weights without
//! them, is added up by vectors. What was never written is a finite code and needs no path of its own.
//!
//! Widening takes two loads, a shift, a mask and a store for 32 codes: of a span at dim 64, some 5,000 operations, beside
//! those of 8,192 weights for 32 rows.

use core::arch::x86_64::*;
use std::ops::Range;

use ucuz_tensor::cache::BLOCK_TOKENS;

use super::ROWS_MIN;
use super::attention::{
    B, C0, C1, CONFIG, DEPTH, ROWS, SPANS_MAX, TILE_WORDS, ZERO, add_block, assert_room, by_size,
    pack_queries, scores, store_sums, to_bf16,
};
use super::unit::Tiles;
use crate::arch::avx512;
use crate::arch::generic::attention::{SPAN_BLOCKS, SpanInput, SpanOutput};
use crate::arch::generic::stored::{Int8, Stored};

/// Words of the keys of half a block, in bf16: a pair of dims of 16 keys is 16.
const KEY_WORDS: usize = SPANS_MAX * TILE_WORDS;

/// One tile over one span of int8 keys and values. `output` has room for whole row tiles of 16.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, FMA and AMX, and tile instructions execute.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn attention_span_int8(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    let rows = input.visible.len();
    if rows < ROWS_MIN {
        return avx512::attention::attention_span_int8(input, output);
    }
    assert_room(input, output);
    // SAFETY: the caller's promise; kernels do not nest.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    let blocks = input.blocks();
    by_size!(rows, input.head_dim, span(&tiles, input, &blocks, output));
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
    let mut wide = [0; KEY_WORDS];
    for block in blocks.clone() {
        let (keys, _) = input.cache.block(input.span * SPAN_BLOCKS + block);
        let (strips, _) = Int8::part(keys);
        for (half, strips) in strips.chunks_exact(input.head_dim / 16).enumerate() {
            let wide = &mut wide[..input.head_dim * 8];
            widen(wide, strips.as_flattened());
            scores(tiles, &queries, wide, 2 * block + half, output);
        }
    }
    for row in 0..input.visible.len() {
        avx512::attention::weigh_int8(input, blocks.clone(), row, output);
        to_bf16(&mut output.scores[row], blocks.clone());
    }
    sums::<T>(tiles, input, blocks, output);
}

/// Weighted sums of the values of all blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn sums<const T: usize>(
    tiles: &Tiles,
    input: &SpanInput<'_>,
    blocks: &Range<usize>,
    output: &mut SpanOutput<'_>,
) {
    let mut wide = [0; TILE_WORDS];
    // Strips of a group of 16 dims, one for each 16 tokens.
    const STRIPS: usize = BLOCK_TOKENS / 16;
    for dims in 0..input.head_dim / 16 {
        tiles.zero::<C0>();
        tiles.zero::<C1>();
        for block in blocks.clone() {
            let (_, values) = input.cache.block(input.span * SPAN_BLOCKS + block);
            let (strips, _) = Int8::part(values);
            widen(&mut wide, strips[STRIPS * dims..][..STRIPS].as_flattened());
            // SAFETY: 16 rows of 64 bytes.
            unsafe { tiles.load::<B>(wide.as_ptr().cast(), 64) };
            add_block::<T>(tiles, output.scores, block);
        }
        store_sums::<T>(tiles, input, dims, output);
    }
}

/// Pairs of codes as pairs of bf16 numbers: the upper halves of what they are in f32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn widen(words: &mut [u32], pairs: &[[[i8; 16]; 2]]) {
    debug_assert_eq!(words.len(), pairs.len() * 16, "a word a pair");
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    for (words, [even, odd]) in words.as_chunks_mut::<16>().0.iter_mut().zip(pairs) {
        // SAFETY: 16 readable bytes each, 64 writable ones.
        unsafe {
            let number = |codes: &[i8; 16]| {
                let codes = _mm512_cvtepi8_epi32(_mm_loadu_si128(codes.as_ptr().cast()));
                _mm512_castps_si512(_mm512_cvtepi32_ps(codes))
            };
            let even = _mm512_srli_epi32::<16>(number(even));
            let odd = _mm512_and_si512(number(odd), upper);
            _mm512_storeu_si512(words.as_mut_ptr().cast(), _mm512_or_si512(even, odd));
        }
    }
}

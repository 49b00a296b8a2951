//! How a block holds its numbers: what differs between bf16 and int8 in the one arithmetic of a span.
//!
//! A block's part, keys or values, is cut in **strips**: sixteen numbers along the sum for each of 16 lanes, in pairs of
//! an even and an odd one, as tile units take their second operand. The two precisions differ in what a pair is, and in
//! where the scales of int8 act:
//!
//! ```text
//!          key, query       score                          l sums                       values are weighted by
//! bf16     bf16, bf16       c · scale_log2                 bf16(2^(t - n)) · 2^n        the same
//! int8     codes, bf16      (c · key scale) · scale_log2   p = 2^(t - n) · 2^n, f32     bf16(p · value scale), 0 below 2^-119
//! ```
//! So each operand of a product is exact in bf16: a code has 7 bits. A weight of int8 is rounded once, with its scale in
//! it. From 2^-119 on it is a multiple of 2^-126, and so is every product with a code and every sum of them: none is a
//! denormal, which tile units would flush.

use std::ops::Range;

use ucuz_tensor::cache::BLOCK_TOKENS;

use super::attention::{SpanRow, key_bits};
use super::lanes::Lanes;

/// Sixteen numbers along the sum for each of 16 lanes.
pub(crate) type Strip<S> = [<S as Stored>::Pair; 8];

/// A precision of the cache.
pub(crate) trait Stored: Copy {
    /// An even and an odd number for each of 16 lanes.
    type Pair;
    /// The scales of one part of a block.
    type Scales<'a>: Copy;
    /// Whether what an unwritten place holds times a weight of zero is zero.
    const UNWRITTEN_IS_FINITE: bool;

    /// Strips and scales of one part of a block.
    fn part(words: &[u32]) -> (&[Strip<Self>], Self::Scales<'_>);

    /// Even and odd numbers of a pair.
    fn split<L: Lanes>(lanes: L, pair: &Self::Pair) -> (L::F, L::F);

    /// The scaled products of queries with the 16 keys of half a block.
    fn score<L: Lanes>(lanes: L, c: L::F, scales: Self::Scales<'_>, half: usize) -> L::F;

    /// `2^(t - n)` as `l` sums it.
    fn weight<L: Lanes>(lanes: L, fraction: L::F) -> L::F;

    /// Turns the weights of one row and block from what `l` sums into what values are multiplied by.
    fn operands<L: Lanes>(lanes: L, block: WeightBlock<'_>, scales: Self::Scales<'_>);
}

/// Weights of one row over one block of a span.
pub(crate) struct WeightBlock<'a> {
    /// All weights of the row.
    pub weights: &'a mut SpanRow,
    /// Which block of the span.
    pub block: usize,
    /// Keys of the span that the row sees.
    pub keys: Range<usize>,
}

/// 16 lanes of two bf16 numbers: the first is the low half of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bf16;

impl Stored for Bf16 {
    type Pair = [u32; 16];
    type Scales<'a> = ();
    const UNWRITTEN_IS_FINITE: bool = false;

    #[inline(always)]
    fn part(words: &[u32]) -> (&[Strip<Self>], ()) {
        (words.as_chunks().0.as_chunks().0, ())
    }

    #[inline(always)]
    fn split<L: Lanes>(lanes: L, pair: &Self::Pair) -> (L::F, L::F) {
        lanes.pairs(pair)
    }

    #[inline(always)]
    fn score<L: Lanes>(_: L, c: L::F, (): (), _: usize) -> L::F {
        c
    }

    #[inline(always)]
    fn weight<L: Lanes>(lanes: L, fraction: L::F) -> L::F {
        lanes.round_bf16(fraction)
    }

    #[inline(always)]
    fn operands<L: Lanes>(_: L, _: WeightBlock<'_>, (): ()) {}
}

/// The even codes of 16 lanes, then the odd ones; after all codes of a part one f32 scale a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Int8;

/// Smallest weight of an int8 value, times its scale, that is not taken as zero: 2^-119.
const OPERAND_MIN: f32 = f32::from_bits((127 - 119) << 23);

impl Stored for Int8 {
    type Pair = [[i8; 16]; 2];
    type Scales<'a> = &'a [[f32; 16]];
    const UNWRITTEN_IS_FINITE: bool = true;

    #[inline(always)]
    fn part(words: &[u32]) -> (&[Strip<Self>], Self::Scales<'_>) {
        let (codes, scales) = words.split_at(words.len() - BLOCK_TOKENS);
        let codes: &[i8] = bytemuck::cast_slice(codes);
        let scales: &[f32] = bytemuck::cast_slice(scales);
        let strips = codes.as_chunks().0.as_chunks().0.as_chunks().0;
        (strips, scales.as_chunks().0)
    }

    #[inline(always)]
    fn split<L: Lanes>(lanes: L, [even, odd]: &Self::Pair) -> (L::F, L::F) {
        (lanes.codes(even), lanes.codes(odd))
    }

    #[inline(always)]
    fn score<L: Lanes>(lanes: L, c: L::F, scales: Self::Scales<'_>, half: usize) -> L::F {
        lanes.mul(c, lanes.load(&scales[half]))
    }

    #[inline(always)]
    fn weight<L: Lanes>(_: L, fraction: L::F) -> L::F {
        fraction
    }

    #[inline(always)]
    fn operands<L: Lanes>(lanes: L, block: WeightBlock<'_>, scales: Self::Scales<'_>) {
        for (half, scales) in scales.iter().enumerate() {
            let vector = 2 * block.block + half;
            let place = &mut block.weights[vector];
            let scaled = lanes.round_bf16(lanes.mul(lanes.load(place), lanes.load(scales)));
            let operand = lanes.zero_below(scaled, OPERAND_MIN);
            // A hidden weight is 0, but what stands where no scale was written may be NaN.
            let bits = key_bits(&block.keys, vector);
            lanes.store(place, lanes.select(bits, operand, lanes.splat(0.0)));
        }
    }
}

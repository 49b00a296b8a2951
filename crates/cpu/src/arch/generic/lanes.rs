//! Sixteen f32 lanes, the one vector that attention is written in, and their portable form.
//!
//! Each tier implements [`Lanes`] with what it has: one 512-bit register, two of 256 bits, or an array. Every operation
//! is exact or rounds once, so the lanes of all tiers hold the same bits.

use std::ops::Range;

use ucuz_tensor::numerics;

use super::attention::{SPAN_BLOCKS, SpanRow};

/// Proof that a tier's instructions may be used, and what sixteen f32 lanes can do there.
pub trait Lanes: Copy {
    /// Sixteen f32.
    type F: Copy;

    /// Rows that share one pass over keys or values: as many as the registers hold accumulators for.
    const ROWS: usize;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::F;
    /// Reads sixteen.
    fn load(self, from: &[f32; 16]) -> Self::F;
    /// Writes sixteen.
    fn store(self, to: &mut [f32; 16], a: Self::F);
    /// Splits sixteen pairs of bf16 into their first (low) and second (high) numbers.
    fn pairs(self, from: &[u32; 16]) -> (Self::F, Self::F);
    /// Sixteen codes as numbers.
    fn codes(self, from: &[i8; 16]) -> Self::F;
    /// `a · b + c` where `a · b` is exact (two bf16 operands), so that fused and plain agree.
    fn exact_mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a · b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where it is greater, else `b`.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// The greatest lane (any lane if there is a NaN).
    fn greatest(self, a: Self::F) -> f32;
    /// The bits of every lane and `mask`.
    fn and(self, a: Self::F, mask: u32) -> Self::F;
    /// Lanes whose bit in `keep` is set; `otherwise` in the rest.
    fn select(self, keep: u16, a: Self::F, otherwise: Self::F) -> Self::F;
    /// The largest integer not above; beyond ±2^22 anything that is as far out.
    fn floor(self, a: Self::F) -> Self::F;
    /// Rounds normal numbers to bf16, half to even; a NaN that came from bf16 stays NaN.
    fn round_bf16(self, a: Self::F) -> Self::F;
    /// `a · 2^n` for integers `n >= -64`; `+0` where `n < -64`.
    fn scale(self, a: Self::F, n: Self::F) -> Self::F;
    /// Numbers from `least` on, and NaN; `+0` instead of smaller ones.
    fn zero_below(self, a: Self::F, least: f32) -> Self::F;
    /// Asks for words that will be read soon.
    fn prefetch(self, words: &[u32]);
    /// Sums of the weights of each block of `blocks`, in the canonical order; the others' places hold anything.
    #[inline(always)]
    fn block_sums(self, weights: &SpanRow, blocks: Range<usize>) -> [f32; SPAN_BLOCKS] {
        let mut sums = [0.0; SPAN_BLOCKS];
        let pairs = weights.as_chunks::<2>().0;
        for (sum, block) in sums
            .iter_mut()
            .zip(pairs)
            .skip(blocks.start)
            .take(blocks.len())
        {
            let (mut even, mut odd) = (0.0, 0.0);
            for pair in block.as_flattened().as_chunks::<2>().0 {
                even += pair[0];
                odd += pair[1];
            }
            *sum = even + odd;
        }
        sums
    }
}

/// [`Lanes`] as an array.
#[derive(Debug, Clone, Copy)]
pub struct Portable;

#[inline(always)]
fn each(a: [f32; 16], b: [f32; 16], f: impl Fn(f32, f32) -> f32) -> [f32; 16] {
    std::array::from_fn(|j| f(a[j], b[j]))
}

impl Lanes for Portable {
    type F = [f32; 16];

    const ROWS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; 16]
    }

    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> Self::F {
        *from
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; 16], a: Self::F) {
        *to = a;
    }

    #[inline(always)]
    fn pairs(self, from: &[u32; 16]) -> (Self::F, Self::F) {
        (
            std::array::from_fn(|j| f32::from_bits(from[j] << 16)),
            std::array::from_fn(|j| f32::from_bits(from[j] & 0xffff_0000)),
        )
    }

    #[inline(always)]
    fn codes(self, from: &[i8; 16]) -> Self::F {
        from.map(f32::from)
    }

    #[inline(always)]
    fn exact_mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|j| a[j] * b[j] + c[j])
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn greatest(self, a: Self::F) -> f32 {
        a.iter().fold(
            f32::NEG_INFINITY,
            |greatest, &x| if x > greatest { x } else { greatest },
        )
    }

    #[inline(always)]
    fn and(self, a: Self::F, mask: u32) -> Self::F {
        a.map(|x| f32::from_bits(x.to_bits() & mask))
    }

    #[inline(always)]
    fn select(self, keep: u16, a: Self::F, otherwise: Self::F) -> Self::F {
        std::array::from_fn(|j| {
            if keep >> j & 1 == 1 {
                a[j]
            } else {
                otherwise[j]
            }
        })
    }

    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        a.map(|x| {
            let nearest = numerics::round_even(x);
            if nearest > x { nearest - 1.0 } else { nearest }
        })
    }

    #[inline(always)]
    fn round_bf16(self, a: Self::F) -> Self::F {
        a.map(|x| {
            let bits = x.to_bits();
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
            f32::from_bits(rounded & 0xffff_0000)
        })
    }

    #[inline(always)]
    fn scale(self, a: Self::F, n: Self::F) -> Self::F {
        each(a, n, |a, n| {
            if n < -64.0 {
                0.0
            } else {
                a * numerics::exp2_integer(n)
            }
        })
    }

    #[inline(always)]
    fn zero_below(self, a: Self::F, least: f32) -> Self::F {
        a.map(|x| if x < least { 0.0 } else { x })
    }

    #[inline(always)]
    fn prefetch(self, _words: &[u32]) {}
}

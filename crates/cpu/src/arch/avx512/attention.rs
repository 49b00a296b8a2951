//! [`Lanes`] in one 512-bit register, and the span kernel over it. The arithmetic is `generic::attention`'s.
//!
//! Eight rows hold 16 accumulators and 8 sums; queries and weights come as broadcasts from memory.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::arch::generic::attention::{
    SPAN_BLOCKS, SpanInput, SpanOutput, SpanRow, span_over, weights,
};
use crate::arch::generic::lanes::Lanes;
use crate::arch::generic::stored::{Bf16, Int8, Stored, WeightBlock};

/// Proof that AVX-512 F and DQ may be used: made only inside functions that enable them.
#[derive(Clone, Copy)]
struct Avx512(());

/// One tile over one span of bf16 keys and values.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn attention_span(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    span_over::<_, Bf16>(Avx512(()), input, output);
}

/// One tile over one span of int8 keys and values.
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn attention_span_int8(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    span_over::<_, Int8>(Avx512(()), input, output);
}

/// Turns one row's dots with the bf16 keys of `blocks` into weights, in place, and sets its `m`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub(crate) fn weigh(
    input: &SpanInput<'_>,
    blocks: Range<usize>,
    row: usize,
    output: &mut SpanOutput<'_>,
) {
    let lanes = Avx512(());
    let scale = lanes.splat(input.scale_log2);
    for vector in &mut output.scores[row][2 * blocks.start..2 * blocks.end] {
        lanes.store(vector, lanes.mul(lanes.load(vector), scale));
    }
    weights::<_, Bf16>(lanes, input.row_keys(row), blocks, row, output);
}

/// Turns one row's dots with the codes of the keys of `blocks` into what values are multiplied by, in place, and sets its `m`
/// and `l`.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub(crate) fn weigh_int8(
    input: &SpanInput<'_>,
    blocks: Range<usize>,
    row: usize,
    output: &mut SpanOutput<'_>,
) {
    let lanes = Avx512(());
    let (scale, keys) = (lanes.splat(input.scale_log2), input.row_keys(row));
    let parts = |block: usize| input.cache.block(input.span * SPAN_BLOCKS + block);
    for block in blocks.clone() {
        let (_, scales) = Int8::part(parts(block).0);
        for half in 0..2 {
            let vector = &mut output.scores[row][2 * block + half];
            let score = Int8::score(lanes, lanes.load(vector), scales, half);
            lanes.store(vector, lanes.mul(score, scale));
        }
    }
    weights::<_, Int8>(lanes, keys.clone(), blocks.clone(), row, output);
    let weights = &mut output.scores[row];
    let sums = lanes.block_sums(weights, blocks.clone());
    output.l[row] = sums[blocks.clone()].iter().fold(0.0, |l, sum| l + sum);
    for block in blocks {
        let (_, scales) = Int8::part(parts(block).1);
        let keys = keys.clone();
        let weights = WeightBlock {
            weights,
            block,
            keys,
        };
        Int8::operands(lanes, weights, scales);
    }
}

impl Lanes for Avx512 {
    type F = __m512;

    const ROWS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> __m512 {
        // SAFETY: the token proves AVX-512; 64 bytes are readable.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; 16], a: __m512) {
        // SAFETY: the token proves AVX-512; 64 bytes are writable.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), a) }
    }

    #[inline(always)]
    fn pairs(self, from: &[u32; 16]) -> (__m512, __m512) {
        // SAFETY: the token proves AVX-512; 64 bytes are readable.
        unsafe {
            let both = _mm512_loadu_si512(from.as_ptr().cast());
            let odd = _mm512_and_si512(both, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            (
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(both)),
                _mm512_castsi512_ps(odd),
            )
        }
    }

    #[inline(always)]
    fn codes(self, from: &[i8; 16]) -> __m512 {
        // SAFETY: the token proves AVX-512; 16 bytes are readable.
        unsafe {
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))
        }
    }

    #[inline(always)]
    fn exact_mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn greatest(self, a: __m512) -> f32 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_reduce_max_ps(a) }
    }

    #[inline(always)]
    fn and(self, a: __m512, mask: u32) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let bits = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(mask as i32));
            _mm512_castsi512_ps(bits)
        }
    }

    #[inline(always)]
    fn select(self, keep: u16, a: __m512, otherwise: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe { _mm512_mask_mov_ps(otherwise, keep, a) }
    }

    #[inline(always)]
    fn floor(self, a: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512. Immediate 1: no fraction bits, toward minus infinity.
        unsafe { _mm512_roundscale_ps::<1>(a) }
    }

    #[inline(always)]
    fn round_bf16(self, a: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let bits = _mm512_castps_si512(a);
            let last = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
            let top = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(bits, half), top))
        }
    }

    #[inline(always)]
    fn scale(self, a: __m512, n: __m512) -> __m512 {
        // SAFETY: the token proves AVX-512. Where `n` is at least -64, scalef is one exact multiplication.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(n, _mm512_set1_ps(-64.0));
            _mm512_maskz_scalef_ps(keep, a, n)
        }
    }

    #[inline(always)]
    fn zero_below(self, a: __m512, least: f32) -> __m512 {
        // SAFETY: the token proves AVX-512.
        unsafe {
            let keep = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(a, _mm512_set1_ps(least));
            _mm512_maskz_mov_ps(keep, a)
        }
    }

    /// All eight blocks at once, the even and the odd keys of each in lanes of their own: 64 operations a row, whatever it
    /// sees, where a block by itself takes 32.
    #[inline(always)]
    fn block_sums(self, weights: &SpanRow, _blocks: Range<usize>) -> [f32; SPAN_BLOCKS] {
        // SAFETY: the token proves AVX-512.
        let sums = unsafe { pair_sums(weights) };
        std::array::from_fn(|block| sums[2 * block] + sums[2 * block + 1])
    }

    #[inline(always)]
    fn prefetch(self, words: &[u32]) {
        for line in words.chunks(16) {
            // SAFETY: a prefetch reads nothing and faults nowhere.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) }
        }
    }
}

/// Sums of the even and the odd numbers of each block of 32, ascending: `[block][even, odd]`.
#[inline]
#[target_feature(enable = "avx512f")]
fn pair_sums(weights: &SpanRow) -> [f32; 16] {
    let mut sum = _mm512_setzero_ps();
    for half in 0..2 {
        let vector = |block: usize| {
            // SAFETY: 64 bytes are readable.
            unsafe { _mm512_loadu_pd(weights[2 * block + half].as_ptr().cast()) }
        };
        // Pair `i` of all eight blocks comes to lie in vector `i`.
        let twos: [[__m512d; 4]; 2] = [
            std::array::from_fn(|i| _mm512_unpacklo_pd(vector(2 * i), vector(2 * i + 1))),
            std::array::from_fn(|i| _mm512_unpackhi_pd(vector(2 * i), vector(2 * i + 1))),
        ];
        let fours = twos.map(|[a, b, c, d]| {
            [
                _mm512_shuffle_f64x2::<0b10_00_10_00>(a, b),
                _mm512_shuffle_f64x2::<0b10_00_10_00>(c, d),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(a, b),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(c, d),
            ]
        });
        // The even ones hold pairs 0, 2, 4 and 6, the odd ones 1, 3, 5 and 7.
        let [even, odd] = fours.map(|[a, b, c, d]| {
            [
                _mm512_shuffle_f64x2::<0b10_00_10_00>(a, b),
                _mm512_shuffle_f64x2::<0b10_00_10_00>(c, d),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(a, b),
                _mm512_shuffle_f64x2::<0b11_01_11_01>(c, d),
            ]
        });
        for (even, odd) in even.into_iter().zip(odd) {
            sum = _mm512_add_ps(sum, _mm512_castpd_ps(even));
            sum = _mm512_add_ps(sum, _mm512_castpd_ps(odd));
        }
    }
    let mut sums = [0.0; 16];
    // SAFETY: 64 bytes are writable.
    unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::generic::lanes::Portable;
    use crate::detect::{CpuFeatures, Tier};

    #[test]
    fn sums_of_blocks_equal_the_portable_ones_whatever_lies_beside_them() {
        if !CpuFeatures::detect().tiers().contains(&Tier::Avx512) {
            return eprintln!("skipped: this processor lacks the avx512 tier");
        }
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            // Magnitudes from 2^-20 to 2^11, so that every order of adding rounds differently.
            f32::from_bits((107 + (state >> 27)) << 23 | state >> 9 & 0x7f_ffff)
        };
        for start in 0..SPAN_BLOCKS {
            for end in start + 1..=SPAN_BLOCKS {
                let mut weights: SpanRow = [[f32::NAN; 16]; SPAN_BLOCKS * 2];
                for weight in weights[2 * start..2 * end].as_flattened_mut() {
                    *weight = noise();
                }
                let blocks = start..end;
                let got = Avx512(()).block_sums(&weights, blocks.clone());
                let expected = Portable.block_sums(&weights, blocks.clone());
                assert_eq!(got[blocks.clone()], expected[blocks]);
            }
        }
    }
}

//! [`Lanes`] in two 256-bit registers, and the span kernel over it. The arithmetic is `generic::attention`'s.
//!
//! Two rows hold 8 accumulators; with both halves of a split vector and a broadcast that fills 13 of 16 registers.

use std::arch::x86_64::*;

use crate::arch::generic::attention::{SpanInput, SpanOutput, span_over};
use crate::arch::generic::lanes::Lanes;
use crate::arch::generic::stored::{Bf16, Int8};

/// Proof that AVX2 and FMA may be used: made only inside functions that enable them.
#[derive(Clone, Copy)]
struct Avx2(());

/// Lanes 0 to 7, then 8 to 15.
type Two = (__m256, __m256);

/// One tile over one span of bf16 keys and values.
///
/// # Safety
/// The processor has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub fn attention_span(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    span_over::<_, Bf16>(Avx2(()), input, output);
}

/// One tile over one span of int8 keys and values.
///
/// # Safety
/// The processor has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub fn attention_span_int8(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    span_over::<_, Int8>(Avx2(()), input, output);
}

/// The bits of `_mm256_and_si256(a, b)` on floats.
#[inline(always)]
fn and_bits(a: __m256, mask: u32) -> __m256 {
    // SAFETY: called by `Avx2`'s methods only, whose token proves AVX2.
    unsafe { _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(mask as i32))) }
}

/// All bits of each lane whose bit in `keep` is set.
#[inline(always)]
fn lane_mask(keep: u8) -> __m256 {
    // SAFETY: called by `Avx2`'s methods only, whose token proves AVX2.
    unsafe {
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let kept = _mm256_and_si256(_mm256_set1_epi32(i32::from(keep)), bits);
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(kept, bits))
    }
}

#[inline(always)]
fn round_bf16(a: __m256) -> __m256 {
    // SAFETY: called by `Avx2`'s methods only, whose token proves AVX2.
    unsafe {
        let bits = _mm256_castps_si256(a);
        let last = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
        let top = _mm256_set1_epi32(0xffff_0000_u32 as i32);
        _mm256_castsi256_ps(_mm256_and_si256(_mm256_add_epi32(bits, half), top))
    }
}

#[inline(always)]
fn scale(a: __m256, n: __m256) -> __m256 {
    // SAFETY: called by `Avx2`'s methods only, whose token proves AVX2.
    unsafe {
        let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent));
        let keep = _mm256_cmp_ps::<_CMP_NLT_UQ>(n, _mm256_set1_ps(-64.0));
        _mm256_and_ps(keep, _mm256_mul_ps(a, power))
    }
}

impl Lanes for Avx2 {
    type F = Two;

    const ROWS: usize = 2;

    #[inline(always)]
    fn splat(self, x: f32) -> Two {
        // SAFETY: the token proves AVX2.
        let one = unsafe { _mm256_set1_ps(x) };
        (one, one)
    }

    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> Two {
        // SAFETY: the token proves AVX2; 64 bytes are readable.
        unsafe {
            (
                _mm256_loadu_ps(from.as_ptr()),
                _mm256_loadu_ps(from.as_ptr().add(8)),
            )
        }
    }

    #[inline(always)]
    fn store(self, to: &mut [f32; 16], a: Two) {
        // SAFETY: the token proves AVX2; 64 bytes are writable.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), a.0);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), a.1);
        }
    }

    #[inline(always)]
    fn pairs(self, from: &[u32; 16]) -> (Two, Two) {
        // SAFETY: the token proves AVX2; 64 bytes are readable.
        let (low, high) = unsafe {
            let pointer: *const __m256i = from.as_ptr().cast();
            (
                _mm256_loadu_si256(pointer),
                _mm256_loadu_si256(pointer.add(1)),
            )
        };
        // SAFETY: the token proves AVX2.
        unsafe {
            let even = |v| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(v));
            let odd = |v| and_bits(_mm256_castsi256_ps(v), 0xffff_0000);
            ((even(low), even(high)), (odd(low), odd(high)))
        }
    }

    #[inline(always)]
    fn codes(self, from: &[i8; 16]) -> Two {
        // SAFETY: the token proves AVX2; 16 bytes are readable.
        unsafe {
            let bytes = _mm_loadu_si128(from.as_ptr().cast());
            let number = |bytes| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
            (number(bytes), number(_mm_srli_si128::<8>(bytes)))
        }
    }

    #[inline(always)]
    fn exact_mul_add(self, a: Two, b: Two, c: Two) -> Two {
        // SAFETY: the token proves FMA.
        unsafe {
            (
                _mm256_fmadd_ps(a.0, b.0, c.0),
                _mm256_fmadd_ps(a.1, b.1, c.1),
            )
        }
    }

    #[inline(always)]
    fn add(self, a: Two, b: Two) -> Two {
        // SAFETY: the token proves AVX2.
        unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn sub(self, a: Two, b: Two) -> Two {
        // SAFETY: the token proves AVX2.
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn mul(self, a: Two, b: Two) -> Two {
        // SAFETY: the token proves AVX2.
        unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn max(self, a: Two, b: Two) -> Two {
        // SAFETY: the token proves AVX2.
        unsafe { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn greatest(self, a: Two) -> f32 {
        let mut lanes = [0.0; 16];
        self.store(&mut lanes, a);
        lanes.iter().fold(
            f32::NEG_INFINITY,
            |greatest, &x| if x > greatest { x } else { greatest },
        )
    }

    #[inline(always)]
    fn and(self, a: Two, mask: u32) -> Two {
        (and_bits(a.0, mask), and_bits(a.1, mask))
    }

    #[inline(always)]
    fn select(self, keep: u16, a: Two, otherwise: Two) -> Two {
        let [low, high] = keep.to_le_bytes().map(lane_mask);
        // SAFETY: the token proves AVX2.
        unsafe {
            (
                _mm256_blendv_ps(otherwise.0, a.0, low),
                _mm256_blendv_ps(otherwise.1, a.1, high),
            )
        }
    }

    #[inline(always)]
    fn floor(self, a: Two) -> Two {
        // SAFETY: the token proves AVX2.
        unsafe { (_mm256_floor_ps(a.0), _mm256_floor_ps(a.1)) }
    }

    #[inline(always)]
    fn round_bf16(self, a: Two) -> Two {
        (round_bf16(a.0), round_bf16(a.1))
    }

    #[inline(always)]
    fn scale(self, a: Two, n: Two) -> Two {
        (scale(a.0, n.0), scale(a.1, n.1))
    }

    #[inline(always)]
    fn zero_below(self, a: Two, least: f32) -> Two {
        // SAFETY: the token proves AVX2.
        unsafe {
            let least = _mm256_set1_ps(least);
            let keep = |a| _mm256_and_ps(a, _mm256_cmp_ps::<_CMP_NLT_UQ>(a, least));
            (keep(a.0), keep(a.1))
        }
    }

    #[inline(always)]
    fn prefetch(self, words: &[u32]) {
        for line in words.chunks(16) {
            // SAFETY: a prefetch reads nothing and faults nowhere.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) }
        }
    }
}

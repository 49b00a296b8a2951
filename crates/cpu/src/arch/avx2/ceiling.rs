//! Loops that do one thing, as fast as this tier's instructions can: what a processor is measured with.
//!
//! Accumulators start as values that the compiler does not know ([`opaque`]), so that it can neither merge equal chains nor
//! compute an end without the way there.

use core::arch::x86_64::*;
use std::hint::black_box;

/// Independent f32 sums: two fused operations a cycle times four cycles of latency, and some to spare.
const CHAINS: usize = 12;
/// Independent int8 sums; with eight operands they just fit the registers.
const INT8_CHAINS: usize = 2;
/// `maddubs` between two widenings: eight pairs of products of 4-bit codes stay inside 16 bits.
const PAIRS: usize = 8;

/// Operations of one [`int8`] round.
pub const INT8_OPERATIONS: usize = INT8_CHAINS * PAIRS * 32 * 2;
/// Operations of one [`float32`] round.
pub const FLOAT32_OPERATIONS: usize = CHAINS * 8 * 2;

/// The same vector, out of the compiler's sight.
#[inline]
#[target_feature(enable = "avx2")]
fn opaque(mut vector: __m256i) -> __m256i {
    // SAFETY: no instruction at all; it only claims to change the register.
    unsafe {
        core::arch::asm!("/* {0} */", inout(ymm_reg) vector, options(nomem, nostack, preserves_flags));
    }
    vector
}

/// [`opaque`] for a number in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn opaque_number(number: f32) -> __m256 {
    _mm256_castsi256_ps(opaque(_mm256_castps_si256(_mm256_set1_ps(number))))
}

/// Reads `bytes` once.
#[target_feature(enable = "avx2")]
pub fn read(bytes: &[u8]) {
    let mut sums = [_mm256_setzero_si256(); 8];
    for lines in bytes.as_chunks::<256>().0 {
        for (sum, vector) in sums.iter_mut().zip(lines.as_chunks::<32>().0) {
            // SAFETY: the chunk is 32 readable bytes.
            let vector = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
            *sum = _mm256_add_epi64(*sum, vector);
        }
    }
    black_box(sums);
}

/// `maddubs` of 4-bit codes and bytes, eight to a widening sum: the fewest instructions a product can have here.
#[target_feature(enable = "avx2")]
pub fn int8(rounds: usize) {
    let ones = opaque(_mm256_set1_epi16(1));
    let mut codes = [_mm256_setzero_si256(); PAIRS];
    for (index, codes) in codes.iter_mut().enumerate() {
        *codes = opaque(_mm256_set1_epi8(index as i8));
    }
    let mut sums = [_mm256_setzero_si256(); INT8_CHAINS];
    for _ in 0..rounds {
        for sum in &mut sums {
            let values = opaque(ones);
            let mut pairs = _mm256_maddubs_epi16(codes[0], values);
            for codes in &codes[1..] {
                pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(*codes, values));
            }
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
        }
    }
    black_box(sums);
}

/// Fused f32 multiply-adds.
#[target_feature(enable = "avx2,fma")]
pub fn float32(rounds: usize) {
    let (factor, term) = (opaque_number(0.5), opaque_number(1.0));
    let mut chains = [_mm256_setzero_ps(); CHAINS];
    for chain in &mut chains {
        *chain = opaque_number(1.0);
    }
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm256_fmadd_ps(*chain, factor, term);
        }
    }
    black_box(chains);
}

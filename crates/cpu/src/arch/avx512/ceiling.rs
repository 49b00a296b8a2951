//! Loops that do one thing, as fast as this tier's instructions can: what a processor is measured with.
//!
//! Accumulators start as values that the compiler does not know ([`opaque`]), so that it can neither merge equal chains nor
//! compute an end without the way there.

use core::arch::x86_64::*;
use std::hint::black_box;

/// Independent sums: two operations a cycle times five cycles of latency, and some to spare.
const CHAINS: usize = 16;

/// Operations of one [`int8`] round.
pub const INT8_OPERATIONS: usize = CHAINS * 64 * 2;
/// Operations of one [`float32`] round.
pub const FLOAT32_OPERATIONS: usize = CHAINS * 16 * 2;

/// The same vector, out of the compiler's sight.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut vector: __m512i) -> __m512i {
    // SAFETY: no instruction at all; it only claims to change the register.
    unsafe {
        core::arch::asm!("/* {0} */", inout(zmm_reg) vector, options(nomem, nostack, preserves_flags));
    }
    vector
}

/// [`opaque`] for a number in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque_number(number: f32) -> __m512 {
    _mm512_castsi512_ps(opaque(_mm512_castps_si512(_mm512_set1_ps(number))))
}

/// Reads `bytes` once.
#[target_feature(enable = "avx512f")]
pub fn read(bytes: &[u8]) {
    let mut sums = [_mm512_setzero_si512(); 8];
    for lines in bytes.as_chunks::<512>().0 {
        for (sum, vector) in sums.iter_mut().zip(lines.as_chunks::<64>().0) {
            // SAFETY: the chunk is 64 readable bytes.
            let vector = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
            *sum = _mm512_add_epi64(*sum, vector);
        }
    }
    black_box(sums);
}

/// `vpdpbusd`: 64 products of bytes added up in 32 bits.
#[target_feature(enable = "avx512f,avx512vnni")]
pub fn int8(rounds: usize) {
    let weights = opaque(_mm512_set1_epi8(3));
    let values = opaque(_mm512_set1_epi8(-5));
    let mut sums = [_mm512_setzero_si512(); CHAINS];
    for sum in &mut sums {
        *sum = opaque(values);
    }
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, weights, values);
        }
    }
    black_box(sums);
}

/// Fused f32 multiply-adds.
#[target_feature(enable = "avx512f")]
pub fn float32(rounds: usize) {
    let (factor, term) = (opaque_number(0.5), opaque_number(1.0));
    let mut chains = [_mm512_setzero_ps(); CHAINS];
    for chain in &mut chains {
        *chain = opaque_number(1.0);
    }
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = _mm512_fmadd_ps(*chain, factor, term);
        }
    }
    black_box(chains);
}

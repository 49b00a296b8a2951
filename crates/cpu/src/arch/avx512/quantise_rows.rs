//! Activations to int8 under one scale a row: twice over the row, first for its largest magnitude.

use core::arch::x86_64::*;

use ucuz_tensor::layout::ROW_SPAN;
use ucuz_tensor::numerics::RowScale;

use crate::activations::{RowHead, RowSpan};

/// Vectors of a span.
const VECTORS: usize = ROW_SPAN / 16;

/// [`crate::activations::quantise_rows`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn quantise_rows(head: &mut RowHead, spans: &mut [RowSpan], x: &[f32], cols: usize) {
    let rows = x.len() / cols;
    for row in 0..rows.next_power_of_two() {
        let x = x.get(row * cols..(row + 1) * cols).unwrap_or(&[]);
        let scale = RowScale::of_peak(peak(x));
        head.scales[row] = scale.scale;
        head.minus_128_sums[row] = -128 * codes(spans, row, x, &scale);
    }
}

/// Four vectors of a row, from number `start` on; what is past its end reads as zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32], start: usize) -> [__m512; VECTORS] {
    std::array::from_fn(|vector| {
        let rest = x.get(start + 16 * vector..).unwrap_or(&[]);
        let lanes = (0xffff_u32 >> (16 - rest.len().min(16))) as __mmask16;
        // SAFETY: only numbers of the row are read.
        unsafe { _mm512_maskz_loadu_ps(lanes, rest.as_ptr()) }
    })
}

/// The largest magnitude, by its bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn peak(x: &[f32]) -> u32 {
    let magnitudes = _mm512_set1_epi32(0x7fff_ffff);
    let mut peaks = [_mm512_setzero_si512(); VECTORS];
    for start in (0..x.len()).step_by(ROW_SPAN) {
        for (peak, x) in peaks.iter_mut().zip(load(x, start)) {
            let magnitude = _mm512_and_si512(_mm512_castps_si512(x), magnitudes);
            *peak = _mm512_max_epu32(*peak, magnitude);
        }
    }
    let [a, b, c, d] = peaks;
    _mm512_reduce_max_epu32(_mm512_max_epu32(
        _mm512_max_epu32(a, b),
        _mm512_max_epu32(c, d),
    ))
}

/// Writes a row's codes, zeros past its end; returns their sum.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn codes(spans: &mut [RowSpan], row: usize, x: &[f32], scale: &RowScale) -> i32 {
    let inverse = _mm512_set1_ps(scale.inverse);
    // A row whose scale is zero or NaN has no codes.
    let mask = if scale.is_zero() { 0 } else { !0 };
    let mut sums = [_mm512_setzero_si512(); VECTORS];
    for (index, span) in spans.iter_mut().enumerate() {
        let places = span.0[row].as_chunks_mut::<16>().0;
        let vectors = load(x, index * ROW_SPAN);
        for ((place, x), sum) in places.iter_mut().zip(vectors).zip(&mut sums) {
            // None exceeds 127: |x| · (127 / absmax) is at most 127 and two roundings. The conversion rounds half to even.
            let codes = _mm512_maskz_cvtps_epi32(mask, _mm512_mul_ps(x, inverse));
            *sum = _mm512_add_epi32(*sum, codes);
            // SAFETY: sixteen bytes.
            unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(codes)) };
        }
    }
    let [a, b, c, d] = sums;
    _mm512_reduce_add_epi32(_mm512_add_epi32(
        _mm512_add_epi32(a, b),
        _mm512_add_epi32(c, d),
    ))
}

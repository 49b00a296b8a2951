//! Activations to int8, 32 columns of a row at a time.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;

use crate::activations::{I8Group, RowScale};

/// [`crate::activations::quantise_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn quantise_block(block: &mut [I8Group], x: &[f32], cols: usize, planes: usize) {
    let rows = x.len() / cols;
    for (g, group) in block.chunks_exact_mut(planes).enumerate() {
        for row in 0..rows {
            if let Some(columns) = x[row * cols + g * GROUP..].first_chunk() {
                let mut left = load(columns);
                for plane in group.iter_mut() {
                    left = set_row(plane, row, left);
                }
            }
        }
        for row in rows..rows.next_power_of_two() {
            group.iter_mut().for_each(|plane| plane.clear_row(row));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32; GROUP]) -> [__m512; 2] {
    // SAFETY: two halves of 32 floats.
    unsafe {
        [
            _mm512_loadu_ps(x.as_ptr()),
            _mm512_loadu_ps(x.as_ptr().add(16)),
        ]
    }
}

/// Quantises `x` into row `row`; returns what the rounding lost.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn set_row(group: &mut I8Group, row: usize, x: [__m512; 2]) -> [__m512; 2] {
    let [low, high] =
        x.map(|x| _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff)));
    let scale = RowScale::of_peak(_mm512_reduce_max_epu32(_mm512_max_epu32(low, high)));
    group.scales[row] = scale.scale;
    if scale.is_zero() {
        group.clear_codes(row);
        return x;
    }
    let inverse = _mm512_set1_ps(scale.inverse);
    let codes = x.map(|x| {
        // The default rounding of the conversion is half to even.
        let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
        _mm512_max_epi32(
            _mm512_min_epi32(rounded, _mm512_set1_epi32(127)),
            _mm512_set1_epi32(-127),
        )
    });
    for (half, codes) in codes.into_iter().enumerate() {
        let bytes = _mm512_cvtepi32_epi8(codes);
        // SAFETY: 16 of the row's 32 bytes.
        unsafe { _mm_storeu_si128(group.codes[row].as_mut_ptr().add(16 * half).cast(), bytes) };
    }
    group.set_sums(row, codes.map(|codes| _mm512_reduce_add_epi32(codes)));
    let scale = _mm512_set1_ps(scale.scale);
    std::array::from_fn(|half| {
        // Product and difference are rounded apart, as the portable code does.
        _mm512_sub_ps(
            x[half],
            _mm512_mul_ps(scale, _mm512_cvtepi32_ps(codes[half])),
        )
    })
}

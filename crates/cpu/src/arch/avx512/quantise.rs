//! Activations to int8, 32 columns of a row at a time.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::numerics::RowScale;

use crate::activations::{I8Group, PAIR_MAX};

/// [`crate::activations::quantise_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn quantise_block(block: &mut [I8Group], x: &[f32], cols: usize, planes: usize) {
    let rows = x.len() / cols;
    for (g, group) in block.chunks_exact_mut(planes).enumerate() {
        for row in 0..rows {
            if let Some(columns) = x[row * cols + g * GROUP..].first_chunk() {
                set_row(group, row, load(columns));
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

/// Quantises `x` into row `row` of a group of one or two planes.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn set_row(planes: &mut [I8Group], row: usize, x: [__m512; 2]) {
    let [low, high] =
        x.map(|x| _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff)));
    let peak = _mm512_reduce_max_epu32(_mm512_max_epu32(low, high));
    let (scale, most) = match planes.len() {
        1 => (RowScale::of_peak(peak), 127),
        _ => (RowScale::of_peak(peak).in_256_steps(), PAIR_MAX),
    };
    if scale.is_zero() {
        for plane in planes {
            plane.clear_codes(row);
            plane.scales[row] = scale.scale;
        }
        return;
    }
    let inverse = _mm512_set1_ps(scale.inverse);
    let codes = x.map(|x| {
        // The default rounding of the conversion is half to even.
        let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
        _mm512_max_epi32(
            _mm512_min_epi32(rounded, _mm512_set1_epi32(most)),
            _mm512_set1_epi32(-most),
        )
    });
    let [first, rest @ ..] = planes else { return };
    first.scales[row] = scale.scale;
    let [second] = rest else {
        store(&mut first.codes[row], codes);
        return first.set_sums(row, codes.map(|codes| _mm512_reduce_add_epi32(codes)));
    };
    let high =
        codes.map(|code| _mm512_srai_epi32::<8>(_mm512_add_epi32(code, _mm512_set1_epi32(128))));
    let rest: [__m512i; 2] = std::array::from_fn(|half| {
        let rest = _mm512_sub_epi32(codes[half], _mm512_slli_epi32::<8>(high[half]));
        _mm512_max_epi32(rest, _mm512_set1_epi32(-127))
    });
    store(&mut first.codes[row], high);
    store(&mut second.codes[row], rest);
    let sums = std::array::from_fn(|half| {
        let both = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[half]), rest[half]);
        _mm512_reduce_add_epi32(both)
    });
    first.set_sums(row, sums);
}

/// Codes of one row as bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn store(row: &mut [i8; GROUP], codes: [__m512i; 2]) {
    for (half, codes) in codes.into_iter().enumerate() {
        let bytes = _mm512_cvtepi32_epi8(codes);
        // SAFETY: 16 of the row's 32 bytes.
        unsafe { _mm_storeu_si128(row.as_mut_ptr().add(16 * half).cast(), bytes) };
    }
}

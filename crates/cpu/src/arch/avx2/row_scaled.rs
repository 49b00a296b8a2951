//! Row-scaled int8 weights with `maddubs`, 8 weight rows at a time: `|w|` times the activation with its sign, as
//! 8-bit codes in `integer.rs`.

use core::arch::x86_64::*;

use ucuz_tensor::layout::PANEL_ROWS;

use crate::activations::{RowSpan, Tile};
use crate::arch::generic::row_scaled::{SpanCodes, split};
use crate::arch::prefetch_weights;
use crate::table::RowCall;

/// Activation rows that share a vector of weights; more would not fit 16 registers.
const ROWS: usize = 4;

/// Products of one panel with `call.rows` activation rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn linear_rows(tile: &mut Tile, call: &RowCall<'_>) {
    for first in (0..call.rows).step_by(ROWS) {
        for half in 0..2 {
            match call.rows - first {
                1 => product::<1>(tile, call, first, half),
                2 => product::<2>(tile, call, first, half),
                _ => product::<ROWS>(tile, call, first, half),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn product<const R: usize>(tile: &mut Tile, call: &RowCall<'_>, first: usize, half: usize) {
    let (scales, panel) = split(call.panel);
    let mut acc = [_mm256_setzero_si256(); R];
    let ones = _mm256_set1_epi16(1);
    for (codes, x) in panel.iter().zip(call.spans) {
        for quad in 0..16 {
            if half == 0 && first == 0 {
                prefetch_weights(codes.as_ptr().wrapping_add(quad * 64), call.ahead, 1);
            }
            let w = _mm256_xor_si256(load(codes, quad, half), _mm256_set1_epi8(-128));
            let magnitude = _mm256_abs_epi8(w);
            for (row, acc) in acc.iter_mut().enumerate() {
                let signed = _mm256_sign_epi8(columns(x, first + row, quad), w);
                let pairs = _mm256_maddubs_epi16(magnitude, signed);
                *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    // SAFETY: half of sixteen floats.
    let scales = unsafe { _mm256_loadu_ps(scales.as_ptr().add(8 * half)) };
    for (row, (dot, to)) in acc.into_iter().zip(&mut tile[first..]).enumerate() {
        let scale = _mm256_mul_ps(_mm256_set1_ps(call.head.scales[first + row]), scales);
        let product = _mm256_mul_ps(_mm256_cvtepi32_ps(dot), scale);
        // SAFETY: half a row of the tile is 32 writable bytes.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr().add(8 * half), product) };
    }
}

/// Four columns of eight weight rows.
#[inline]
#[target_feature(enable = "avx2")]
fn load(codes: &SpanCodes, quad: usize, half: usize) -> __m256i {
    let vectors: &[[u8; PANEL_ROWS * 2]; 32] = bytemuck::cast_ref(codes);
    // SAFETY: 32 readable bytes.
    unsafe { _mm256_loadu_si256(vectors[2 * quad + half].as_ptr().cast()) }
}

/// Four columns of an activation row in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn columns(x: &RowSpan, row: usize, quad: usize) -> __m256i {
    let quads: &[[u8; 4]; 16] = bytemuck::cast_ref(&x.0[row]);
    _mm256_set1_epi32(i32::from_le_bytes(quads[quad]))
}

//! Row-scaled int8 weights with VNNI: the sum over all columns stays in one register a row.
//!
//! Cost of 64 weights (one vector): a load, and for each row one `vpdpbusd` with the activations broadcast from memory. 16
//! rows need 17 loads for 16 products, so two loads a cycle bound it at 94 % of two `vpdpbusd` a cycle; a single row is bound by memory.
//! Integer sums have no order, so a few rows keep several sums each to hide the latency of 5 cycles.

use core::arch::x86_64::*;

use ucuz_tensor::layout::PANEL_ROWS;

use super::integer::each_row;
use crate::activations::{RowSpan, Tile};
use crate::arch::generic::row_scaled::{SpanCodes, split};
use crate::arch::prefetch_weights;
use crate::table::RowCall;

/// Products of one panel with `call.rows` activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_rows(tile: &mut Tile, call: &RowCall<'_>) {
    match call.rows {
        1 => product::<1, 4>(tile, call),
        2 => product::<2, 4>(tile, call),
        3..=4 => product::<4, 2>(tile, call),
        5..=8 => product::<8, 1>(tile, call),
        _ => product::<16, 1>(tile, call),
    }
}

/// `R` rows with `SUMS` sums each.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn product<const R: usize, const SUMS: usize>(tile: &mut Tile, call: &RowCall<'_>) {
    let (scales, panel) = split(call.panel);
    let mut acc = [[_mm512_setzero_si512(); SUMS]; R];
    for (sums, start) in acc.iter_mut().zip(call.head.minus_128_sums) {
        sums[0] = _mm512_set1_epi32(start);
    }
    for (codes, x) in panel.iter().zip(call.spans) {
        for quad in 0..16 {
            let w = load(codes, quad);
            prefetch_weights(codes.as_ptr().wrapping_add(quad * 64), call.ahead, 1);
            each_row!(R, row => {
                let sum = &mut acc[row][quad % SUMS];
                *sum = _mm512_dpbusd_epi32(*sum, w, columns(x, row, quad));
            });
        }
    }
    // SAFETY: sixteen floats.
    let scales = unsafe { _mm512_loadu_ps(scales.as_ptr()) };
    for (row, (sums, to)) in acc.iter().zip(tile).enumerate() {
        let dot = sums[1..]
            .iter()
            .fold(sums[0], |dot, sum| _mm512_add_epi32(dot, *sum));
        let scale = _mm512_mul_ps(_mm512_set1_ps(call.head.scales[row]), scales);
        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(dot), scale);
        // SAFETY: a row of the tile is 64 writable bytes.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), product) };
    }
}

/// Four columns of sixteen weight rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(codes: &SpanCodes, quad: usize) -> __m512i {
    let vectors: &[[u8; PANEL_ROWS * 4]; 16] = bytemuck::cast_ref(codes);
    // SAFETY: 64 readable bytes.
    unsafe { _mm512_loadu_si512(vectors[quad].as_ptr().cast()) }
}

/// Four columns of an activation row in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn columns(x: &RowSpan, row: usize, quad: usize) -> __m512i {
    let quads: &[[u8; 4]; 16] = bytemuck::cast_ref(&x.0[row]);
    _mm512_set1_epi32(i32::from_le_bytes(quads[quad]))
}

//! Float weights: `Arithmetic::Bf16` and `Arithmetic::F32`, sixteen output rows a vector.
//!
//! Products of bf16 numbers are exact, so there a fused multiply-add has the same bits; f32 products are rounded first.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::arch::prefetch_weights;
use crate::table::FloatCall;

/// How weights are stored, as a constant that kernels are compiled for.
type Stored = u8;
const BF16: Stored = 0;
const F16: Stored = 1;
const F32: Stored = 2;

/// Products of a bf16 panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_bf16(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear::<BF16>(tile, call);
}

/// Products of an f16 panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_f16(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear::<F16>(tile, call);
}

/// Products of an f32 panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_f32(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear::<F32>(tile, call);
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn linear<const S: Stored>(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    match call.rows {
        1 => product::<S, 1>(tile, call),
        2 => product::<S, 2>(tile, call),
        3..=4 => product::<S, 4>(tile, call),
        _ => product::<S, 8>(tile, call),
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn product<const S: Stored, const R: usize>(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    let pair_bytes = if S == F32 {
        PANEL_ROWS * 8
    } else {
        PANEL_ROWS * 4
    };
    let mut acc = [_mm512_setzero_ps(); R];
    let spans = call.panel.chunks_exact(pair_bytes * GROUP / 2);
    for (span, x) in spans.zip(call.x.chunks_exact(GROUP * R)) {
        let mut sums = [[_mm512_setzero_ps(); 2]; R];
        for (pair, x) in span.chunks_exact(pair_bytes).zip(x.chunks_exact(2 * R)) {
            prefetch_weights(pair.as_ptr(), call.ahead, pair_bytes / 64);
            let w = columns::<S>(pair);
            for row in 0..R {
                for side in 0..2 {
                    let value = _mm512_set1_ps(x[side * R + row]);
                    sums[row][side] = add_product::<S>(sums[row][side], w[side], value);
                }
            }
        }
        for row in 0..R {
            acc[row] = _mm512_add_ps(acc[row], _mm512_add_ps(sums[row][0], sums[row][1]));
        }
    }
    for (row, acc) in tile[..R].iter_mut().zip(acc) {
        // SAFETY: a row of the tile is 64 writable bytes.
        unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_product<const S: Stored>(sum: __m512, w: __m512, x: __m512) -> __m512 {
    if S == BF16 {
        _mm512_fmadd_ps(w, x, sum)
    } else {
        _mm512_add_ps(sum, _mm512_mul_ps(w, x))
    }
}

/// An even and an odd column of sixteen weight rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn columns<const S: Stored>(pair: &[u8]) -> [__m512; 2] {
    assert!(
        pair.len()
            >= if S == F32 {
                PANEL_ROWS * 8
            } else {
                PANEL_ROWS * 4
            }
    );
    // SAFETY: the assertion is what is read.
    unsafe {
        let first = _mm512_loadu_si512(pair.as_ptr().cast());
        match S {
            BF16 => [
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(first)),
                _mm512_castsi512_ps(_mm512_and_si512(first, _mm512_set1_epi32(-65536))),
            ],
            F16 => [
                _mm512_cvtph_ps(_mm512_castsi512_si256(first)),
                _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(first)),
            ],
            _ => [
                _mm512_castsi512_ps(first),
                _mm512_loadu_ps(pair.as_ptr().add(64).cast()),
            ],
        }
    }
}

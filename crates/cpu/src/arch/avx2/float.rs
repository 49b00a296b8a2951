//! Float weights: `Arithmetic::Bf16` and `Arithmetic::F32`, eight output rows at a time.
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

/// Activation rows that share a pair of columns; more would not fit 16 registers.
const ROWS: usize = 4;

/// Products of a bf16 panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn linear_bf16(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear::<BF16>(tile, call);
}

/// Products of an f16 panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn linear_f16(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear::<F16>(tile, call);
}

/// Products of an f32 panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn linear_f32(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear::<F32>(tile, call);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn linear<const S: Stored>(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    let stride = call.rows.next_power_of_two();
    for first in (0..stride).step_by(ROWS) {
        for half in 0..2 {
            match stride {
                1 => product::<S, 1>(tile, call, first, half),
                2 => product::<S, 2>(tile, call, first, half),
                _ => product::<S, ROWS>(tile, call, first, half),
            }
        }
    }
}

/// Rows `first..first + R` of the block, half `half` of the lanes.
#[target_feature(enable = "avx2,fma,f16c")]
fn product<const S: Stored, const R: usize>(
    tile: &mut [[f32; PANEL_ROWS]],
    call: &FloatCall<'_>,
    first: usize,
    half: usize,
) {
    let stride = call.rows.next_power_of_two();
    let pair_bytes = if S == F32 {
        PANEL_ROWS * 8
    } else {
        PANEL_ROWS * 4
    };
    let mut acc = [_mm256_setzero_ps(); R];
    let spans = call.panel.chunks_exact(pair_bytes * GROUP / 2);
    for (span, x) in spans.zip(call.x.chunks_exact(GROUP * stride)) {
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        for (pair, x) in span
            .chunks_exact(pair_bytes)
            .zip(x.chunks_exact(2 * stride))
        {
            if half == 0 {
                prefetch_weights(pair.as_ptr(), call.ahead, pair_bytes / 64);
            }
            let w = columns::<S>(pair, half);
            for side in 0..2 {
                let x = &x[side * stride + first..][..R];
                for row in 0..R {
                    let value = _mm256_set1_ps(x[row]);
                    sums[row][side] = add_product::<S>(sums[row][side], w[side], value);
                }
            }
        }
        for row in 0..R {
            acc[row] = _mm256_add_ps(acc[row], _mm256_add_ps(sums[row][0], sums[row][1]));
        }
    }
    for (row, acc) in tile[first..first + R].iter_mut().zip(acc) {
        // SAFETY: half a row of the tile is 32 writable bytes.
        unsafe { _mm256_storeu_ps(row.as_mut_ptr().add(8 * half), acc) };
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_product<const S: Stored>(sum: __m256, w: __m256, x: __m256) -> __m256 {
    if S == BF16 {
        _mm256_fmadd_ps(w, x, sum)
    } else {
        _mm256_add_ps(sum, _mm256_mul_ps(w, x))
    }
}

/// An even and an odd column of eight weight rows.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn columns<const S: Stored>(pair: &[u8], half: usize) -> [__m256; 2] {
    assert!(
        half < 2
            && pair.len()
                >= if S == F32 {
                    PANEL_ROWS * 8
                } else {
                    PANEL_ROWS * 4
                }
    );
    let start = pair.as_ptr();
    // SAFETY: the assertion covers what is read.
    unsafe {
        match S {
            BF16 => {
                let both = _mm256_loadu_si256(start.add(32 * half).cast());
                [
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(both)),
                    _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(-65536))),
                ]
            }
            F16 => [16 * half, 32 + 16 * half]
                .map(|at| _mm256_cvtph_ps(_mm_loadu_si128(start.add(at).cast()))),
            _ => [32 * half, 64 + 32 * half].map(|at| _mm256_loadu_ps(start.add(at).cast())),
        }
    }
}

//! Codebook weights times bf16 activations: two permutations over 8 levels each and a choice decode 8 weights.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::arch::generic::codebook::{GROUP_LINES, group};
use crate::arch::prefetch_weights;
use crate::table::CodebookCall;

/// Products of one codebook panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn linear_codebook(tile: &mut [[f32; PANEL_ROWS]], call: &CodebookCall<'_>) {
    for half in 0..2 {
        match call.rows {
            1 => product::<1>(tile, call, half),
            2 => product::<2>(tile, call, half),
            3..=4 => product::<4>(tile, call, half),
            _ => product::<8>(tile, call, half),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn product<const R: usize>(tile: &mut [[f32; PANEL_ROWS]], call: &CodebookCall<'_>, half: usize) {
    // SAFETY: two halves of sixteen floats.
    let levels = unsafe {
        [
            _mm256_loadu_ps(call.levels.as_ptr()),
            _mm256_loadu_ps(call.levels.as_ptr().add(8)),
        ]
    };
    let mut acc = [_mm256_setzero_ps(); R];
    for (g, x) in call.x.chunks_exact(GROUP * R).enumerate() {
        let (scales, codes) = group(&call.coded, call.panel, g);
        if half == 0 {
            prefetch_weights(codes.as_ptr(), call.ahead, GROUP_LINES);
        }
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        for quad in 0..8 {
            let at = quad % 4 * 64 + half * 32;
            // SAFETY: a group has four code vectors.
            let mut vector = unsafe { _mm256_loadu_si256(codes.as_ptr().add(at).cast()) };
            if quad >= 4 {
                vector = _mm256_srli_epi32::<4>(vector);
            }
            for c in 0..4 {
                let w = level(vector, levels);
                vector = _mm256_srli_epi32::<8>(vector);
                let column = &x[(quad * 4 + c) * R..][..R];
                for row in 0..R {
                    let value = _mm256_set1_ps(column[row]);
                    sums[row][c % 2] = _mm256_fmadd_ps(w, value, sums[row][c % 2]);
                }
            }
        }
        // SAFETY: eight of sixteen floats.
        let d = unsafe { _mm256_loadu_ps(scales.as_ptr().add(half * 8)) };
        for row in 0..R {
            acc[row] = _mm256_fmadd_ps(_mm256_add_ps(sums[row][0], sums[row][1]), d, acc[row]);
        }
    }
    for (row, acc) in tile[..R].iter_mut().zip(acc) {
        // SAFETY: half a row of the tile is 32 writable bytes.
        unsafe { _mm256_storeu_ps(row.as_mut_ptr().add(8 * half), acc) };
    }
}

/// The level that the low four bits of each lane name.
#[inline]
#[target_feature(enable = "avx2")]
fn level(codes: __m256i, levels: [__m256; 2]) -> __m256 {
    let [low, high] = levels.map(|levels| _mm256_permutevar8x32_ps(levels, codes));
    let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(codes));
    _mm256_blendv_ps(low, high, upper)
}

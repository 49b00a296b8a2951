//! Codebook weights times bf16 activations: a code indexes a vector of 16 levels, so one permutation decodes 16 weights.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::arch::generic::codebook::{GROUP_LINES, group};
use crate::arch::prefetch_weights;
use crate::table::CodebookCall;

/// Products of one codebook panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_codebook(tile: &mut [[f32; PANEL_ROWS]], call: &CodebookCall<'_>) {
    match call.rows {
        1 => product::<1>(tile, call),
        2 => product::<2>(tile, call),
        3..=4 => product::<4>(tile, call),
        _ => product::<8>(tile, call),
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn product<const R: usize>(tile: &mut [[f32; PANEL_ROWS]], call: &CodebookCall<'_>) {
    // SAFETY: sixteen floats.
    let levels = unsafe { _mm512_loadu_ps(call.levels.as_ptr()) };
    let mut acc = [_mm512_setzero_ps(); R];
    for (g, x) in call.x.chunks_exact(GROUP * R).enumerate() {
        let (scales, codes) = group(&call.coded, call.panel, g);
        prefetch_weights(codes.as_ptr(), call.ahead, GROUP_LINES);
        let mut sums = [[_mm512_setzero_ps(); 2]; R];
        for quad in 0..8 {
            let at = quad % 4 * 64;
            // SAFETY: a group has four code vectors.
            let mut vector = unsafe { _mm512_loadu_si512(codes.as_ptr().add(at).cast()) };
            if quad >= 4 {
                vector = _mm512_srli_epi32::<4>(vector);
            }
            for c in 0..4 {
                // The permutation reads only the low four bits of each lane.
                let w = _mm512_permutexvar_ps(vector, levels);
                vector = _mm512_srli_epi32::<8>(vector);
                let column = &x[(quad * 4 + c) * R..][..R];
                for row in 0..R {
                    let value = _mm512_set1_ps(column[row]);
                    sums[row][c % 2] = _mm512_fmadd_ps(w, value, sums[row][c % 2]);
                }
            }
        }
        // SAFETY: sixteen floats.
        let d = unsafe { _mm512_loadu_ps(scales.as_ptr()) };
        for row in 0..R {
            acc[row] = _mm512_fmadd_ps(_mm512_add_ps(sums[row][0], sums[row][1]), d, acc[row]);
        }
    }
    for (row, acc) in tile[..R].iter_mut().zip(acc) {
        // SAFETY: a row of the tile is 64 writable bytes.
        unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
    }
}

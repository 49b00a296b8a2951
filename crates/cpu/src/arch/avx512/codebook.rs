//! Codebook weights times bf16 activations: a code indexes a vector of 16 levels, so one permutation decodes 16 weights.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::table::{FloatCall, Levels};

const GROUP_BYTES: usize = PANEL_ROWS * (4 + GROUP / 2);

/// Products of one codebook panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_codebook(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>, levels: &Levels) {
    match call.rows {
        1 => product::<1>(tile, call, levels),
        2 => product::<2>(tile, call, levels),
        3..=4 => product::<4>(tile, call, levels),
        _ => product::<8>(tile, call, levels),
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn product<const R: usize>(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>, levels: &Levels) {
    // SAFETY: sixteen floats.
    let levels = unsafe { _mm512_loadu_ps(levels.as_ptr()) };
    let mut acc = [_mm512_setzero_ps(); R];
    let groups = call.panel.as_chunks::<GROUP_BYTES>().0;
    for (group, x) in groups.iter().zip(call.x.chunks_exact(GROUP * R)) {
        let mut sums = [[_mm512_setzero_ps(); 2]; R];
        for quad in 0..8 {
            let at = PANEL_ROWS * 4 + quad % 4 * 64;
            // SAFETY: the four code vectors follow 64 bytes of scales inside the group's 320 bytes.
            let mut codes = unsafe { _mm512_loadu_si512(group.as_ptr().add(at).cast()) };
            if quad >= 4 {
                codes = _mm512_srli_epi32::<4>(codes);
            }
            for c in 0..4 {
                // The permutation reads only the low four bits of each lane.
                let w = _mm512_permutexvar_ps(codes, levels);
                codes = _mm512_srli_epi32::<8>(codes);
                let column = &x[(quad * 4 + c) * R..][..R];
                for row in 0..R {
                    let value = _mm512_set1_ps(column[row]);
                    sums[row][c % 2] = _mm512_fmadd_ps(w, value, sums[row][c % 2]);
                }
            }
        }
        // SAFETY: the group starts with sixteen f32 scales.
        let d = unsafe { _mm512_loadu_ps(group.as_ptr().cast()) };
        for row in 0..R {
            acc[row] = _mm512_fmadd_ps(_mm512_add_ps(sums[row][0], sums[row][1]), d, acc[row]);
        }
    }
    for (row, acc) in tile[..R].iter_mut().zip(acc) {
        // SAFETY: a row of the tile is 64 writable bytes.
        unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
    }
}

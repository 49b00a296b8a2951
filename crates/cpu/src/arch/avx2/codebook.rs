//! Codebook weights times bf16 activations: two permutations over 8 levels each and a choice decode 8 weights.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::table::{FloatCall, Levels};

const GROUP_BYTES: usize = PANEL_ROWS * (4 + GROUP / 2);

/// Products of one codebook panel with up to 8 activation rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn linear_codebook(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>, levels: &Levels) {
    for half in 0..2 {
        match call.rows {
            1 => product::<1>(tile, call, levels, half),
            2 => product::<2>(tile, call, levels, half),
            3..=4 => product::<4>(tile, call, levels, half),
            _ => product::<8>(tile, call, levels, half),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn product<const R: usize>(
    tile: &mut [[f32; PANEL_ROWS]],
    call: &FloatCall<'_>,
    levels: &Levels,
    half: usize,
) {
    // SAFETY: two halves of sixteen floats.
    let levels = unsafe {
        [
            _mm256_loadu_ps(levels.as_ptr()),
            _mm256_loadu_ps(levels.as_ptr().add(8)),
        ]
    };
    let mut acc = [_mm256_setzero_ps(); R];
    let groups = call.panel.as_chunks::<GROUP_BYTES>().0;
    for (group, x) in groups.iter().zip(call.x.chunks_exact(GROUP * R)) {
        let mut sums = [[_mm256_setzero_ps(); 2]; R];
        for quad in 0..8 {
            let at = PANEL_ROWS * 4 + quad % 4 * 64 + half * 32;
            // SAFETY: the four code vectors follow 64 bytes of scales inside the group's 320 bytes.
            let mut codes = unsafe { _mm256_loadu_si256(group.as_ptr().add(at).cast()) };
            if quad >= 4 {
                codes = _mm256_srli_epi32::<4>(codes);
            }
            for c in 0..4 {
                let w = level(codes, levels);
                codes = _mm256_srli_epi32::<8>(codes);
                let column = &x[(quad * 4 + c) * R..][..R];
                for row in 0..R {
                    let value = _mm256_set1_ps(column[row]);
                    sums[row][c % 2] = _mm256_fmadd_ps(w, value, sums[row][c % 2]);
                }
            }
        }
        // SAFETY: the group starts with sixteen f32 scales.
        let d = unsafe { _mm256_loadu_ps(group.as_ptr().add(half * 32).cast()) };
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

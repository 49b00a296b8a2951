//! Codebook weights times bf16 activations in tiles: levels are bf16 numbers, exactly; the sums of a group meet its scale
//! outside of the unit.
//!
//! Cost of one group of 16 weight and 16 activation rows, in cycles: tile product 16 (64 throttled), beside it 16 loads, 16
//! fused additions and 16 stores, so it is bound by the unit: up to 1,024 operations a cycle, of which AVX-512 has 64.
//! Unpacking costs some 50 operations a group for up to 128 rows.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;

use super::grouped::{Dots, NoEnd, Steps, products};
use super::unit::{TileConfig, Tiles, WHOLE};
use crate::activations::Bf16Group;
use crate::arch::generic::codebook::{GroupCodes, group};
use crate::table::{TileBook, TileCall, TileOutput};

const C: u8 = 0;
const A: u8 = 1;
const B: u8 = 2;
const CONFIG: TileConfig = TileConfig::new([WHOLE; 8]);

/// A group of one panel, unpacked.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Weights {
    /// `[pair of columns][weight row][column]` in bf16.
    levels: [__m512i; GROUP / 2],
    scale: __m512,
}

/// Products of all panels with all blocks of `call`.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn linear_codebook(
    call: &TileCall<'_, Bf16Group>,
    book: &TileBook<'_>,
    output: &TileOutput<'_>,
) {
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    // SAFETY: sixteen floats.
    let levels = _mm512_castps_si512(unsafe { _mm512_loadu_ps(book.levels.as_ptr()) });
    let steps = Steps {
        unpack: |panel: &[u8], g: usize| {
            let (scales, codes) = group(&book.coded, panel, g);
            Weights {
                levels: look_up(levels, codes),
                // SAFETY: sixteen floats.
                scale: unsafe { _mm512_loadu_ps(scales.as_ptr()) },
            }
        },
        issue: |w: &Weights, x: &Bf16Group, dots: &mut Dots<1>| {
            // SAFETY: each is 16 rows of 64 bytes.
            unsafe {
                tiles.zero::<C>();
                tiles.load::<A>(x.rows.as_ptr().cast(), 64);
                tiles.load::<B>(w.levels.as_ptr().cast(), 64);
                tiles.dot_bf16::<C, A, B>();
                tiles.store::<C>(dots.part_mut(0), 64);
            }
        },
        finish: |acc, w: &Weights, _: &Bf16Group, dots: &Dots<1>, row: usize| {
            _mm512_fmadd_ps(dots.floats(row), w.scale, acc)
        },
        end: None::<NoEnd<Bf16Group>>,
    };
    // SAFETY: the caller's promise.
    unsafe { products::<1, _, _, _, _, _, _>(call, &steps, output) };
}

/// Looks up a group's codes; the upper half of a small integer's f32 bits is that number in bf16.
#[inline]
#[target_feature(enable = "avx512f")]
fn look_up(levels: __m512i, codes: &GroupCodes) -> [__m512i; GROUP / 2] {
    let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    let mut unpacked = [_mm512_setzero_si512(); GROUP / 2];
    for (quad, pairs) in unpacked.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        // SAFETY: a group has four code vectors.
        let mut codes = unsafe { _mm512_loadu_si512(codes.as_ptr().add(quad % 4 * 64).cast()) };
        if quad >= 4 {
            codes = _mm512_srli_epi32::<4>(codes);
        }
        for pair in pairs {
            // The permutation reads only the low four bits of each lane.
            let even = _mm512_permutexvar_epi32(codes, levels);
            let odd = _mm512_permutexvar_epi32(_mm512_srli_epi32::<8>(codes), levels);
            codes = _mm512_srli_epi32::<16>(codes);
            *pair = _mm512_or_si512(_mm512_srli_epi32::<16>(even), _mm512_and_si512(odd, upper));
        }
    }
    unpacked
}

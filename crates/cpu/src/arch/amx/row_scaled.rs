//! Row-scaled int8 weights in tiles: a span of a panel is a weight tile of stored, unsigned codes, a span of a block an
//! activation tile, and nothing leaves the unit before the last column.
//!
//! A product does 2,048 operations a cycle where the unit runs free (512 throttled), AVX-512 some 240. The epilogue of a
//! panel and block, 16 vectors of four operations, takes some 40 cycles beside the 256 that 1,024 columns take in the unit.

use core::arch::x86_64::*;

use ucuz_tensor::layout::ROW_HEAD_BYTES;

use super::long::{Dot, Finish, products};
use super::unit::Tiles;
use crate::activations::{RowHead, RowSpan};
use crate::arch::generic::row_scaled::split;
use crate::table::{TileCall, TileOutput};

/// `tdpbsud`: signed activations times unsigned weights.
struct SignedUnsigned;

impl Dot for SignedUnsigned {
    #[inline(always)]
    fn dot<const C: u8, const A: u8, const B: u8>(tiles: &Tiles) {
        tiles.dot_i8_u8::<C, A, B>();
    }
}

/// Products of all panels with all blocks of `call`, one head a block.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn linear_rows(
    call: &TileCall<'_, RowSpan>,
    heads: &[RowHead],
    output: &TileOutput<'_>,
) {
    let finish = Finish {
        scales: |panel: &[u8]| {
            let (scales, _) = split(panel);
            // SAFETY: sixteen floats.
            unsafe { _mm512_loadu_ps(scales.as_ptr()) }
        },
        // The bias of stored codes undone, and both scales.
        row: |sums, scales, block: usize, row: usize| {
            let head = &heads[block];
            let dots = _mm512_add_epi32(sums, _mm512_set1_epi32(head.minus_128_sums[row]));
            let scale = _mm512_mul_ps(_mm512_set1_ps(head.scales[row]), scales);
            _mm512_mul_ps(_mm512_cvtepi32_ps(dots), scale)
        },
    };
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest; the caller's
    // promise.
    unsafe {
        products::<SignedUnsigned, RowSpan, _, _>(call, ROW_HEAD_BYTES, &finish, output);
    }
}

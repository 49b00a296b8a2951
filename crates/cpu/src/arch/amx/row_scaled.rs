//! Row-scaled int8 weights in tiles: a span of a panel is a weight tile of stored, unsigned codes, a span of a block an
//! activation tile, and nothing leaves the unit before the last column.
//!
//! A product does 2,048 operations a cycle where the unit runs free (512 throttled), AVX-512 some 240. The epilogue of a
//! panel and block, 16 vectors of four operations, takes some 40 cycles beside the 256 that 1,024 columns take in the unit.

use ucuz_tensor::layout::ROW_HEAD_BYTES;

use super::long::{Dot, Sums, products};
use super::unit::Tiles;
use crate::activations::{RowHead, RowSpan, Tile};
use crate::arch::generic::row_scaled::split;
use crate::table::{TileCall, TileSink};

/// `tdpbsud`: signed activations times unsigned weights.
struct SignedUnsigned;

impl Dot for SignedUnsigned {
    #[inline(always)]
    fn dot<const C: u8, const A: u8, const B: u8>(tiles: &Tiles) {
        tiles.dot_i8_u8::<C, A, B>();
    }
}

/// Products of all panels with all blocks of `call`, one head a block.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_rows(call: &TileCall<'_, RowSpan>, heads: &[RowHead], sink: &mut TileSink<'_>) {
    let mut finish = |panel: usize, block: usize, sums: &Sums| {
        let (scales, _) = split(call.panel(panel));
        sink(panel, block, &scaled(sums, &heads[block], &scales));
    };
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest.
    unsafe { products::<SignedUnsigned, RowSpan>(call, ROW_HEAD_BYTES, &mut finish) };
}

/// The bias of stored codes undone, and both scales: loops that the compiler turns into vectors.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn scaled(sums: &Sums, head: &RowHead, scales: &[f32; 16]) -> Tile {
    let mut tile = [[0.0; 16]; 16];
    for (row, (to, sums)) in tile.iter_mut().zip(sums).enumerate() {
        for ((to, sum), scale) in to.iter_mut().zip(sums).zip(scales) {
            let dot = (*sum as i32).wrapping_add(head.minus_128_sums[row]);
            *to = dot as f32 * (head.scales[row] * scale);
        }
    }
    tile
}

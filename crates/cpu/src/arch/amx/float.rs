//! bf16 weights times bf16 activations in tiles: a panel is already made of weight tiles, and the unit's own sums are the
//! canonical ones, so all columns are added up inside of it. A product does 1,024 operations a cycle where the unit runs
//! free; AVX-512 has 64.

use core::arch::x86_64::*;

use super::long::{Dot, Finish, products};
use super::unit::Tiles;
use crate::activations::Bf16Group;
use crate::table::{TileCall, TileOutput};

/// `tdpbf16ps`.
struct Bf16;

impl Dot for Bf16 {
    #[inline(always)]
    fn dot<const C: u8, const A: u8, const B: u8>(tiles: &Tiles) {
        tiles.dot_bf16::<C, A, B>();
    }
}

/// Products of all panels with all blocks of `call`.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn linear_bf16(call: &TileCall<'_, Bf16Group>, output: &TileOutput<'_>) {
    let finish = Finish {
        scales: |_: &[u8]| _mm512_setzero_ps(),
        row: |sums, _, _, _| _mm512_castsi512_ps(sums),
    };
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest; the caller's
    // promise.
    unsafe { products::<Bf16, Bf16Group, _, _>(call, 0, &finish, output) };
}

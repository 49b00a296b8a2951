//! Portable packing compiled for this tier: the compiler turns its loops into vectors.

use crate::activations::{self, Rounding};
use crate::arch::store::{self, StoreCall};

/// [`activations::pack_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn pack_block(block: &mut [f32], x: &[f32], cols: usize, rounding: Rounding) {
    activations::pack_block(block, x, cols, rounding);
}

/// [`store::store_tile`].
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn store_tile(call: &StoreCall<'_>) {
    // SAFETY: the caller's promise.
    unsafe { store::store_tile(call) }
}

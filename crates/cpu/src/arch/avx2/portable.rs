//! Portable packing compiled for this tier: the compiler turns its loops into vectors.

use crate::activations::{self, Codes, Rounding, RowHead, RowSpan};
use crate::arch::store::{self, StoreCall};

/// [`activations::pack_block`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn pack_block(block: &mut [f32], x: &[f32], cols: usize, rounding: Rounding) {
    activations::pack_block(block, x, cols, rounding);
}

/// [`activations::quantise_block`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quantise_block<X: Codes>(block: &mut [X], x: &[f32], cols: usize) {
    activations::quantise_block(block, x, cols);
}

/// [`activations::quantise_rows`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quantise_rows(head: &mut RowHead, spans: &mut [RowSpan], x: &[f32], cols: usize) {
    activations::quantise_rows(head, spans, x, cols);
}

/// [`store::store_tile`].
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn store_tile(call: &StoreCall<'_>) {
    // SAFETY: the caller's promise.
    unsafe { store::store_tile(call) }
}

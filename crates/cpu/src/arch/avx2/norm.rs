//! RMS norm: the text of `generic::norm`, compiled for this tier.

use crate::arch::generic;

/// See [`generic::norm::rms_norm`].
///
/// # Safety
/// The processor has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub fn rms_norm(dst: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    generic::norm::rms_norm(dst, x, weight, eps);
}

//! RMS norm: the text of `generic::norm`, compiled for this tier.

use crate::arch::generic;

/// See [`generic::norm::rms_norm`].
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn rms_norm(dst: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    generic::norm::rms_norm(dst, x, weight, eps);
}

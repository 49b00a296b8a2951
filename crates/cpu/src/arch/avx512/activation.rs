//! Gated activations: the text of `generic::activation`, compiled for this tier.

use crate::arch::generic::activation;

/// See [`activation::silu_mul`].
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn silu_mul(dst: &mut [f32], gate: &[f32], up: &[f32]) {
    activation::silu_mul(dst, gate, up);
}

/// See [`activation::gelu_mul`].
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn gelu_mul(dst: &mut [f32], gate: &[f32], up: &[f32]) {
    activation::gelu_mul(dst, gate, up);
}

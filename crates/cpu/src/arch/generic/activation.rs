//! Gated activations.

use ucuz_tensor::numerics;

/// `dst = silu(gate) · up`; all of one length.
#[inline(always)]
pub fn silu_mul(dst: &mut [f32], gate: &[f32], up: &[f32]) {
    for ((d, g), u) in dst.iter_mut().zip(gate).zip(up) {
        *d = numerics::silu(*g) * u;
    }
}

/// `dst = gelu_tanh(gate) · up`; all of one length.
#[inline(always)]
pub fn gelu_mul(dst: &mut [f32], gate: &[f32], up: &[f32]) {
    for ((d, g), u) in dst.iter_mut().zip(gate).zip(up) {
        *d = numerics::gelu_tanh(*g) * u;
    }
}

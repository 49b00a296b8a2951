//! RMS norm of one row.
//!
//! `r = 1 / sqrt(Σ x² / n + eps)`, then `(x · r) · weight`; the sum in 16 strided lanes and the fixed tree.

use ucuz_tensor::numerics::square_sum16;

/// `dst = x / sqrt(mean(x²) + eps) · weight`; all of one length.
#[inline(always)]
pub fn rms_norm(dst: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms(x, eps);
    for ((d, v), w) in dst.iter_mut().zip(x).zip(weight) {
        *d = (v * scale) * w;
    }
}

/// As [`rms_norm`] with `dst = x`.
#[inline(always)]
pub fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms(x, eps);
    for (v, w) in x.iter_mut().zip(weight) {
        *v = (*v * scale) * w;
    }
}

#[inline(always)]
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (square_sum16(x) / x.len() as f32 + eps).sqrt()
}

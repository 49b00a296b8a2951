//! Norms, activations and copies, in f64 where it costs nothing.

use std::f64::consts::FRAC_2_PI;
use std::ops::Range;

use crate::batch::Batch;
use crate::check;
use crate::error::TensorResult;
use crate::tensor::{Tensor, View, ViewMut};

/// `1 / sqrt(mean(x²) + eps)`.
pub fn inverse_rms(x: &[f32], eps: f32) -> f64 {
    let squares: f64 = x.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
    1.0 / (squares / x.len() as f64 + f64::from(eps)).sqrt()
}

/// `x / sqrt(mean(x²) + eps) · weight` for every row.
pub fn rms_norm(mut dst: ViewMut<'_>, x: View<'_>, weight: &Tensor, eps: f32) -> TensorResult<()> {
    check::rms_norm(&dst, &x, weight)?;
    for row in 0..x.num_rows() {
        let scale = inverse_rms(x.row(row), eps);
        let pairs = x.row(row).iter().zip(weight.values());
        for (to, (x, weight)) in dst.row_mut(row).iter_mut().zip(pairs) {
            *to = (f64::from(*x) * scale * f64::from(*weight)) as f32;
        }
    }
    Ok(())
}

/// `x / (1 + exp(-x))`.
pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The tanh form of gelu.
pub fn gelu_tanh(x: f64) -> f64 {
    0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

/// `dst = activation(gate) · up`.
pub fn gated(
    mut dst: ViewMut<'_>,
    gate_up: View<'_>,
    activation: impl Fn(f64) -> f64,
) -> TensorResult<()> {
    check::gated(&dst, &gate_up)?;
    for row in 0..gate_up.num_rows() {
        let (gate, up) = gate_up.row(row).split_at(dst.num_cols());
        for (to, (gate, up)) in dst.row_mut(row).iter_mut().zip(gate.iter().zip(up)) {
            *to = (activation(f64::from(*gate)) * f64::from(*up)) as f32;
        }
    }
    Ok(())
}

/// `dst = dst + x`.
pub fn add(mut dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()> {
    check::add(&dst, &x)?;
    for (to, x) in dst.values_mut().iter_mut().zip(x.values()) {
        *to += x;
    }
    Ok(())
}

/// `dst[i] = x[logit_rows[which][i]]`.
pub fn take_rows(
    mut dst: ViewMut<'_>,
    x: View<'_>,
    which: Range<usize>,
    batch: &Batch,
) -> TensorResult<()> {
    let rows = check::take_rows(&dst, &x, which, batch)?;
    for (i, row) in rows.iter().enumerate() {
        dst.row_mut(i).copy_from_slice(x.row(*row as usize));
    }
    Ok(())
}

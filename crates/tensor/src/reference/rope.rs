//! Norms and rotations of queries and keys.

use super::pointwise::inverse_rms;
use crate::backend::{HeadShape, QkNorms, RopeStyle, RopeTable};
use crate::batch::Batch;
use crate::check;
use crate::error::TensorResult;
use crate::tensor::ViewMut;

/// Norms (if any) and rotates the queries and keys of each row at its position.
pub fn qk_norm_rope(
    mut qkv: ViewMut<'_>,
    heads: &HeadShape,
    norms: Option<QkNorms<'_>>,
    rope: &RopeTable,
    batch: &Batch,
) -> TensorResult<()> {
    check::qk_norm_rope(&qkv, heads, norms.as_ref(), rope, batch)?;
    let dim = heads.head_dim;
    for (row, position) in batch.positions.iter().enumerate() {
        let position = *position as usize;
        let (cos, sin) = (
            rope.cos.rows(position..position + 1),
            rope.sin.rows(position..position + 1),
        );
        let rotated = &mut qkv.row_mut(row)[..(heads.heads + heads.kv_heads) * dim];
        for (head, x) in rotated.chunks_exact_mut(dim).enumerate() {
            if let Some(norms) = norms {
                let weight = if head < heads.heads { norms.q } else { norms.k };
                normalise_in_place(x, weight.values(), norms.eps);
            }
            rotate(x, cos.values(), sin.values(), rope.style);
        }
    }
    Ok(())
}

fn normalise_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms(x, eps);
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = (f64::from(*x) * scale * f64::from(*weight)) as f32;
    }
}

/// Rotates the first `2 · cos.len()` numbers of a head; the rest stay.
fn rotate(x: &mut [f32], cos: &[f32], sin: &[f32], style: RopeStyle) {
    let pairs = cos.len();
    for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
        let (a, b) = match style {
            RopeStyle::Half => (i, i + pairs),
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
        };
        let (u, v) = (x[a], x[b]);
        x[a] = u * cos - v * sin;
        x[b] = v * cos + u * sin;
    }
}

//! Norms and rotations of queries and keys.

use super::pointwise::inverse_rms;
use super::{check_shape, check_size};
use crate::backend::{HeadShape, QkNorms, RopeStyle, RopeTable};
use crate::error::{TensorError, TensorResult};
use crate::tensor::ViewMut;

/// Norms (if any) and rotates the queries and keys of each row at its position.
pub fn qk_norm_rope(
    mut qkv: ViewMut<'_>,
    heads: &HeadShape,
    norms: Option<QkNorms<'_>>,
    rope: &RopeTable,
    positions: &[u32],
) -> TensorResult<()> {
    check_call(&qkv, heads, norms, rope, positions)?;
    let dim = heads.head_dim;
    for (row, position) in positions.iter().enumerate() {
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

fn check_call(
    qkv: &ViewMut<'_>,
    heads: &HeadShape,
    norms: Option<QkNorms<'_>>,
    rope: &RopeTable,
    positions: &[u32],
) -> TensorResult<()> {
    let expected = (positions.len(), heads.qkv_cols());
    check_shape("qkv", expected, (qkv.num_rows(), qkv.num_cols()))?;
    let table = (rope.cos.num_rows(), rope.cos.num_cols());
    check_shape(
        "rope sines",
        table,
        (rope.sin.num_rows(), rope.sin.num_cols()),
    )?;
    if 2 * table.1 > heads.head_dim {
        return Err(TensorError::shape(
            "rope columns",
            0..=heads.head_dim / 2,
            table.1,
        ));
    }
    if let Some(norms) = norms {
        check_size(
            "weights of the query norm",
            heads.head_dim,
            norms.q.values().len(),
        )?;
        check_size(
            "weights of the key norm",
            heads.head_dim,
            norms.k.values().len(),
        )?;
    }
    match positions
        .iter()
        .find(|position| **position as usize >= table.0)
    {
        Some(past) => Err(TensorError::shape("position", 0..table.0, past)),
        None => Ok(()),
    }
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

//! Norm and rotation of the queries and keys of one row, in place.
//!
//! A pair `(a, b)` becomes `(a c - b s, b c + a s)`, each product rounded before the sum.

use ucuz_tensor::backend::RopeStyle;

use super::norm::rms_norm_in_place;

/// What happens to the queries and keys of one row.
#[derive(Debug, Clone, Copy)]
pub struct QkRow<'a> {
    /// Query heads.
    pub heads: usize,
    /// Numbers of a head.
    pub head_dim: usize,
    /// Weight of the query norm: `[head_dim]`.
    pub q_norm: Option<&'a [f32]>,
    /// Weight of the key norm: `[head_dim]`.
    pub k_norm: Option<&'a [f32]>,
    /// Added to the mean square.
    pub eps: f32,
    /// Cosines of the row's position; twice as many dims are rotated, the rest of a head is left alone.
    pub cos: &'a [f32],
    /// Sines.
    pub sin: &'a [f32],
    /// Pairing.
    pub style: RopeStyle,
}

/// Norms (if any) and rotates the heads of `row`: `row.heads` queries, then keys. `heads: [heads + kv_heads, head_dim]`.
#[inline(always)]
pub fn qk_norm_rope(heads: &mut [f32], row: &QkRow<'_>) {
    for (index, head) in heads.chunks_exact_mut(row.head_dim).enumerate() {
        let norm = if index < row.heads {
            row.q_norm
        } else {
            row.k_norm
        };
        if let Some(weight) = norm {
            rms_norm_in_place(head, weight, row.eps);
        }
        match row.style {
            RopeStyle::Half => rotate_halves(head, row.cos, row.sin),
            RopeStyle::Interleaved => rotate_neighbours(head, row.cos, row.sin),
        }
    }
}

#[inline(always)]
fn rotate_halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}

#[inline(always)]
fn rotate_neighbours(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (pairs, _) = head.as_chunks_mut::<2>();
    for (([a, b], c), s) in pairs.iter_mut().zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}

//! Norm and rotation of queries and keys, in place.

use ucuz_tensor::backend::{HeadShape, QkNorms, RopeTable};
use ucuz_tensor::{Batch, ViewMut};

use super::rows::for_rows;
use crate::arch::generic::rope::QkRow;
use crate::pool::{Disjoint, ThreadPool};
use crate::table::Kernels;

/// What [`qk_norm_rope`] does to each row.
#[derive(Debug, Clone, Copy)]
pub struct QkCall<'a> {
    /// Heads.
    pub heads: HeadShape,
    /// Norms over each head before the rotation.
    pub norms: Option<QkNorms<'a>>,
    /// The rotation, `[positions, rotary_dim / 2]`; dims of a head past `rotary_dim` are not rotated.
    pub rope: &'a RopeTable,
}

/// Norms (if any) and rotates the queries and keys of `qkv: [rows, (heads + 2 kv_heads) head_dim]`, each row at its position.
pub fn qk_norm_rope(
    pool: &ThreadPool,
    kernels: &Kernels,
    mut qkv: ViewMut<'_>,
    call: &QkCall<'_>,
    batch: &Batch,
) {
    let (rows, cols) = (qkv.num_rows(), qkv.num_cols());
    let HeadShape {
        heads,
        kv_heads,
        head_dim,
    } = call.heads;
    let rotated = (heads + kv_heads) * head_dim;
    let (cos, sin) = (call.rope.cos.view(), call.rope.sin.view());
    let qkv = Disjoint::new(qkv.values_mut());
    for_rows(pool, rows, rotated, &|range| {
        for row in range {
            let position = batch.positions[row] as usize;
            let row_call = QkRow {
                heads,
                head_dim,
                q_norm: call.norms.map(|norms| norms.q.values()),
                k_norm: call.norms.map(|norms| norms.k.values()),
                eps: call.norms.map_or(0.0, |norms| norms.eps),
                cos: cos.row(position),
                sin: sin.row(position),
                style: call.rope.style,
            };
            // SAFETY: each row belongs to one task.
            let heads = unsafe { qkv.range(row * cols..row * cols + rotated) };
            (kernels.qk_norm_rope)(heads, &row_call);
        }
    });
}

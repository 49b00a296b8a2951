//! Gated activations over rows.

use ucuz_tensor::{View, ViewMut};

use crate::pool::{Disjoint, ThreadPool};
use crate::table::Kernels;

/// Columns of one task.
const TASK_COLS: usize = 2048;

/// `dst = silu(gate) · up` with `gate_up: [rows, 2n]` (gate first), `dst: [rows, n]`.
pub fn silu_mul(pool: &ThreadPool, kernels: &Kernels, dst: ViewMut<'_>, gate_up: View<'_>) {
    gated(pool, kernels.silu_mul, dst, gate_up);
}

/// `dst = gelu_tanh(gate) · up`, shapes as [`silu_mul`].
pub fn gelu_mul(pool: &ThreadPool, kernels: &Kernels, dst: ViewMut<'_>, gate_up: View<'_>) {
    gated(pool, kernels.gelu_mul, dst, gate_up);
}

fn gated(
    pool: &ThreadPool,
    kernel: fn(&mut [f32], &[f32], &[f32]),
    mut dst: ViewMut<'_>,
    gate_up: View<'_>,
) {
    let (rows, cols) = (dst.num_rows(), dst.num_cols());
    let chunks = cols.div_ceil(TASK_COLS);
    let dst = Disjoint::new(dst.values_mut());
    pool.run(rows * chunks, &|task, _| {
        let (row, start) = (task / chunks, task % chunks * TASK_COLS);
        let range = start..(start + TASK_COLS).min(cols);
        let (gate, up) = gate_up.row(row).split_at(cols);
        // SAFETY: each chunk of each row belongs to one task.
        let dst = unsafe { dst.range(row * cols + range.start..row * cols + range.end) };
        kernel(dst, &gate[range.clone()], &up[range]);
    });
}

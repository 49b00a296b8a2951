//! RMS norm of rows.

use ucuz_tensor::{View, ViewMut};

use super::rows::for_rows;
use crate::pool::{Disjoint, ThreadPool};
use crate::table::Kernels;

/// `dst[i] = x[i] / sqrt(mean(x[i]²) + eps) · weight`. `dst, x: [rows, n]`, `weight: [n]`.
pub fn rms_norm(
    pool: &ThreadPool,
    kernels: &Kernels,
    mut dst: ViewMut<'_>,
    x: View<'_>,
    weight: &[f32],
    eps: f32,
) {
    let (rows, cols) = (x.num_rows(), x.num_cols());
    let dst = Disjoint::new(dst.values_mut());
    for_rows(pool, rows, cols, &|range| {
        for row in range {
            // SAFETY: each row belongs to one task.
            let dst = unsafe { dst.range(row * cols..(row + 1) * cols) };
            (kernels.rms_norm)(dst, x.row(row), weight, eps);
        }
    });
}

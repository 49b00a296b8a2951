//! Copies and sums of whole rows.

use ucuz_tensor::tensor::{View, ViewMut};

use super::rows::for_rows;
use crate::pool::{Disjoint, ThreadPool};

/// `dst[i] = x[which[i]]`.
pub fn take_rows(mut dst: ViewMut<'_>, x: View<'_>, which: &[u32]) {
    for (row, source) in which.iter().enumerate() {
        dst.row_mut(row).copy_from_slice(x.row(*source as usize));
    }
}

/// `dst = dst + x`.
pub fn add(pool: &ThreadPool, mut dst: ViewMut<'_>, x: View<'_>) {
    let (rows, cols) = (x.num_rows(), x.num_cols());
    let dst = Disjoint::new(dst.values_mut());
    for_rows(pool, rows, cols, &|range| {
        let values = range.start * cols..range.end * cols;
        // SAFETY: each row belongs to one task.
        let dst = unsafe { dst.range(values.clone()) };
        for (dst, x) in dst.iter_mut().zip(&x.values()[values]) {
            *dst += x;
        }
    });
}

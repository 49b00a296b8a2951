//! A tile of results into the destination: portable code that every tier compiles for itself.

use ucuz_tensor::layout::PANEL_ROWS;

use crate::pool::Disjoint;

/// What happens to the old value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// `dst = tile + bias`.
    Replace,
    /// `dst = (tile + bias) + dst`.
    Add,
}

/// Where a tile goes.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Index of its first number.
    pub start: usize,
    /// Numbers from row to row.
    pub stride: usize,
    /// Numbers of a row that count, at most 16.
    pub lanes: usize,
}

/// One tile to store.
pub struct StoreCall<'a> {
    /// Its rows.
    pub tile: &'a [[f32; PANEL_ROWS]],
    /// Added to every row first.
    pub bias: Option<[f32; PANEL_ROWS]>,
    /// What happens to the old value.
    pub store: Store,
    /// Destination.
    pub dst: &'a Disjoint<'a, f32>,
    /// Where in it.
    pub place: Place,
}

/// Stores one tile.
///
/// # Safety
/// The place belongs to the calling task alone, see [`Disjoint::range`].
#[inline(always)]
pub unsafe fn store_tile(call: &StoreCall<'_>) {
    let Place {
        start,
        stride,
        lanes,
    } = call.place;
    for (row, sums) in call.tile.iter().enumerate() {
        let start = start + row * stride;
        // SAFETY: the caller's promise.
        let dst = unsafe { call.dst.range(start..start + lanes) };
        let mut sums = *sums;
        if let Some(bias) = call.bias {
            sums.iter_mut()
                .zip(bias)
                .for_each(|(sum, bias)| *sum += bias);
        }
        if call.store == Store::Add {
            sums.iter_mut()
                .zip(&*dst)
                .for_each(|(sum, residual)| *sum += residual);
        }
        match dst.first_chunk_mut() {
            Some(whole) if lanes == PANEL_ROWS => *whole = sums,
            _ => dst.copy_from_slice(&sums[..lanes]),
        }
    }
}

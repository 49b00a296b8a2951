//! What happens to sums that leave the tile unit: bias, activation, and their places in the destination.
//!
//! The arithmetic of a row is that of [`crate::arch::store`], and of a gated product that of the two kernels one after the other.

use core::arch::x86_64::*;

use ucuz_tensor::layout::PANEL_ROWS;

use crate::activations::BLOCK_ROWS;
use crate::table::{GatedKernel, TileOutput, TileStore};

/// Rows that are finished together.
pub const BATCH: usize = 8;

/// The place of one panel and block in the destination.
#[derive(Clone, Copy)]
pub struct Corner {
    /// Index of the first number.
    start: usize,
    /// Activation rows that count, at most 16.
    rows: usize,
    /// Weight rows that count.
    lanes: __mmask16,
    bias: Option<__m512>,
}

impl Corner {
    /// Of panel `panel` and block `block`, counted from the call's first.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn new(output: &TileOutput<'_>, panel: usize, block: usize) -> Self {
        let (row, lane) = (block * BLOCK_ROWS, panel * PANEL_ROWS);
        let lanes = PANEL_ROWS.min(output.lanes - lane);
        let mask = (0xffff_u32 >> (PANEL_ROWS - lanes)) as __mmask16;
        Self {
            start: output.start + row * output.stride + lane,
            rows: BLOCK_ROWS.min(output.rows - row),
            lanes: mask,
            // SAFETY: only lanes that exist are read.
            bias: output
                .bias
                .map(|bias| unsafe { _mm512_maskz_loadu_ps(mask, bias[lane..][..lanes].as_ptr()) }),
        }
    }
}

/// Asks for the lines that a panel and block will be written to, while there is something else to do.
#[inline]
pub fn prefetch(output: &TileOutput<'_>, panel: usize, block: usize) {
    let first = block * BLOCK_ROWS;
    for row in first..output.rows.min(first + BLOCK_ROWS) {
        let index = output.start + row * output.stride + panel * PANEL_ROWS;
        // A hint: the address is computed without being read.
        let place = output.dst.start().wrapping_add(index);
        // SAFETY: a prefetch does not fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(place.cast_const().cast()) };
    }
}

/// Finishes rows `first..first + BATCH` of a block; those that do not count are left out.
///
/// # Safety
/// The destination of the panel and block belongs to the calling task alone.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn finish(
    output: &TileOutput<'_>,
    corner: &Corner,
    first: usize,
    sums: [__m512; BATCH],
) {
    let sums = match corner.bias {
        Some(bias) => sums.map(|sum| _mm512_add_ps(sum, bias)),
        None => sums,
    };
    let rows = first..corner.rows.min(first + BATCH);
    if rows.is_empty() {
        return;
    }
    let lanes = corner.lanes.count_ones() as usize;
    // One check for all rows: the last place lies inside of the destination.
    let last = corner.start + (rows.end - 1) * output.stride;
    assert!(last + lanes <= output.dst.len(), "inside the destination");
    let place = |row: usize| {
        // SAFETY: inside the destination by the assertion.
        unsafe { output.dst.start().add(corner.start + row * output.stride) }
    };
    // SAFETY: only lanes that exist are read and written, which belong to this task.
    let read = |row: usize| unsafe { _mm512_maskz_loadu_ps(corner.lanes, place(row)) };
    // SAFETY: as above.
    let write = |row: usize, sum| unsafe { _mm512_mask_storeu_ps(place(row), corner.lanes, sum) };
    match output.store {
        TileStore::Replace => {
            for (row, sum) in rows.zip(sums) {
                write(row, sum);
            }
        }
        TileStore::Add => {
            for (row, sum) in rows.zip(sums) {
                write(row, _mm512_add_ps(sum, read(row)));
            }
        }
        TileStore::Gate(kernel) => {
            let mut gates = [_mm512_setzero_ps(); BATCH];
            for (row, gate) in rows.clone().zip(&mut gates) {
                *gate = read(row);
            }
            for (row, gated) in rows.zip(gate(kernel, gates, sums)) {
                write(row, gated);
            }
        }
    }
}

/// `activation(gate) · up`.
#[inline]
#[target_feature(enable = "avx512f")]
fn gate(kernel: GatedKernel, gates: [__m512; BATCH], ups: [__m512; BATCH]) -> [__m512; BATCH] {
    const NUMBERS: usize = BATCH * PANEL_ROWS;
    let mut gated = [0.0f32; NUMBERS];
    // SAFETY: vectors are plain numbers, as many as the arrays hold; the same the other way round.
    let [gates, ups]: [[f32; NUMBERS]; 2] = unsafe { std::mem::transmute([gates, ups]) };
    kernel(&mut gated, &gates, &ups);
    // SAFETY: as above.
    unsafe { std::mem::transmute(gated) }
}

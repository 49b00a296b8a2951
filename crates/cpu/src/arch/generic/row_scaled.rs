//! Row-scaled int8 weights times row-scaled int8 activations: `Arithmetic::I8Row`.

use ucuz_tensor::layout::{PANEL_ROWS, ROW_HEAD_BYTES, ROW_SPAN};

use crate::activations::Tile;
use crate::table::RowCall;

/// Codes of one span of a panel: 64 columns of 16 rows.
pub type SpanCodes = [u8; PANEL_ROWS * ROW_SPAN];

/// The scales at the head of a panel, and the spans of codes behind them.
///
/// # Panics
/// When the panel is shorter than its head.
#[inline(always)]
pub fn split(panel: &[u8]) -> ([f32; PANEL_ROWS], &[SpanCodes]) {
    let (head, codes) = panel.split_at(ROW_HEAD_BYTES);
    let mut scales = [0.0; PANEL_ROWS];
    for (scale, bytes) in scales.iter_mut().zip(head.as_chunks().0) {
        *scale = f32::from_le_bytes(*bytes);
    }
    (scales, codes.as_chunks().0)
}

/// Products of one panel with `call.rows` activation rows.
pub fn linear_rows(tile: &mut Tile, call: &RowCall<'_>) {
    let (scales, panel) = split(call.panel);
    for (row, sums) in tile.iter_mut().enumerate().take(call.rows) {
        // Stored codes carry a bias of 128; sums of 2^16 columns fit, and what wraps on the way comes back.
        let mut dots = [call.head.minus_128_sums[row]; PANEL_ROWS];
        for (codes, x) in panel.iter().zip(call.spans) {
            let quads = x.0[row].as_chunks::<4>().0;
            for (codes, x) in codes.as_chunks::<{ PANEL_ROWS * 4 }>().0.iter().zip(quads) {
                for (dot, codes) in dots.iter_mut().zip(codes.as_chunks::<4>().0) {
                    for (code, x) in codes.iter().zip(x) {
                        *dot = dot.wrapping_add(i32::from(*code) * i32::from(*x));
                    }
                }
            }
        }
        for ((sum, dot), scale) in sums.iter_mut().zip(dots).zip(scales) {
            *sum = dot as f32 * (call.head.scales[row] * scale);
        }
    }
}

//! Codebook weights times bf16 activations: `Arithmetic::Bf16Code`.

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::table::{FloatCall, Levels};

/// Products of one codebook panel with up to 8 activation rows.
pub fn linear_codebook(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>, levels: &Levels) {
    let stride = call.rows.next_power_of_two();
    for row in tile.iter_mut().take(call.rows) {
        *row = [0.0; PANEL_ROWS];
    }
    let group_bytes = PANEL_ROWS * (4 + GROUP / 2);
    let columns = call.x.chunks_exact(GROUP * stride);
    for (bytes, x) in call.panel.chunks_exact(group_bytes).zip(columns) {
        let (scales, codes) = bytes.split_at(PANEL_ROWS * 4);
        let weights: [[f32; PANEL_ROWS]; GROUP] = std::array::from_fn(|column| {
            std::array::from_fn(|lane| level(codes, column, lane, levels))
        });
        for (row, acc) in tile.iter_mut().take(call.rows).enumerate() {
            let mut sums = [[0.0f32; PANEL_ROWS]; 2];
            for (column, weight) in weights.iter().enumerate() {
                let value = x[column * stride + row];
                for (sum, w) in sums[column % 2].iter_mut().zip(weight) {
                    *sum += w * value;
                }
            }
            for (lane, acc) in acc.iter_mut().enumerate() {
                let at = lane * 4;
                let d = f32::from_le_bytes([
                    scales[at],
                    scales[at + 1],
                    scales[at + 2],
                    scales[at + 3],
                ]);
                *acc = (sums[0][lane] + sums[1][lane]).mul_add(d, *acc);
            }
        }
    }
}

fn level(codes: &[u8], column: usize, lane: usize, levels: &Levels) -> f32 {
    let (quad, c) = (column / 4, column % 4);
    let byte = codes[(quad % 4 * PANEL_ROWS + lane) * 4 + c];
    levels[usize::from(if quad < 4 { byte & 15 } else { byte >> 4 })]
}

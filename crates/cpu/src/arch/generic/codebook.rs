//! Codebook weights times bf16 activations: `Arithmetic::Bf16Code`.

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::{CodedPanel, PANEL_ROWS, ScaleKind};
use ucuz_tensor::quant::mxfp4;

use super::float::f16_value;
use crate::table::{CodebookCall, Levels};

/// Products of one codebook panel with up to 8 activation rows.
pub fn linear_codebook(tile: &mut [[f32; PANEL_ROWS]], call: &CodebookCall<'_>) {
    let stride = call.rows.next_power_of_two();
    for row in tile.iter_mut().take(call.rows) {
        *row = [0.0; PANEL_ROWS];
    }
    for (g, x) in call.x.chunks_exact(GROUP * stride).enumerate() {
        let (scales, codes) = group(&call.coded, call.panel, g);
        let weights: [[f32; PANEL_ROWS]; GROUP] = std::array::from_fn(|column| {
            std::array::from_fn(|lane| level(codes, column, lane, call.levels))
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
                *acc = (sums[0][lane] + sums[1][lane]).mul_add(scales[lane], *acc);
            }
        }
    }
}

/// Codes of one group: 32 columns of 16 rows, 4 bits each.
pub type GroupCodes = [u8; PANEL_ROWS * GROUP / 2];

/// Cache lines of a group in a panel: four of codes, one of scales.
pub const GROUP_LINES: usize = 5;

/// The scales of group `g` of a codebook panel, exact in f32, and its codes.
///
/// # Panics
/// When the panel is shorter than its geometry says.
#[inline(always)]
pub fn group<'a>(
    coded: &CodedPanel,
    panel: &'a [u8],
    g: usize,
) -> ([f32; PANEL_ROWS], &'a GroupCodes) {
    let header = &panel[coded.block_offset(g)..][..coded.header_bytes()];
    let mut scales = [0.0; PANEL_ROWS];
    match coded.scale {
        ScaleKind::F16 => {
            for (scale, bits) in scales.iter_mut().zip(header.as_chunks().0) {
                *scale = f16_value(u16::from_le_bytes(*bits));
            }
        }
        ScaleKind::Exponent => {
            for (scale, e) in scales.iter_mut().zip(header) {
                *scale = mxfp4::half_scale(*e);
            }
        }
    }
    let (subs, codes) = panel[coded.group_offset(g)..].split_at(coded.sub_bytes());
    for (scale, sub) in scales.iter_mut().zip(subs) {
        *scale *= f32::from(*sub as i8);
    }
    let (codes, _) = codes.as_chunks();
    (scales, &codes[0])
}

fn level(codes: &GroupCodes, column: usize, lane: usize, levels: &Levels) -> f32 {
    let (quad, c) = (column / 4, column % 4);
    let byte = codes[(quad % 4 * PANEL_ROWS + lane) * 4 + c];
    levels[usize::from(if quad < 4 { byte & 15 } else { byte >> 4 })]
}

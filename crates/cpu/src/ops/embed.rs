//! Rows of a table back from its panels: the embedding lookup.

use ucuz_tensor::format::{Coding, GROUP};
use ucuz_tensor::layout::{
    CodedPanel, PANEL_ROWS, PanelKind, PanelLayout, ROW_HEAD_BYTES, ScaleKind,
};
use ucuz_tensor::numerics::bf16_value;
use ucuz_tensor::quant::mxfp4;
use ucuz_tensor::tensor::ViewMut;
use ucuz_tensor::weight::Weight;

use crate::pool::{Disjoint, ThreadPool};

/// Numbers below which a lookup is not worth waking anybody.
const TASK_NUMBERS: usize = 16 * 1024;

/// `dst[i] = scale · table[tokens[i]]`; the tokens are rows of the table.
pub fn embed(pool: &ThreadPool, mut dst: ViewMut<'_>, table: &Weight, scale: f32, tokens: &[u32]) {
    let cols = table.cols;
    let rows_per_task = (TASK_NUMBERS / cols.max(1)).max(1);
    let values = Disjoint::new(dst.values_mut());
    pool.run(tokens.len().div_ceil(rows_per_task), &|task, _| {
        let rows = task * rows_per_task..tokens.len().min((task + 1) * rows_per_task);
        for row in rows {
            // SAFETY: each row belongs to one task.
            let target = unsafe { values.range(row * cols..(row + 1) * cols) };
            read_row(target, table, tokens[row] as usize);
            for value in target {
                *value *= scale;
            }
        }
    });
}

/// Row `row` of a weight over all its parts, exactly as `Group` says.
pub fn read_row(dst: &mut [f32], weight: &Weight, row: usize) {
    for part in &weight.parts {
        if let Some(row) = row.checked_sub(part.first_row)
            && row < part.layout.rows
        {
            let bytes = part.layout.panel_bytes();
            let panel = &part.data.bytes()[row / PANEL_ROWS * bytes..][..bytes];
            read_lane(dst, &part.layout, panel, row % PANEL_ROWS);
        }
    }
}

fn read_lane(dst: &mut [f32], layout: &PanelLayout, panel: &[u8], lane: usize) {
    let u16_at = |at: usize| u16::from_le_bytes([panel[at], panel[at + 1]]);
    match layout.kind {
        PanelKind::Coded(coded) => {
            let levels = match layout.format.info().coding {
                Coding::Codebook { levels, .. } => Some(levels),
                _ => None,
            };
            for (g, dst) in dst.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
                read_group(dst, &coded, levels, panel, (g, lane));
            }
        }
        PanelKind::Rows => {
            let at = lane * 4;
            let scale =
                f32::from_le_bytes([panel[at], panel[at + 1], panel[at + 2], panel[at + 3]]);
            let codes = &panel[ROW_HEAD_BYTES..];
            for (k, dst) in dst.iter_mut().enumerate() {
                let stored = codes[(k / 4 * PANEL_ROWS + lane) * 4 + k % 4];
                *dst = scale * f32::from((stored ^ 0x80) as i8);
            }
        }
        PanelKind::Bf16 => {
            for (k, dst) in dst.iter_mut().enumerate() {
                *dst = bf16_value(u16_at(((k / 2 * PANEL_ROWS + lane) * 2 + k % 2) * 2));
            }
        }
        PanelKind::F16 => {
            for (k, dst) in dst.iter_mut().enumerate() {
                *dst = half::f16::from_bits(u16_at((k * PANEL_ROWS + lane) * 2)).to_f32();
            }
        }
        PanelKind::F32 => {
            for (dst, bytes) in dst.iter_mut().zip(
                panel
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .skip(lane)
                    .step_by(PANEL_ROWS),
            ) {
                *dst = f32::from_le_bytes(*bytes);
            }
        }
    }
}

/// One group of one lane; `(g, lane)` is its place.
fn read_group(
    dst: &mut [f32; GROUP],
    coded: &CodedPanel,
    levels: Option<&[i8; 16]>,
    panel: &[u8],
    (g, lane): (usize, usize),
) {
    let header = &panel[coded.block_offset(g)..];
    let f16_at = |at: usize| half::f16::from_le_bytes([header[at], header[at + 1]]).to_f32();
    let d = match coded.scale {
        ScaleKind::F16 => f16_at(lane * 2),
        ScaleKind::Exponent => mxfp4::half_scale(header[lane]),
    };
    let m = if coded.minimum {
        f16_at((PANEL_ROWS + lane) * 2)
    } else {
        0.0
    };
    let (subs, codes) = panel[coded.group_offset(g)..].split_at(coded.sub_bytes());
    let sub = |index: usize| subs[index * PANEL_ROWS + lane];
    let factors = |half: usize| match (coded.packed_subs(), coded.minimum) {
        (true, _) => [(sub(half) & 15) as i8, (sub(half) >> 4) as i8],
        (false, true) => [sub(half) as i8, sub(coded.sub_scales + half) as i8],
        (false, false) => [sub(half) as i8, 1],
    };
    for (column, dst) in dst.iter_mut().enumerate() {
        let half = (column / 16).min(coded.sub_scales.saturating_sub(1));
        let raw = coded.stored_code(codes, column, lane);
        let code = match levels {
            Some(levels) => f32::from(levels[usize::from(raw & 15)]),
            None => f32::from(i16::from(raw) - i16::from(coded.bias)),
        };
        if coded.sub_scales == 0 {
            *dst = d * code;
            if coded.minimum {
                *dst += m;
            }
            continue;
        }
        let [scale, min] = factors(half).map(f32::from);
        *dst = d * scale * code;
        if coded.minimum {
            *dst += m * min;
        }
    }
}

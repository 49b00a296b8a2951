//! Stored blocks into panels of 16 rows, for every tier alike.
//!
//! A format's `unpack` gives exact codes and scales; they are written where [`PanelLayout`] says. Codebook levels become
//! indices again; bf16 weights below 2^-48 become zero; rows past the end are zero.

use std::ops::Range;

use ucuz_tensor::error::{TensorError, TensorResult};
use ucuz_tensor::format::{Coding, FormatInfo, GROUP};
use ucuz_tensor::layout::{CodedPanel, PANEL_ROWS, PanelKind, PanelLayout, ScaleKind};
use ucuz_tensor::numerics::bf16_bits;
use ucuz_tensor::numerics::bf16_value;
use ucuz_tensor::quant::{self, BLOCK_GROUPS_MAX, Group, int8_row, mxfp4};

use crate::pool::{Disjoint, ThreadPool};

/// Brings stored rows `rows` into `data`, the part's whole buffer; see `Backend::repack`.
///
/// # Errors
/// [`TensorError::Shape`] when the range does not start at a panel, ends inside one before the last row, or sizes disagree.
pub fn repack(
    pool: &ThreadPool,
    data: &mut [u8],
    layout: &PanelLayout,
    stored: &[u8],
    rows: Range<usize>,
) -> TensorResult<()> {
    let row_bytes = check(data, layout, stored, &rows)?;
    if rows.is_empty() {
        return Ok(());
    }
    let panel_bytes = layout.panel_bytes();
    let first = rows.start / PANEL_ROWS;
    let panels = rows.end.div_ceil(PANEL_ROWS) - first;
    let data = Disjoint::new(&mut data[first * panel_bytes..][..panels * panel_bytes]);
    pool.run(panels, &|panel, _| {
        // SAFETY: each task has its own panel.
        let target = unsafe { data.range(panel * panel_bytes..(panel + 1) * panel_bytes) };
        let start = panel * PANEL_ROWS * row_bytes;
        let source = &stored[start..stored.len().min(start + PANEL_ROWS * row_bytes)];
        fill_panel(target, layout, source, row_bytes);
    });
    Ok(())
}

fn check(
    data: &[u8],
    layout: &PanelLayout,
    stored: &[u8],
    rows: &Range<usize>,
) -> TensorResult<usize> {
    let format = layout.stored;
    let whole = rows.start <= rows.end && rows.end <= layout.rows;
    let aligned = rows.start.is_multiple_of(PANEL_ROWS)
        && (rows.end.is_multiple_of(PANEL_ROWS) || rows.end == layout.rows);
    if !(whole && aligned) {
        let rule = format!("rows of {} in whole panels of {PANEL_ROWS}", layout.rows);
        return Err(TensorError::shape("rows to repack", rule, rows));
    }
    let Some(row_bytes) = format.row_bytes(layout.cols) else {
        let rule = format!("a multiple of {}", format.info().block_elements);
        return Err(TensorError::shape(
            format!("columns of a {format} weight"),
            rule,
            layout.cols,
        ));
    };
    if row_bytes.checked_mul(rows.len()) != Some(stored.len()) {
        let rule = format!("{} rows of {row_bytes} bytes", rows.len());
        return Err(TensorError::shape(
            format!("stored {format} rows"),
            rule,
            stored.len(),
        ));
    }
    if layout.checked_bytes() != Some(data.len()) {
        return Err(TensorError::shape(
            format!("buffer of a {format} part"),
            layout.checked_bytes(),
            data.len(),
        ));
    }
    Ok(row_bytes)
}

/// Writes one panel from up to 16 stored rows.
fn fill_panel(panel: &mut [u8], layout: &PanelLayout, stored: &[u8], row_bytes: usize) {
    match layout.kind {
        PanelKind::Coded(coded) => fill_coded(panel, layout, &coded, stored, row_bytes),
        PanelKind::Rows => fill_rows(panel, layout, stored, row_bytes),
        PanelKind::Bf16 => fill_float(panel, stored, row_bytes, |panel, k, row, w: [u8; 2]| {
            let w = bf16_bits(bf16_value(u16::from_le_bytes(w))).to_le_bytes();
            panel[((k / 2 * PANEL_ROWS + row) * 2 + k % 2) * 2..][..2].copy_from_slice(&w);
        }),
        PanelKind::F16 => fill_float(panel, stored, row_bytes, |panel, k, row, w: [u8; 2]| {
            panel[(k * PANEL_ROWS + row) * 2..][..2].copy_from_slice(&w);
        }),
        PanelKind::F32 => fill_float(panel, stored, row_bytes, |panel, k, row, w: [u8; 4]| {
            panel[(k * PANEL_ROWS + row) * 4..][..4].copy_from_slice(&w);
        }),
    }
}

fn fill_float<const N: usize>(
    panel: &mut [u8],
    stored: &[u8],
    row_bytes: usize,
    put: impl Fn(&mut [u8], usize, usize, [u8; N]),
) {
    panel.fill(0);
    for (row, values) in stored.chunks_exact(row_bytes).enumerate() {
        for (k, value) in values.as_chunks::<N>().0.iter().enumerate() {
            put(panel, k, row, *value);
        }
    }
}

/// Writes up to 16 rows of codes and scales, converted if they are stored in another format.
fn fill_rows(panel: &mut [u8], layout: &PanelLayout, stored: &[u8], row_bytes: usize) {
    panel.fill(0);
    let (scales, codes) = panel.split_at_mut(PANEL_ROWS * 4);
    let mut values = vec![0.0; layout.cols];
    let mut converted = vec![0; layout.cols + 4];
    for (row, stored) in stored.chunks_exact(row_bytes).enumerate() {
        quant::convert_row(
            (layout.stored, stored),
            layout.format,
            &mut values,
            &mut converted,
        );
        let (row_codes, scale) = int8_row::split(&converted);
        scales[row * 4..][..4].copy_from_slice(&scale.to_le_bytes());
        let places = codes.as_chunks_mut::<4>().0;
        let places = places.iter_mut().skip(row).step_by(PANEL_ROWS);
        for (place, codes) in places.zip(row_codes.chunks(4)) {
            for (place, code) in place.iter_mut().zip(codes) {
                *place = code ^ 0x80;
            }
        }
    }
}

fn fill_coded(
    panel: &mut [u8],
    layout: &PanelLayout,
    coded: &CodedPanel,
    stored: &[u8],
    row_bytes: usize,
) {
    let info: &FormatInfo = layout.format.info();
    let indices = match info.coding {
        Coding::Codebook { levels, .. } => Some(level_indices(levels)),
        _ => None,
    };
    let block_groups = info.block_elements / GROUP;
    let present = stored.len() / row_bytes;
    for block in 0..layout.groups() / block_groups {
        for row in 0..PANEL_ROWS {
            let mut groups = [Group::ZERO; BLOCK_GROUPS_MAX];
            if let Some(unpack) = info.unpack.filter(|_| row < present) {
                let start = row * row_bytes + block * info.block_bytes;
                unpack(
                    &stored[start..start + info.block_bytes],
                    &mut groups[..block_groups],
                );
            }
            for (g, group) in groups[..block_groups].iter_mut().enumerate() {
                if let Some(indices) = &indices {
                    group.codes = group.codes.map(|level| indices[usize::from(level as u8)]);
                }
                put_group(panel, coded, block * block_groups + g, row, group);
            }
        }
    }
}

/// Index of each level, by its byte.
fn level_indices(levels: &[i8; 16]) -> [i8; 256] {
    let mut indices = [0; 256];
    for (index, level) in levels.iter().enumerate().rev() {
        indices[usize::from(*level as u8)] = index as i8;
    }
    indices
}

/// Writes one row's part of a group: scales (once a block), sub-scales, codes.
fn put_group(panel: &mut [u8], coded: &CodedPanel, g: usize, row: usize, group: &Group) {
    if g.is_multiple_of(coded.groups_per_scale) {
        let header = &mut panel[coded.block_offset(g)..];
        match coded.scale {
            ScaleKind::F16 => header[row * 2..][..2].copy_from_slice(&f16_bytes(group.d)),
            ScaleKind::Exponent => header[row] = mxfp4::exponent(group.d),
        }
        if coded.minimum {
            let at = coded.header_bytes() - 2 * PANEL_ROWS + row * 2;
            header[at..][..2].copy_from_slice(&f16_bytes(group.m));
        }
    }
    let (subs, codes) = panel[coded.group_offset(g)..].split_at_mut(coded.sub_bytes());
    for sub in 0..coded.sub_scales {
        let (scale, min) = (group.sub_scales[sub] as u8, group.sub_mins[sub] as u8);
        if coded.packed_subs() {
            subs[sub * PANEL_ROWS + row] = scale | min << 4;
            continue;
        }
        subs[sub * PANEL_ROWS + row] = scale;
        if coded.minimum {
            subs[(coded.sub_scales + sub) * PANEL_ROWS + row] = min;
        }
    }
    let stored = group
        .codes
        .map(|code| (code as u8).wrapping_add(coded.bias));
    coded.put_codes(codes, row, &stored);
}

/// Scales of integer formats are f16 values, so this is exact.
fn f16_bytes(value: f32) -> [u8; 2] {
    half::f16::from_f32(value).to_le_bytes()
}

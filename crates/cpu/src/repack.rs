//! Stored blocks into panels of 16 rows, for every tier alike.
//!
//! A format's `unpack` gives exact codes and scales; they are written where [`PanelLayout`] says. Codebook levels become
//! indices again; bf16 weights below 2^-48 become zero; rows past the end are zero.

use std::ops::Range;
use std::slice::ChunksExact;

use ucuz_tensor::error::{TensorError, TensorResult};
use ucuz_tensor::format::{Coding, FormatInfo, GROUP};
use ucuz_tensor::layout::{
    CodedPanel, PANEL_ROWS, PanelKind, PanelLayout, ROW_HEAD_BYTES, ScaleKind,
};
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
    let rows = stored.chunks_exact(row_bytes);
    match layout.kind {
        PanelKind::Coded(coded) => {
            let blocks = layout.format.info().block_elements;
            match (blocks, coded.scale, coded.minimum, coded.bits) {
                (GROUP, ScaleKind::F16, false, 4) => copy_blocks::<2, 0, 4>(panel, &coded, rows),
                (GROUP, ScaleKind::F16, true, 4) => copy_blocks::<2, 2, 4>(panel, &coded, rows),
                (GROUP, ScaleKind::F16, false, 5) => copy_blocks::<2, 0, 5>(panel, &coded, rows),
                (GROUP, ScaleKind::F16, true, 5) => copy_blocks::<2, 2, 5>(panel, &coded, rows),
                (GROUP, ScaleKind::F16, false, 8) => copy_blocks::<2, 0, 8>(panel, &coded, rows),
                (GROUP, ScaleKind::Exponent, false, 4) => {
                    copy_blocks::<1, 0, 4>(panel, &coded, rows);
                }
                _ => fill_coded(panel, layout, &coded, stored, row_bytes),
            }
        }
        PanelKind::Rows => fill_rows(panel, layout, stored, row_bytes),
        PanelKind::Bf16 => fill_bf16(panel, stored, row_bytes),
        PanelKind::F16 => fill_float::<2>(panel, stored, row_bytes),
        PanelKind::F32 => fill_float::<4>(panel, stored, row_bytes),
    }
}

/// Writes up to 16 rows of blocks of 32 columns that hold what a panel holds, each field in the panel's own coding: a scale of
/// `SCALE` bytes, a minimum of `MINIMUM`, the fifth bits if `BITS` is 5, then nibbles or bytes. Only places differ, so this
/// copies: 2 to 6 times faster than by way of [`Group`].
fn copy_blocks<const SCALE: usize, const MINIMUM: usize, const BITS: usize>(
    panel: &mut [u8],
    coded: &CodedPanel,
    rows: ChunksExact<'_, u8>,
) {
    let (group_bytes, block_bytes) = (
        coded.header_bytes() + coded.group_bytes(),
        SCALE + MINIMUM + BITS * GROUP / 8,
    );
    let present = rows.len();
    for (row, stored) in rows.enumerate() {
        let blocks = stored.chunks_exact(block_bytes);
        for (group, block) in panel.chunks_exact_mut(group_bytes).zip(blocks) {
            copy_block::<SCALE, MINIMUM, BITS>(group, block, row);
        }
    }
    for row in present..PANEL_ROWS {
        for g in 0..panel.len() / group_bytes {
            put_group(panel, coded, g, row, &Group::ZERO);
        }
    }
}

fn copy_block<const SCALE: usize, const MINIMUM: usize, const BITS: usize>(
    group: &mut [u8],
    block: &[u8],
    row: usize,
) {
    let (scale, block) = block.split_at(SCALE);
    let (minimum, block) = block.split_at(MINIMUM);
    let (scales, group) = group.split_at_mut(SCALE * PANEL_ROWS);
    let (minima, codes) = group.split_at_mut(MINIMUM * PANEL_ROWS);
    scales[row * SCALE..][..SCALE].copy_from_slice(scale);
    minima[row * MINIMUM..][..MINIMUM].copy_from_slice(minimum);
    let (fifth, low) = block.split_at(if BITS == 5 { 4 } else { 0 });
    let vectors = codes.as_chunks_mut::<{ PANEL_ROWS * 4 }>().0;
    for (vector, quad) in vectors.iter_mut().zip(low.as_chunks::<4>().0) {
        // Bytes are signed in the file and biased by 128 here.
        let flip = if BITS == 8 { 0x8080_8080 } else { 0 };
        let codes = u32::from_le_bytes(*quad) ^ flip;
        vector.as_chunks_mut::<4>().0[row] = codes.to_le_bytes();
    }
    if let (Some(bits), Some(vector)) = (fifth.first_chunk(), vectors.get_mut(4)) {
        vector.as_chunks_mut::<4>().0[row] = column_bits(u32::from_le_bytes(*bits));
    }
}

/// Bit `4q + c` becomes bit `q` of byte `c`.
fn column_bits(bits: u32) -> [u8; 4] {
    std::array::from_fn(|c| {
        let mut own = bits >> c & 0x1111_1111;
        own = (own | own >> 3) & 0x0303_0303;
        own = (own | own >> 6) & 0x000f_000f;
        (own | own >> 12) as u8
    })
}

/// Writes up to 16 rows of bf16 numbers, column pair by column pair.
fn fill_bf16(panel: &mut [u8], stored: &[u8], row_bytes: usize) {
    panel.fill(0);
    let flush = |w: [u8; 2]| bf16_bits(bf16_value(u16::from_le_bytes(w))).to_le_bytes();
    for (row, values) in stored.chunks_exact(row_bytes).enumerate() {
        let places = panel.as_chunks_mut::<2>().0.as_chunks_mut::<2>().0;
        let pairs = values.as_chunks::<2>().0.chunks(2);
        for (place, pair) in places.iter_mut().skip(row).step_by(PANEL_ROWS).zip(pairs) {
            for (to, w) in place.iter_mut().zip(pair) {
                *to = flush(*w);
            }
        }
    }
}

/// Writes up to 16 rows of numbers of `N` bytes, column by column.
fn fill_float<const N: usize>(panel: &mut [u8], stored: &[u8], row_bytes: usize) {
    panel.fill(0);
    for (row, values) in stored.chunks_exact(row_bytes).enumerate() {
        let places = panel.as_chunks_mut::<N>().0;
        let places = places.iter_mut().skip(row).step_by(PANEL_ROWS);
        for (place, value) in places.zip(values.as_chunks::<N>().0) {
            *place = *value;
        }
    }
}

/// Writes up to 16 rows of codes and scales, converted if they are stored in another format.
fn fill_rows(panel: &mut [u8], layout: &PanelLayout, stored: &[u8], row_bytes: usize) {
    panel.fill(0);
    let (scales, codes) = panel.split_at_mut(ROW_HEAD_BYTES);
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
    let mut room = [Group::ZERO; BLOCK_GROUPS_MAX];
    let groups = &mut room[..block_groups];
    for block in 0..layout.groups() / block_groups {
        for row in 0..PANEL_ROWS {
            groups.fill(Group::ZERO);
            if let Some(unpack) = info.unpack.filter(|_| row < present) {
                let start = row * row_bytes + block * info.block_bytes;
                unpack(&stored[start..start + info.block_bytes], groups);
            }
            for (g, group) in groups.iter_mut().enumerate() {
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

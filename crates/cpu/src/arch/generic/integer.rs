//! Integer weights times int8 activations: `Arithmetic::I8` and `Arithmetic::I8Pair`, step by step as they are written there.

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::{CodedPanel, PANEL_ROWS};

use crate::activations::{I8Group, Tile};
use crate::table::CodedCall;

type Lanes<T> = [T; PANEL_ROWS];

/// One group of a panel as plain numbers.
struct PlainGroup {
    codes: [Lanes<i32>; GROUP],
    sub_scales: [Lanes<i32>; 2],
    sub_mins: [Lanes<i32>; 2],
}

/// Products of one panel with `call.rows` activation rows.
pub fn linear_i8(tile: &mut Tile, call: &CodedCall<'_>) {
    for row in tile.iter_mut().take(call.rows) {
        *row = [0.0; PANEL_ROWS];
    }
    let coded = &call.coded;
    for (g, planes) in call.groups.chunks(call.planes).enumerate() {
        let header = &call.panel[coded.block_offset(g)..];
        let d = f16_lanes(header);
        let m = if coded.minimum {
            f16_lanes(&header[2 * PANEL_ROWS..])
        } else {
            [0.0; PANEL_ROWS]
        };
        let group = unpack(coded, &call.panel[coded.group_offset(g)..]);
        for (row, acc) in tile.iter_mut().take(call.rows).enumerate() {
            add_group(acc, &group, (coded, &d, &m), planes, row);
        }
    }
}

/// The number that the codes of one row and column stand for: one plane, or two.
#[inline(always)]
fn code(planes: &[I8Group], row: usize, column: usize) -> i32 {
    planes.iter().fold(0, |code, plane| {
        256 * code + i32::from(plane.codes[row][column])
    })
}

#[inline(always)]
fn add_group(
    acc: &mut Lanes<f32>,
    group: &PlainGroup,
    (coded, d, m): (&CodedPanel, &Lanes<f32>, &Lanes<f32>),
    planes: &[I8Group],
    row: usize,
) {
    let x = &planes[0];
    let scale = x.scales[row];
    let mut dots = [[0i32; PANEL_ROWS]; 2];
    for (column, codes) in group.codes.iter().enumerate() {
        let code = code(planes, row, column);
        for (dot, weight) in dots[column / 16].iter_mut().zip(codes) {
            *dot += weight * code;
        }
    }
    let sums = [x.sums[0][row] as i32, x.sums[1][row] as i32];
    for lane in 0..PANEL_ROWS {
        let lane_of = |pair: &[Lanes<i32>; 2]| [pair[0][lane], pair[1][lane]];
        let dot = total(coded, lane_of(&dots), lane_of(&group.sub_scales));
        acc[lane] = dot.mul_add(scale * d[lane], acc[lane]);
        if coded.minimum {
            let sum = total(coded, sums, lane_of(&group.sub_mins));
            acc[lane] = sum.mul_add(scale * m[lane], acc[lane]);
        }
    }
}

/// Both halves of a group under their sub-scales.
#[inline(always)]
fn total(coded: &CodedPanel, halves: [i32; 2], subs: [i32; 2]) -> f32 {
    match coded.sub_scales {
        0 => (halves[0] + halves[1]) as f32,
        1 => (halves[0] + halves[1]) as f32 * subs[0] as f32,
        _ => (halves[1] as f32).mul_add(subs[1] as f32, halves[0] as f32 * subs[0] as f32),
    }
}

/// Reads a group: sub-scales, sub-minima, codes.
fn unpack(coded: &CodedPanel, bytes: &[u8]) -> PlainGroup {
    let subs = coded.sub_scales;
    let byte = |index: usize, lane: usize| bytes[index * PANEL_ROWS + lane];
    let lanes = |index: usize| -> Lanes<i32> {
        std::array::from_fn(|lane| i32::from(byte(index, lane) as i8))
    };
    let nibbles = |index: usize, shift: u8| -> Lanes<i32> {
        std::array::from_fn(|lane| i32::from(byte(index, lane) >> shift & 15))
    };
    let pair = |first: usize| match subs {
        0 => [[1; PANEL_ROWS]; 2],
        1 => [lanes(first); 2],
        _ => [lanes(first), lanes(first + 1)],
    };
    let stored = &bytes[coded.sub_bytes()..];
    let code = |column: usize, lane: usize| {
        i32::from(coded.stored_code(stored, column, lane)) - i32::from(coded.bias)
    };
    let (sub_scales, sub_mins) = if coded.packed_subs() {
        let both = |shift: u8| [nibbles(0, shift), nibbles(1, shift)];
        (both(0), both(4))
    } else if coded.minimum {
        (pair(0), pair(subs))
    } else {
        (pair(0), [[1; PANEL_ROWS]; 2])
    };
    PlainGroup {
        codes: std::array::from_fn(|column| std::array::from_fn(|lane| code(column, lane))),
        sub_scales,
        sub_mins,
    }
}

/// Sixteen f16 numbers, exactly.
fn f16_lanes(bytes: &[u8]) -> Lanes<f32> {
    std::array::from_fn(|lane| {
        half::f16::from_le_bytes([bytes[2 * lane], bytes[2 * lane + 1]]).to_f32()
    })
}

//! Integer weights times integer codes: `Arithmetic::I8` and `Arithmetic::I12`, step by step as they are written there.

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::{CodedPanel, PANEL_ROWS};

use crate::activations::{BLOCK_ROWS, Codes, Tile};
use crate::table::CodedCall;

type Lanes<T> = [T; PANEL_ROWS];

/// One group of a panel as plain numbers.
struct PlainGroup {
    codes: [Lanes<i32>; GROUP],
    sub_scales: [Lanes<i32>; 2],
    sub_mins: [Lanes<i32>; 2],
}

/// Products of one panel with `call.rows` activation rows.
pub fn linear<X: Codes>(tile: &mut Tile, call: &CodedCall<'_, X>) {
    let tile = &mut tile[..call.rows];
    tile.fill([0.0; PANEL_ROWS]);
    for (segment, groups) in call.groups.chunks(X::SEGMENT).enumerate() {
        let mut sums: Tile = [[0.0; PANEL_ROWS]; BLOCK_ROWS];
        for (index, x) in groups.iter().enumerate() {
            add_group(
                &mut sums[..call.rows],
                call,
                segment * X::SEGMENT + index,
                x,
            );
        }
        for (row, (acc, sums)) in tile.iter_mut().zip(sums).enumerate() {
            let scale = groups[0].about().scales[row];
            for (acc, sum) in acc.iter_mut().zip(sums) {
                *acc = sum.mul_add(scale, *acc);
            }
        }
    }
}

/// Adds group `g` to the sums of its segment.
fn add_group<X: Codes>(sums: &mut [Lanes<f32>], call: &CodedCall<'_, X>, g: usize, x: &X) {
    let coded = &call.coded;
    let header = &call.panel[coded.block_offset(g)..];
    let d = f16_lanes(header);
    let m = if coded.minimum {
        f16_lanes(&header[2 * PANEL_ROWS..])
    } else {
        [0.0; PANEL_ROWS]
    };
    let group = unpack(coded, &call.panel[coded.group_offset(g)..]);
    for (row, acc) in sums.iter_mut().enumerate() {
        add_row(acc, &group, (coded, &d, &m), x, row);
    }
}

/// The number that the digits of one row and column stand for.
#[inline(always)]
fn code<X: Codes>(x: &X, row: usize, column: usize) -> i32 {
    let digits = x.digits(row).iter();
    digits.fold(0, |code, digit| 16 * code + i32::from(digit[column]))
}

#[inline(always)]
fn add_row<X: Codes>(
    acc: &mut Lanes<f32>,
    group: &PlainGroup,
    (coded, d, m): (&CodedPanel, &Lanes<f32>, &Lanes<f32>),
    x: &X,
    row: usize,
) {
    let mut dots = [[0i32; PANEL_ROWS]; 2];
    for (column, codes) in group.codes.iter().enumerate() {
        let code = code(x, row, column);
        for (dot, weight) in dots[column / 16].iter_mut().zip(codes) {
            *dot += weight * code;
        }
    }
    let sums = [x.about().sums[0][row], x.about().sums[1][row]].map(|sum| sum as i32);
    for lane in 0..PANEL_ROWS {
        let lane_of = |pair: &[Lanes<i32>; 2]| [pair[0][lane], pair[1][lane]];
        let dots = lane_of(&dots);
        acc[lane] = total(
            coded,
            acc[lane],
            dots,
            (d[lane], lane_of(&group.sub_scales)),
        );
        if coded.minimum {
            acc[lane] = total(coded, acc[lane], sums, (m[lane], lane_of(&group.sub_mins)));
        }
    }
}

/// `acc` plus both halves of a group, each under its scale, or their sum under the one of both.
#[inline(always)]
fn total(coded: &CodedPanel, acc: f32, halves: [i32; 2], (scale, subs): (f32, [i32; 2])) -> f32 {
    let [first, second] = subs.map(|sub| scale * sub as f32);
    if coded.sub_scales == 2 {
        let acc = (halves[0] as f32).mul_add(first, acc);
        return (halves[1] as f32).mul_add(second, acc);
    }
    ((halves[0] + halves[1]) as f32).mul_add(first, acc)
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

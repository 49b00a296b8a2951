//! Activation rows in the form that the linear kernels read: blocks of up to 16 rows, packed once per Weight call.
//!
//! ```text
//! int8   = blocks of 16 rows; a block is one I8Group per plane and 32 columns: columns ascending, planes of one group together
//! rows   = blocks of 16 rows under one scale each: a RowHead, and one RowSpan per 64 columns
//! floats = blocks of 8 rows; a block of R rows (R = 1, 2, 4, 8) is [columns, padded to 32][R]
//! tiles  = blocks of 16 rows; a block is one Bf16Group per 32 columns, for tiers with a tile unit
//! ```
//! Rows that pad a block are zero. Here: the types and the portable packing, which every tier compiles for itself.

use bytemuck::{Pod, Zeroable};
use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::{PANEL_ROWS, ROW_SPAN};
use ucuz_tensor::numerics::RowScale;
use ucuz_tensor::numerics::{bf16_bits, bf16_round};

/// Activation rows of one int8 block, and of one [`Tile`].
pub const BLOCK_ROWS: usize = 16;
/// Activation rows of one float block: sixteen accumulators of even and odd sums is what the registers hold.
pub const FLOAT_ROWS: usize = 8;

/// Products of up to 16 activation rows with one panel: `[activation row][weight row]`.
pub type Tile = [[f32; PANEL_ROWS]; BLOCK_ROWS];

/// 32 columns of 16 activation rows in int8, with everything about them that kernels need. Of a pair, the first group has
/// the high codes and all numbers, about both planes together; of the second only the codes are read.
///
/// Entry 0 and 1 of a triple is about the two halves of 16 columns, entry 2 about the whole group.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct I8Group {
    /// `[row][column]`, within ±127.
    pub codes: [[i8; GROUP]; BLOCK_ROWS],
    /// `absmax / 127` of each row, of a pair `/ 256`; NaN if a value is not finite, which makes all outputs of that row NaN.
    pub scales: [f32; BLOCK_ROWS],
    /// Sums of the codes, exact.
    pub sums: [[f32; BLOCK_ROWS]; 3],
    /// `-8 ·` the sums: undoes a bias of 8, to which AVX-512 lifts that of 3-bit codes.
    pub minus_8_sums: [[i32; BLOCK_ROWS]; 3],
    /// `-128 ·` the sums: undoes a bias of 128, to which it lifts that of 5- and 6-bit codes.
    pub minus_128_sums: [[i32; BLOCK_ROWS]; 3],
}

/// 32 columns of 16 activation rows in bf16: the first operand of a tile product.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Bf16Group {
    /// `[row][column]`.
    pub rows: [[u16; GROUP]; BLOCK_ROWS],
}

/// Largest code of a pair: `256 · 127 + 127`.
pub const PAIR_MAX: i32 = 256 * 127 + 127;

/// Splits a code within ±[`PAIR_MAX`] into `(q, q')` with `256 q + q'` next to it: exact but where `q'` would be -128.
#[inline(always)]
pub fn split_pair(code: i32) -> (i32, i32) {
    let q = (code + 128) >> 8;
    (q, (code - 256 * q).max(-127))
}

/// Quantises `x`, 32 columns of one row, into row `row` of a group of one or two planes.
#[inline(always)]
fn set_row(planes: &mut [I8Group], row: usize, x: &[f32; GROUP]) {
    let (scale, most) = match planes.len() {
        1 => (RowScale::of(x), 127),
        _ => (RowScale::of(x).in_256_steps(), PAIR_MAX),
    };
    if scale.is_zero() {
        for plane in planes {
            plane.clear_codes(row);
            plane.scales[row] = scale.scale;
        }
        return;
    }
    let codes: [i32; GROUP] = std::array::from_fn(|i| scale.code_within(x[i], most));
    let [first, rest @ ..] = planes else { return };
    first.scales[row] = scale.scale;
    let [second] = rest else {
        first.codes[row] = codes.map(|code| code as i8);
        return first.set_sums(row, halves(&codes));
    };
    let pairs = codes.map(split_pair);
    first.codes[row] = pairs.map(|(q, _)| q as i8);
    second.codes[row] = pairs.map(|(_, rest)| rest as i8);
    first.set_sums(row, halves(&pairs.map(|(q, rest)| 256 * q + rest)));
}

/// Sums of both halves of a group.
#[inline(always)]
fn halves(codes: &[i32; GROUP]) -> [i32; 2] {
    [codes[..16].iter().sum(), codes[16..].iter().sum()]
}

impl I8Group {
    /// Stores what follows from the sums of both halves of a row's codes (of a pair: both planes together).
    #[inline(always)]
    pub fn set_sums(&mut self, row: usize, [low, high]: [i32; 2]) {
        for (which, sum) in [low, high, low + high].into_iter().enumerate() {
            self.sums[which][row] = sum as f32;
            self.minus_8_sums[which][row] = -8 * sum;
            self.minus_128_sums[which][row] = -128 * sum;
        }
    }

    /// Makes a row's codes zero and leaves its scale.
    #[inline(always)]
    pub fn clear_codes(&mut self, row: usize) {
        self.codes[row] = [0; GROUP];
        self.set_sums(row, [0; 2]);
    }

    /// Makes a row zero.
    #[inline(always)]
    pub fn clear_row(&mut self, row: usize) {
        self.scales[row] = 0.0;
        self.clear_codes(row);
    }
}

/// Quantises up to 16 rows `x: [rows, cols]` into one block of `planes` (1 or 2) codes a number; `cols` is a multiple of 32.
#[inline(always)]
pub fn quantise_block(block: &mut [I8Group], x: &[f32], cols: usize, planes: usize) {
    let rows = x.len() / cols;
    for (g, group) in block.chunks_exact_mut(planes).enumerate() {
        for row in 0..rows {
            let start = row * cols + g * GROUP;
            if let Some(columns) = x[start..].first_chunk() {
                set_row(group, row, columns);
            }
        }
        for row in rows..rows.next_power_of_two() {
            group.iter_mut().for_each(|plane| plane.clear_row(row));
        }
    }
}

/// 64 columns of 16 activation rows in int8, for row-scaled weights; columns past the end are zero.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct RowSpan(pub [[i8; ROW_SPAN]; BLOCK_ROWS]);

/// What 16 activation rows of row-scaled codes have in common over all columns.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct RowHead {
    /// `absmax / 127` of each row; NaN if a value is not finite.
    pub scales: [f32; BLOCK_ROWS],
    /// `-128 ·` the sum of the row's codes: undoes the bias of the stored weight codes.
    pub minus_128_sums: [i32; BLOCK_ROWS],
}

/// Quantises up to 16 rows `x: [rows, cols]` under one scale each; `spans` holds one entry per 64 columns.
#[inline(always)]
pub fn quantise_rows(head: &mut RowHead, spans: &mut [RowSpan], x: &[f32], cols: usize) {
    let rows = x.len() / cols;
    for row in 0..rows.next_power_of_two() {
        let x = x.get(row * cols..(row + 1) * cols).unwrap_or(&[]);
        let scale = RowScale::of(x);
        let mut sum = 0;
        for (index, span) in spans.iter_mut().enumerate() {
            let codes = &mut span.0[row];
            let columns = x.get(index * ROW_SPAN..).unwrap_or(&[]);
            sum += match columns.first_chunk() {
                Some(columns) => quantise_span(codes, columns, scale),
                None => {
                    let mut padded = [0.0; ROW_SPAN];
                    padded[..columns.len()].copy_from_slice(columns);
                    quantise_span(codes, &padded, scale)
                }
            };
        }
        head.scales[row] = scale.scale;
        head.minus_128_sums[row] = -128 * sum;
    }
}

/// Codes of 64 columns of a row; returns their sum.
#[inline(always)]
fn quantise_span(codes: &mut [i8; ROW_SPAN], x: &[f32; ROW_SPAN], scale: RowScale) -> i32 {
    if scale.is_zero() {
        *codes = [0; ROW_SPAN];
        return 0;
    }
    let rounded: [i32; ROW_SPAN] = std::array::from_fn(|i| scale.code(x[i]));
    *codes = rounded.map(|code| code as i8);
    rounded.iter().sum()
}

/// Packs up to 8 rows `x: [rows, cols]` into one float block, rounded to bf16 or as they are.
#[inline(always)]
pub fn pack_block(block: &mut [f32], x: &[f32], cols: usize, rounding: Rounding) {
    let rows = x.len() / cols;
    match rows {
        1 => block[..cols].copy_from_slice(x),
        2 => interleave::<2>(block, x, cols),
        3..=4 => interleave::<4>(block, x, cols),
        _ => interleave::<8>(block, x, cols),
    }
    block[cols * rows.next_power_of_two()..].fill(0.0);
    if rounding == Rounding::Bf16 {
        for value in block {
            *value = bf16_round(*value);
        }
    }
}

/// `[rows, cols]` to `[cols][R]`; rows past the end are zero.
#[inline(always)]
fn interleave<const R: usize>(block: &mut [f32], x: &[f32], cols: usize) {
    let rows: [&[f32]; R] =
        std::array::from_fn(|row| x.get(row * cols..(row + 1) * cols).unwrap_or(&[]));
    for (k, place) in block
        .as_chunks_mut::<R>()
        .0
        .iter_mut()
        .enumerate()
        .take(cols)
    {
        for (place, row) in place.iter_mut().zip(rows) {
            *place = row.get(k).copied().unwrap_or(0.0);
        }
    }
}

/// Packs up to 16 rows `x: [rows, cols]` into one block of tiles, rounded to bf16; padding rows and columns are zero.
#[inline(always)]
pub fn pack_tiles(block: &mut [Bf16Group], x: &[f32], cols: usize) {
    for (g, group) in block.iter_mut().enumerate() {
        let columns = g * GROUP..cols.min((g + 1) * GROUP);
        let mut rows = x.chunks_exact(cols);
        for place in &mut group.rows {
            let values = rows.next().map_or(&[][..], |row| &row[columns.clone()]);
            match values.first_chunk::<GROUP>() {
                Some(whole) => *place = whole.map(bf16_bits),
                None => {
                    *place = [0; GROUP];
                    for (place, value) in place.iter_mut().zip(values) {
                        *place = bf16_bits(*value);
                    }
                }
            }
        }
    }
}

/// What happens to a float activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Rounded to bf16.
    Bf16,
    /// Left as it is.
    None,
}

#[cfg(test)]
mod tests {
    use ucuz_tensor::numerics::CODE_ABSMAX_MIN;

    use super::*;

    fn quantise(x: &[f32; GROUP]) -> I8Group {
        let mut block = [I8Group::zeroed()];
        quantise_block(&mut block, x, GROUP, 1);
        block[0]
    }

    fn ramp(scale: f32) -> [f32; GROUP] {
        std::array::from_fn(|i| (i as f32 - 16.0) * scale)
    }

    #[test]
    fn codes_are_rounded_half_to_even_and_summed_per_half() {
        let mut x = [0.0; GROUP];
        x[..5].copy_from_slice(&[127.0, 0.5, 1.5, -2.5, -126.7]);
        x[31] = 3.0;
        let group = quantise(&x);
        assert_eq!(group.codes[0][..5], [127, 0, 2, -2, -127]);
        assert_eq!(group.scales[0], 1.0);
        assert_eq!(
            [group.sums[0][0], group.sums[1][0], group.sums[2][0]],
            [0.0, 3.0, 3.0]
        );
        assert_eq!(group.minus_8_sums[1][0], -24);
        assert_eq!(group.minus_128_sums[2][0], -384);
    }

    #[test]
    fn extremes_have_their_rule() {
        let cases: [(f32, f32, i8); 6] = [
            (1.0, 16.0 / 127.0, -127),
            (f32::MAX / 16.0, f32::MAX / 127.0, -127),
            (CODE_ABSMAX_MIN / 16.0, CODE_ABSMAX_MIN / 127.0, -127),
            (CODE_ABSMAX_MIN / 17.0, 0.0, 0),
            (1e-42, 0.0, 0),
            (0.0, 0.0, 0),
        ];
        for (scale, expected, first) in cases {
            let group = quantise(&ramp(scale));
            assert_eq!(
                (group.scales[0], group.codes[0][0]),
                (expected, first),
                "{scale}"
            );
        }
    }

    #[test]
    fn a_value_that_is_not_finite_marks_its_group_with_nan() {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = ramp(1.0);
            x[7] = bad;
            let group = quantise(&x);
            assert!(group.scales[0].is_nan());
            assert_eq!(group.codes[0], [0; GROUP]);
        }
    }

    #[test]
    fn pairs_split_every_code_and_both_halves_stay_within_127() {
        for code in -PAIR_MAX..=PAIR_MAX {
            let (q, rest) = split_pair(code);
            assert!(q.abs() <= 127 && rest.abs() <= 127, "{code}");
            let off = 256 * q + rest - code;
            assert!(off == 0 || off == 1 && rest == -127, "{code}");
        }
    }

    #[test]
    fn a_pair_has_its_numbers_in_the_first_plane() {
        let mut block = [I8Group::zeroed(); 2];
        let mut x = [0.0; GROUP];
        x[..4].copy_from_slice(&[127.0, 0.5, -1.0 / 256.0, -100.25]);
        quantise_block(&mut block, &x, GROUP, 2);
        assert_eq!(block[0].codes[0][..4], [127, 1, 0, -100]);
        assert_eq!(block[1].codes[0][..4], [0, -127, -1, -64]);
        assert_eq!(block[0].scales[0], 1.0 / 256.0);
        let sum = 127 * 256 + (256 - 127) - 1 - (25_600 + 64);
        assert_eq!(block[0].sums[2][0], sum as f32);
    }

    #[test]
    fn float_blocks_interleave_rows_and_pad_with_zeros() {
        let x: Vec<f32> = (0..3 * 40).map(|i| i as f32 + 1.0 / 512.0).collect();
        let mut block = vec![f32::NAN; 64 * 4];
        pack_block(&mut block, &x, 40, Rounding::None);
        assert_eq!(block[39 * 4 + 2], x[2 * 40 + 39]);
        assert_eq!(block[39 * 4 + 3], 0.0);
        assert!(block[40 * 4..].iter().all(|v| *v == 0.0));
        pack_block(&mut block, &x, 40, Rounding::Bf16);
        assert_eq!(block[1], bf16_round(x[40]));
    }

    #[test]
    fn tiles_keep_rows_apart_and_pad_with_zeros() {
        let x: Vec<f32> = (0..3 * 40).map(|i| i as f32 + 1.0 / 512.0).collect();
        let mut block = [Bf16Group {
            rows: [[u16::MAX; GROUP]; BLOCK_ROWS],
        }; 2];
        pack_tiles(&mut block, &x, 40);
        assert_eq!(block[0].rows[2][31], bf16_bits(x[2 * 40 + 31]));
        assert_eq!(block[1].rows[1][7], bf16_bits(x[40 + 39]));
        assert_eq!(block[1].rows[1][8..], [0; 24]);
        assert_eq!(block[0].rows[3..], [[0; GROUP]; 13]);
        assert_eq!(block[1].rows[3..], [[0; GROUP]; 13]);
    }
}

//! Activation rows in the form that the linear kernels read: blocks of up to 16 rows, packed once per Weight call.
//!
//! ```text
//! int8   = blocks of 16 rows; a block is one I8Group per 32 columns
//! int12  = blocks of 16 rows; a block is one I12Group per 32 columns; a row's scale is that of 256 columns
//! rows   = blocks of 16 rows under one scale each: a RowHead, and one RowSpan per 64 columns
//! floats = blocks of 8 rows; a block of R rows (R = 1, 2, 4, 8) is [columns, padded to 32][R]
//! tiles  = blocks of 16 rows; a block is one Bf16Group per 32 columns, for tiers with a tile unit
//! ```
//! Rows that pad a block are zero. Here: the types and the portable packing, which every tier compiles for itself.

use bytemuck::{Pod, Zeroable};
use ucuz_tensor::format::{GROUP, SEGMENT};
use ucuz_tensor::layout::{PANEL_ROWS, ROW_SPAN};
use ucuz_tensor::numerics::RowScale;
use ucuz_tensor::numerics::{bf16_bits, bf16_round};

/// Activation rows of one int8 block, and of one [`Tile`].
pub const BLOCK_ROWS: usize = 16;
/// Activation rows of one float block: sixteen accumulators of even and odd sums is what the registers hold.
pub const FLOAT_ROWS: usize = 8;

/// Products of up to 16 activation rows with one panel: `[activation row][weight row]`.
pub type Tile = [[f32; PANEL_ROWS]; BLOCK_ROWS];

/// What 16 rows of codes have in common over one group, entry by entry a row.
///
/// Entry 0 and 1 of a triple is about the two halves of 16 columns, entry 2 about the whole group.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct About {
    /// What a code counts; NaN if a value under it is not finite, which makes all outputs of that row NaN.
    pub scales: [f32; BLOCK_ROWS],
    /// Sums of the codes, exact.
    pub sums: [[f32; BLOCK_ROWS]; 3],
    /// `-8 ·` the sums: undoes a bias of 8, to which AVX-512 lifts that of 3-bit codes.
    pub minus_8_sums: [[i32; BLOCK_ROWS]; 3],
    /// `-128 ·` the sums: undoes a bias of 128, to which it lifts that of 5- and 6-bit codes.
    pub minus_128_sums: [[i32; BLOCK_ROWS]; 3],
}

/// 32 columns of 16 activation rows in codes of one int8 digit (`Arithmetic::I8`).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct I8Group {
    /// `[row][digit][column]`, within ±127.
    pub codes: [[[i8; GROUP]; 1]; BLOCK_ROWS],
    /// The rest.
    pub about: About,
}

/// 32 columns of 16 activation rows in codes of two int8 digits, 16 of the second in one of the first (`Arithmetic::I12`).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct I12Group {
    /// `[row][digit][column]`, within ±127 and in -8 to 7: a row is one row of a tile.
    pub codes: [[[i8; GROUP]; 2]; BLOCK_ROWS],
    /// The rest.
    pub about: About,
}

/// A kind of integer codes, 32 columns of 16 rows at a time.
pub trait Codes: Pod + Send + Sync + std::fmt::Debug {
    /// int8 digits of a code.
    const DIGITS: usize;
    /// Groups under one scale.
    const SEGMENT: usize;
    /// Largest code that is made: `127`, times 16 with two digits.
    const MOST: i32;

    /// The scale of codes from that of codes within ±127.
    fn scale(of: RowScale) -> RowScale;
    /// The digits of a row, the first first.
    fn digits(&self, row: usize) -> &[[i8; GROUP]];
    /// The digits of all rows, `[row][digit][column]`.
    fn all_digits(&self) -> &[u8];
    /// The digits of a row, to be written.
    fn digits_mut(&mut self, row: usize) -> &mut [[i8; GROUP]];
    /// The rest.
    fn about(&self) -> &About;
    /// The same, to be written.
    fn about_mut(&mut self) -> &mut About;
}

macro_rules! codes {
    ($group:ident, $digits:literal, $segment:expr, $most:expr, $scale:expr) => {
        impl Codes for $group {
            const DIGITS: usize = $digits;
            const SEGMENT: usize = $segment;
            const MOST: i32 = $most;

            #[inline(always)]
            fn scale(of: RowScale) -> RowScale {
                $scale(of)
            }
            #[inline(always)]
            fn digits(&self, row: usize) -> &[[i8; GROUP]] {
                &self.codes[row]
            }
            #[inline(always)]
            fn all_digits(&self) -> &[u8] {
                bytemuck::bytes_of(&self.codes)
            }
            #[inline(always)]
            fn digits_mut(&mut self, row: usize) -> &mut [[i8; GROUP]] {
                &mut self.codes[row]
            }
            #[inline(always)]
            fn about(&self) -> &About {
                &self.about
            }
            #[inline(always)]
            fn about_mut(&mut self) -> &mut About {
                &mut self.about
            }
        }
    };
}

codes!(I8Group, 1, 1, 127, |scale| scale);
codes!(
    I12Group,
    2,
    SEGMENT / GROUP,
    16 * 127,
    RowScale::in_16_steps
);

/// 32 columns of 16 activation rows in bf16: the first operand of a tile product.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Bf16Group {
    /// `[row][column]`.
    pub rows: [[u16; GROUP]; BLOCK_ROWS],
}

/// Splits a code within ±2039 into `(q, q')` with `16 q + q'` equal to it, `q'` in -8 to 7.
#[inline(always)]
pub fn split(code: i32) -> (i32, i32) {
    let q = (code + 8) >> 4;
    (q, code - 16 * q)
}

/// Quantises `x`, the columns of a segment of one row, into row `row` of its groups.
#[inline(always)]
fn set_row<X: Codes>(groups: &mut [X], row: usize, x: &[f32]) {
    let scale = X::scale(RowScale::of(x));
    for (group, x) in groups.iter_mut().zip(x.as_chunks::<GROUP>().0) {
        group.about_mut().scales[row] = scale.scale;
        if scale.is_zero() {
            clear_codes(group, row);
            continue;
        }
        let codes: [i32; GROUP] = std::array::from_fn(|i| scale.code_within(x[i], X::MOST));
        match group.digits_mut(row) {
            [only] => *only = codes.map(|code| code as i8),
            [first, second, ..] => {
                *first = codes.map(|code| split(code).0 as i8);
                *second = codes.map(|code| split(code).1 as i8);
            }
            [] => {}
        }
        group.about_mut().set_sums(row, halves(&codes));
    }
}

/// Sums of both halves of a group.
#[inline(always)]
fn halves(codes: &[i32; GROUP]) -> [i32; 2] {
    [codes[..16].iter().sum(), codes[16..].iter().sum()]
}

impl About {
    /// Stores what follows from the sums of both halves of a row's codes.
    #[inline(always)]
    pub fn set_sums(&mut self, row: usize, [low, high]: [i32; 2]) {
        for (which, sum) in [low, high, low + high].into_iter().enumerate() {
            self.sums[which][row] = sum as f32;
            self.minus_8_sums[which][row] = -8 * sum;
            self.minus_128_sums[which][row] = -128 * sum;
        }
    }
}

/// Makes a row's codes zero and leaves its scale.
#[inline(always)]
pub fn clear_codes<X: Codes>(group: &mut X, row: usize) {
    group.digits_mut(row).fill([0; GROUP]);
    group.about_mut().set_sums(row, [0; 2]);
}

/// Makes a row zero.
#[inline(always)]
pub fn clear_row<X: Codes>(group: &mut X, row: usize) {
    group.about_mut().scales[row] = 0.0;
    clear_codes(group, row);
}

/// Quantises up to 16 rows `x: [rows, cols]` into one block; `cols` is a multiple of 32.
#[inline(always)]
pub fn quantise_block<X: Codes>(block: &mut [X], x: &[f32], cols: usize) {
    let rows = x.len() / cols;
    for (segment, groups) in block.chunks_mut(X::SEGMENT).enumerate() {
        for row in 0..rows {
            let columns = &x[row * cols + segment * X::SEGMENT * GROUP..];
            set_row(groups, row, &columns[..groups.len() * GROUP]);
        }
        for row in rows..rows.next_power_of_two() {
            groups.iter_mut().for_each(|group| clear_row(group, row));
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
        quantise_block(&mut block, x, GROUP);
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
        assert_eq!(group.codes[0][0][..5], [127, 0, 2, -2, -127]);
        assert_eq!(group.about.scales[0], 1.0);
        assert_eq!(
            [
                group.about.sums[0][0],
                group.about.sums[1][0],
                group.about.sums[2][0]
            ],
            [0.0, 3.0, 3.0]
        );
        assert_eq!(group.about.minus_8_sums[1][0], -24);
        assert_eq!(group.about.minus_128_sums[2][0], -384);
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
                (group.about.scales[0], group.codes[0][0][0]),
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
            assert!(group.about.scales[0].is_nan());
            assert_eq!(group.codes[0][0], [0; GROUP]);
        }
    }

    #[test]
    fn every_code_of_twelve_bits_is_its_two_digits() {
        for code in -I12Group::MOST - 7..=I12Group::MOST + 7 {
            let (q, rest) = split(code);
            assert!(q.abs() <= 127 && (-8..8).contains(&rest), "{code}");
            assert_eq!(16 * q + rest, code);
        }
    }

    #[test]
    fn a_segment_shares_its_scale_and_the_next_has_its_own() {
        const COLS: usize = SEGMENT + GROUP;
        let mut block = [I12Group::zeroed(); COLS / GROUP];
        let mut x = [0.0; COLS];
        x[..4].copy_from_slice(&[127.0, 0.5, -1.0 / 16.0, -100.25]);
        x[SEGMENT - 1] = 1.0;
        x[SEGMENT] = 254.0;
        quantise_block(&mut block, &x, COLS);
        assert_eq!(block[0].codes[0][0][..4], [127, 1, 0, -100]);
        assert_eq!(block[0].codes[0][1][..4], [0, -8, -1, -4]);
        assert_eq!(block[0].about.sums[2][0], (127 * 16 + 8 - 1 - 1604) as f32);
        assert_eq!(block[7].codes[0][0][31], 1);
        for group in &block[..8] {
            assert_eq!(group.about.scales[0], 1.0 / 16.0);
        }
        assert_eq!(block[8].about.scales[0], 1.0 / 8.0);
        assert_eq!(block[8].codes[0][0][0], 127);
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

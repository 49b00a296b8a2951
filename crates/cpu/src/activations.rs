//! Activation rows in the form that the linear kernels read: blocks of up to 16 rows, packed once per Weight call.
//!
//! ```text
//! int8   = blocks of 16 rows; a block is one I8Group per plane and 32 columns: columns ascending, planes of one group together
//! floats = blocks of 8 rows; a block of R rows (R = 1, 2, 4, 8) is [columns, padded to 32][R]
//! tiles  = blocks of 16 rows; a block is one Bf16Group per 32 columns, for tiers with a tile unit
//! ```
//! Rows that pad a block are zero. Here: the types and the portable packing, which every tier compiles for itself.

use bytemuck::{Pod, Zeroable};
use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;
use ucuz_tensor::numerics::{bf16_bits, bf16_round};

/// Activation rows of one int8 block, and of one [`Tile`].
pub const BLOCK_ROWS: usize = 16;
/// Activation rows of one float block: sixteen accumulators of even and odd sums is what the registers hold.
pub const FLOAT_ROWS: usize = 8;

/// Products of up to 16 activation rows with one panel: `[activation row][weight row]`.
pub type Tile = [[f32; PANEL_ROWS]; BLOCK_ROWS];

/// 32 columns of 16 activation rows in int8, with everything about them that kernels need.
///
/// Entry 0 and 1 of a triple is about the two halves of 16 columns, entry 2 about the whole group.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct I8Group {
    /// `[row][column]`, within ±127.
    pub codes: [[i8; GROUP]; BLOCK_ROWS],
    /// `absmax / 127` of each row; NaN if a value is not finite, which makes all outputs of that row NaN.
    pub scales: [f32; BLOCK_ROWS],
    /// Sums of the codes, exact.
    pub sums: [[f32; BLOCK_ROWS]; 3],
    /// `-8 ·` the sums: undoes the bias of stored signed 4-bit codes.
    pub minus_8_sums: [[i32; BLOCK_ROWS]; 3],
    /// `-128 ·` the sums: undoes the bias of stored 8-bit codes.
    pub minus_128_sums: [[i32; BLOCK_ROWS]; 3],
}

/// 32 columns of 16 activation rows in bf16: the first operand of a tile product.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Bf16Group {
    /// `[row][column]`.
    pub rows: [[u16; GROUP]; BLOCK_ROWS],
}

/// Rows below this are zero after quantisation: 2^-100, so that `127 / absmax` stays far from infinity.
const ABSMAX_MIN: f32 = f32::from_bits((127 - 100) << 23);
/// `1.5 · 2^23`: adding it rounds a number of magnitude below 2^22 to an integer, half to even, in the low bits.
const ROUNDING: f32 = 12_582_912.0;

/// Scale of 32 columns of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowScale {
    /// `absmax / 127`; 0 when all is (nearly) zero, NaN when a value is not finite.
    pub scale: f32,
    /// `127 / absmax`; 0 in the two other cases.
    pub inverse: f32,
}

impl RowScale {
    /// From the largest magnitude, given by its bits: they are ordered as the magnitudes are, infinity and NaN on top.
    #[inline(always)]
    pub fn of_peak(bits: u32) -> Self {
        let absmax = f32::from_bits(bits);
        if bits >= f32::INFINITY.to_bits() {
            Self {
                scale: f32::NAN,
                inverse: 0.0,
            }
        } else if absmax < ABSMAX_MIN {
            Self {
                scale: 0.0,
                inverse: 0.0,
            }
        } else {
            Self {
                scale: absmax / 127.0,
                inverse: 127.0 / absmax,
            }
        }
    }

    /// Whether all codes are zero.
    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        self.inverse == 0.0
    }
}

impl I8Group {
    /// Quantises `x`, 32 columns of one row, into row `row`; what is left of `x` is what the rounding lost.
    #[inline(always)]
    fn set_row(&mut self, row: usize, x: &mut [f32; GROUP]) {
        let mut peak = 0;
        for value in &*x {
            peak = (value.to_bits() & 0x7fff_ffff).max(peak);
        }
        let scale = RowScale::of_peak(peak);
        self.scales[row] = scale.scale;
        if scale.is_zero() {
            return self.clear_codes(row);
        }
        let mut codes = [0i32; GROUP];
        for (code, value) in codes.iter_mut().zip(x) {
            let rounded = (*value * scale.inverse + ROUNDING).to_bits() as i32;
            *code = (rounded - ROUNDING.to_bits() as i32).clamp(-127, 127);
            *value -= scale.scale * *code as f32;
        }
        self.codes[row] = codes.map(|code| code as i8);
        self.set_sums(row, [codes[..16].iter().sum(), codes[16..].iter().sum()]);
    }

    /// Stores what follows from the sums of both halves of a row's codes.
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
                let mut left = *columns;
                group
                    .iter_mut()
                    .for_each(|plane| plane.set_row(row, &mut left));
            }
        }
        for row in rows..rows.next_power_of_two() {
            group.iter_mut().for_each(|plane| plane.clear_row(row));
        }
    }
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
            (ABSMAX_MIN / 16.0, ABSMAX_MIN / 127.0, -127),
            (ABSMAX_MIN / 17.0, 0.0, 0),
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

//! Float weights: `Arithmetic::Bf16` and `Arithmetic::F32`.
//!
//! Per span of 32 columns even and odd columns are summed apart, ascending, then `acc = acc + (even + odd)`.

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;

use crate::table::FloatCall;

type Lanes = [f32; PANEL_ROWS];

/// How two consecutive columns of a panel are stored.
pub trait Columns {
    /// Bytes of two columns.
    const PAIR_BYTES: usize;
    /// The even and the odd column.
    fn pair(bytes: &[u8]) -> [Lanes; 2];
}

/// bf16, even and odd column side by side.
#[derive(Debug)]
pub struct Bf16Columns;

impl Columns for Bf16Columns {
    const PAIR_BYTES: usize = PANEL_ROWS * 4;

    #[inline(always)]
    fn pair(bytes: &[u8]) -> [Lanes; 2] {
        let mut pair = [[0.0; PANEL_ROWS]; 2];
        for (lane, both) in bytes.as_chunks::<4>().0.iter().enumerate().take(PANEL_ROWS) {
            let both = u32::from_le_bytes(*both);
            pair[0][lane] = f32::from_bits(both << 16);
            pair[1][lane] = f32::from_bits(both & 0xffff_0000);
        }
        pair
    }
}

/// f16, column by column.
#[derive(Debug)]
pub struct F16Columns;

impl Columns for F16Columns {
    const PAIR_BYTES: usize = PANEL_ROWS * 4;

    #[inline(always)]
    fn pair(bytes: &[u8]) -> [Lanes; 2] {
        let mut pair = [[0.0; PANEL_ROWS]; 2];
        for (at, number) in bytes
            .as_chunks::<2>()
            .0
            .iter()
            .enumerate()
            .take(2 * PANEL_ROWS)
        {
            pair[at / PANEL_ROWS][at % PANEL_ROWS] = f16_value(u16::from_le_bytes(*number));
        }
        pair
    }
}

/// f32, column by column.
#[derive(Debug)]
pub struct F32Columns;

impl Columns for F32Columns {
    const PAIR_BYTES: usize = PANEL_ROWS * 8;

    #[inline(always)]
    fn pair(bytes: &[u8]) -> [Lanes; 2] {
        let mut pair = [[0.0; PANEL_ROWS]; 2];
        for (at, number) in bytes
            .as_chunks::<4>()
            .0
            .iter()
            .enumerate()
            .take(2 * PANEL_ROWS)
        {
            pair[at / PANEL_ROWS][at % PANEL_ROWS] = f32::from_le_bytes(*number);
        }
        pair
    }
}

/// The number that f16 bits stand for, exactly and without a branch.
///
/// Moving exponent and fraction into place leaves the exponent 112 too small; the product with 2^112 is exact and turns
/// denormals into what they mean. Infinity and NaN take the largest exponent instead.
#[inline(always)]
pub fn f16_value(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let special = f32::from_bits(magnitude | 0x7f80_0000);
    let value = if magnitude >= 0x0f80_0000 {
        special
    } else {
        finite
    };
    f32::from_bits(value.to_bits() | (bits & 0x8000) << 16)
}

/// Products of one float panel with up to 8 activation rows.
#[inline(always)]
pub fn linear_float<C: Columns>(tile: &mut [Lanes], call: &FloatCall<'_>) {
    match call.rows {
        1 => product::<C, 1>(tile, call),
        2 => product::<C, 2>(tile, call),
        3..=4 => product::<C, 4>(tile, call),
        _ => product::<C, 8>(tile, call),
    }
}

#[inline(always)]
fn product<C: Columns, const R: usize>(tile: &mut [Lanes], call: &FloatCall<'_>) {
    let mut acc = [[0.0; PANEL_ROWS]; R];
    let spans = call.panel.chunks_exact(C::PAIR_BYTES * GROUP / 2);
    for (span, x) in spans.zip(call.x.chunks_exact(GROUP * R)) {
        let mut even = [[0.0; PANEL_ROWS]; R];
        let mut odd = [[0.0; PANEL_ROWS]; R];
        for (bytes, x) in span.chunks_exact(C::PAIR_BYTES).zip(x.chunks_exact(2 * R)) {
            let w = C::pair(bytes);
            for row in 0..R {
                for lane in 0..PANEL_ROWS {
                    even[row][lane] += w[0][lane] * x[row];
                    odd[row][lane] += w[1][lane] * x[R + row];
                }
            }
        }
        for row in 0..R {
            for lane in 0..PANEL_ROWS {
                acc[row][lane] += even[row][lane] + odd[row][lane];
            }
        }
    }
    tile[..R].copy_from_slice(&acc);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_values_are_exact_for_all_bits() {
        for bits in 0..=u16::MAX {
            let expected = half::f16::from_bits(bits).to_f32();
            let value = f16_value(bits);
            assert!(
                value == expected || value.is_nan() && expected.is_nan(),
                "{bits:04x}"
            );
            assert_eq!(value.is_sign_negative(), bits >> 15 == 1);
        }
    }
}

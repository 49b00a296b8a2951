//! Rounding to bf16.

/// Numbers below this in magnitude round to zero as bf16 operands: 2^-48.
///
/// Tile units flush denormals; with both factors zero or at least 2^-48, no product and no partial sum of a dot product
/// comes near the denormals, so IEEE arithmetic equals the tiles'.
pub const BF16_TINY: f32 = f32::from_bits((127 - 48) << 23);

/// Rounds to bf16, half to even; below 2^-48 in magnitude it is `+0`. NaN stays NaN (quiet), infinities stay.
#[inline(always)]
pub fn bf16_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let even = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    let quiet = (bits >> 16) as u16 | 0x40;
    let rounded = if magnitude > 0x7f80_0000 { quiet } else { even };
    if magnitude < BF16_TINY.to_bits() {
        0
    } else {
        rounded
    }
}

/// The number that bf16 bits stand for.
#[inline(always)]
pub fn bf16_value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `bf16_value(bf16_bits(x))`.
#[inline(always)]
pub fn bf16_round(x: f32) -> f32 {
    bf16_value(bf16_bits(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_agrees_with_the_half_crate_outside_of_the_flush() {
        let mut bits: u32 = 1;
        for _ in 0..2_000_000 {
            bits = bits.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            let x = f32::from_bits(bits);
            if x.is_nan() {
                assert!(bf16_round(x).is_nan(), "{bits:08x}");
            } else if x.abs() < BF16_TINY {
                assert_eq!(bf16_bits(x), 0, "{bits:08x}");
            } else {
                assert_eq!(
                    bf16_bits(x),
                    half::bf16::from_f32(x).to_bits(),
                    "{bits:08x}"
                );
            }
        }
    }

    #[test]
    fn special_values_keep_their_meaning() {
        assert_eq!(BF16_TINY, 2f32.powi(-48));
        for (x, bits) in [
            (0.0, 0),
            (-0.0, 0),
            (BF16_TINY, 0x2780),
            (-BF16_TINY, 0xa780),
            (f32::from_bits(BF16_TINY.to_bits() - 1), 0),
            (-1e-40, 0),
            (f32::INFINITY, 0x7f80),
            (f32::NEG_INFINITY, 0xff80),
            (f32::MAX, 0x7f80),
            (1.0 + 1.0 / 256.0, 0x3f80),
            (1.0 + 3.0 / 256.0, 0x3f82),
        ] {
            assert_eq!(bf16_bits(x), bits, "{x}");
        }
    }
}

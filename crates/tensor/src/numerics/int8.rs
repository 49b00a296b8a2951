//! Numbers to int8 codes under one scale.

/// Numbers whose largest magnitude is below this are all zero as codes: 2^-100, so that `127 / absmax` stays far from
/// infinity.
pub const CODE_ABSMAX_MIN: f32 = f32::from_bits((127 - 100) << 23);

/// `1.5 · 2^23`: adding it rounds a number of magnitude below 2^22 to an integer, half to even, in the low bits.
const ROUNDING: f32 = 12_582_912.0;

/// The scale that some numbers of one row share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowScale {
    /// `absmax / 127`; 0 when all is (nearly) zero, NaN when a value is not finite.
    pub scale: f32,
    /// `127 / absmax`; 0 in the two other cases.
    pub inverse: f32,
}

impl RowScale {
    /// One a step.
    pub const UNIT: Self = Self {
        scale: 1.0,
        inverse: 1.0,
    };

    /// Of these numbers.
    #[inline(always)]
    pub fn of(x: &[f32]) -> Self {
        let mut peak = 0;
        for value in x {
            peak = (value.to_bits() & 0x7fff_ffff).max(peak);
        }
        Self::of_peak(peak)
    }

    /// From the largest magnitude, given by its bits: they are ordered as the magnitudes are, infinity and NaN on top.
    #[inline(always)]
    pub fn of_peak(bits: u32) -> Self {
        let absmax = f32::from_bits(bits);
        if bits >= f32::INFINITY.to_bits() {
            Self {
                scale: f32::NAN,
                inverse: 0.0,
            }
        } else if absmax < CODE_ABSMAX_MIN {
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

    /// The same with 16 steps where there was one, for codes of twelve bits: exact.
    #[inline(always)]
    pub fn in_16_steps(self) -> Self {
        Self {
            scale: self.scale / 16.0,
            inverse: self.inverse * 16.0,
        }
    }

    /// Whether all codes are zero.
    #[inline(always)]
    pub fn is_zero(&self) -> bool {
        self.inverse == 0.0
    }

    /// The code of one of the numbers, within ±127: `x · inverse`, rounded half to even. Not for a scale that is zero or
    /// NaN, see [`RowScale::is_zero`].
    #[inline(always)]
    pub fn code(&self, x: f32) -> i32 {
        self.code_within(x, 127)
    }

    /// As [`RowScale::code`]; 0 under a scale that is zero or NaN.
    #[inline(always)]
    pub fn code_or_zero(&self, x: f32) -> i8 {
        if self.is_zero() {
            0
        } else {
            self.code(x) as i8
        }
    }

    /// As [`RowScale::code`], within ±`most`, which is below 2^22.
    #[inline(always)]
    pub fn code_within(&self, x: f32, most: i32) -> i32 {
        let rounded = (x * self.inverse + ROUNDING).to_bits() as i32;
        (rounded - ROUNDING.to_bits() as i32).clamp(-most, most)
    }
}

#[cfg(test)]
mod tests {
    use super::{CODE_ABSMAX_MIN, RowScale};

    #[test]
    fn codes_are_rounded_half_to_even_within_127() {
        for absmax in [127.0, 1.0, 3.7e-20, CODE_ABSMAX_MIN, f32::MAX] {
            let unit = absmax / 127.0;
            let scale = RowScale::of(&[unit, -absmax, 0.0]);
            assert_eq!(scale.scale, unit);
            for (x, code) in [(absmax, 127), (-absmax, -127), (0.0, 0), (2.4 * unit, 2)] {
                assert_eq!(scale.code(x), code, "{x} of {absmax}");
            }
        }
        let scale = RowScale::of(&[-127.0]);
        for (x, code) in [(0.5, 0), (1.5, 2), (-2.5, -2), (-126.6, -127)] {
            assert_eq!(scale.code(x), code, "{x}");
        }
    }

    #[test]
    fn what_has_no_scale_says_so() {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let scale = RowScale::of(&[1.0, bad]);
            assert!(scale.scale.is_nan() && scale.is_zero());
        }
        for tiny in [0.0, -0.0, 1e-42, CODE_ABSMAX_MIN / 1.5] {
            let scale = RowScale::of(&[tiny, 0.0]);
            assert!(scale.scale == 0.0 && scale.is_zero());
        }
        assert!(!RowScale::of(&[CODE_ABSMAX_MIN]).is_zero());
        assert!(RowScale::of(&[]).is_zero());
    }
}

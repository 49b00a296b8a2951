//! The natural logarithm.

/// `ln x`. Zero gives minus infinity, negative numbers and NaN give NaN; denormals are exact inputs like any other.
///
/// `x = 2^n m` with `m` in `[sqrt(1/2), sqrt(2))`, `r = m - 1` exact, then
/// `(n · LN2_LOW + (r³ P(r) - r²/2)) + r + n · LN2_HIGH`; near 1 `n` is 0 and the result keeps its relative accuracy.
/// Largest error 1 ulp (see the test).
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let lifted = if denormal { x * 16_777_216.0 } else { x };
    let shift = if denormal { 24.0 } else { 0.0 };
    let offset = lifted.to_bits().wrapping_sub(SQRT_HALF);
    let n = ((offset as i32) >> 23) as f32 - shift;
    let m = f32::from_bits((offset & 0x007f_ffff).wrapping_add(SQRT_HALF));
    let r = m - 1.0;
    let mut p = LN[0];
    p = p * r + LN[1];
    p = p * r + LN[2];
    p = p * r + LN[3];
    p = p * r + LN[4];
    p = p * r + LN[5];
    p = p * r + LN[6];
    p = p * r + LN[7];
    p = p * r + LN[8];
    let square = r * r;
    let tail = (square * r) * p - 0.5 * square;
    let value = ((n * LN2_LOW + tail) + r) + n * LN2_HIGH;
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f32::NAN }
}

/// Bits of `sqrt(1/2)`, where the exponent of `m` changes.
const SQRT_HALF: u32 = 0x3f35_04f3;
/// The first 9 bits of `ln 2`.
const LN2_HIGH: f32 = 355.0 / 512.0;
/// `ln 2 - LN2_HIGH`.
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Coefficients of `(ln(1 + r) - r + r²/2) / r³` on `[sqrt(1/2) - 1, sqrt(2) - 1]`, highest power first (own Remez fit).
const LN: [f32; 9] = [
    0.069_155_514,
    -0.117_898_57,
    0.118_729_17,
    -0.123_843_364,
    0.142_186_66,
    -0.166_692_53,
    0.200_022_27,
    -0.249_999_87,
    0.333_333_1,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_stays_within_the_documented_bound() {
        let mut worst = (0.0, 0.0);
        let mut check = |x: f32| {
            let exact = f64::from(x).ln();
            let ulp = 2f64.powi((exact.abs().log2().floor() as i32).max(-126) - 23);
            let error = (f64::from(ln(x)) - exact).abs() / ulp;
            if error > worst.0 {
                worst = (error, x);
            }
        };
        for bits in (1..0x7f80_0000u32).step_by(1009) {
            check(f32::from_bits(bits));
        }
        for bits in 0x3f00_0000..0x3fc0_0000u32 {
            if bits != 0x3f80_0000 {
                check(f32::from_bits(bits));
            }
        }
        println!("ln: {:.3} ulp at {:e}", worst.0, worst.1);
        assert!(worst.0 <= 1.0, "{worst:?}");
    }

    #[test]
    fn ends_of_the_range_are_defined() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(0.0), f32::NEG_INFINITY);
        assert_eq!(ln(f32::INFINITY), f32::INFINITY);
        assert!(ln(-1.0).is_nan() && ln(f32::NAN).is_nan() && ln(f32::NEG_INFINITY).is_nan());
    }
}

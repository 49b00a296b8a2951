//! Exponentials and what is made of them.
//!
//! The polynomials are Remez fits of our own (relative error weighted as the function needs, double-checked against 40
//! digits), evaluated by Horner's rule: one multiplication and one addition a coefficient, each rounded.
//!
//! Largest errors against f64, checked by the tests below over their ranges: `exp2_fraction` 1.5 ulp, `exp` 1 ulp,
//! `sigmoid` and `silu` 2.5 ulp, `tanh` 1.5 ulp; `gelu_tanh` 2^-22 of `|x|`.

/// `log2(e)`.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// `1.5 · 2^23`: adding and subtracting it rounds a small number to the nearest integer.
const ROUNDER: f32 = 12_582_912.0;

/// Rounds to the nearest integer, half to even; exact for `|x| < 2^22`, without meaning beyond.
#[inline(always)]
pub fn round_even(x: f32) -> f32 {
    (x + ROUNDER) - ROUNDER
}

/// `2^n` for an integer `n` in `-126 ..= 127`; without meaning elsewhere.
#[inline(always)]
pub fn exp2_integer(n: f32) -> f32 {
    let bits = (n + ROUNDER).to_bits();
    f32::from_bits((bits << 23).wrapping_add(127 << 23))
}

/// `2^f` for `f` in `[0, 1]`; exactly 1 at 0.
#[inline(always)]
pub fn exp2_fraction(f: f32) -> f32 {
    let mut p = EXP2_FRACTION[0];
    p = p * f + EXP2_FRACTION[1];
    p = p * f + EXP2_FRACTION[2];
    p = p * f + EXP2_FRACTION[3];
    p = p * f + EXP2_FRACTION[4];
    p = p * f + EXP2_FRACTION[5];
    p * f + 1.0
}

/// Coefficients of `(2^f - 1) / f`, highest power first; relative error of `2^f` before rounding 2.1e-9.
pub const EXP2_FRACTION: [f32; 6] = [
    0.000_216_129_16,
    0.001_246_784_6,
    0.009_675_452,
    0.055_485_282,
    0.240_229_31,
    0.693_147_06,
];

/// `e^x`. Results below `e^-86` (4.5e-38) are `+0`, above the largest number infinity; NaN stays NaN.
///
/// `x = n ln 2 + r` with `ln 2` in two parts of which the first has few enough bits that `n` times it is exact, then
/// `1 + (r + r² q(r))`, then two exact multiplications by powers of two.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let n = round_even(x * LOG2_E);
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut q = EXP[0];
    q = q * r + EXP[1];
    q = q * r + EXP[2];
    q = q * r + EXP[3];
    q = q * r + EXP[4];
    let p = 1.0 + (r + r * r * q);
    let scaled = (p * exp2_integer(n - 1.0)) * 2.0;
    let low = if x < EXP_LOW { 0.0 } else { scaled };
    let high = if x > EXP_HIGH { f32::INFINITY } else { low };
    if x.is_nan() { x } else { high }
}

/// Coefficients of `(e^r - 1 - r) / r²` for `|r| <= ln 2 / 2`, highest power first; error of `e^r` 3.1e-9 relative.
const EXP: [f32; 5] = [
    0.001_381_459_9,
    0.008_368_717,
    0.041_668_39,
    0.166_665_21,
    0.499_999_94,
];
/// The first 9 bits of `ln 2`.
const LN2_HIGH: f32 = 355.0 / 512.0;
/// `ln 2 - LN2_HIGH`.
const LN2_LOW: f32 = -2.121_944_4e-4;
const EXP_LOW: f32 = -86.0;
/// Largest number whose exponential is finite.
const EXP_HIGH: f32 = 88.722_83;

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `x / (1 + e^-x)`, the SiLU or swish.
#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// GELU in its tanh form, `x/2 · (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`.
///
/// Computed as `x / (1 + e^y)` with `y = x (a + b x²)`, `a = -2 sqrt(2/π)`, `b = 0.044715 a`, which is the same function.
#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    let y = x * (GELU_A + GELU_B * (x * x));
    x / (1.0 + exp(y))
}

const GELU_A: f32 = -1.595_769;
const GELU_B: f32 = -0.071_354_814;

/// Hyperbolic tangent: a polynomial in `x²` below 0.625, else `1 - 2 / (e^2|x| + 1)` with the sign of `x`.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let z = x * x;
    let mut p = TANH[0];
    p = p * z + TANH[1];
    p = p * z + TANH[2];
    p = p * z + TANH[3];
    p = p * z + TANH[4];
    let near = x + x * (z * p);
    let far = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    if x.abs() < 0.625 {
        near
    } else {
        far.copysign(x)
    }
}

/// Coefficients of `(tanh(x)/x - 1) / x²` in `x²`, highest power first; error of `tanh` 4.2e-9 relative.
const TANH: [f32; 5] = [
    -0.005_716_81,
    0.020_650_387,
    -0.053_743_44,
    0.133_314_91,
    -0.333_332_84,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units of the last place of the exact value.
    fn ulps(got: f32, exact: f64) -> f64 {
        let ulp = 2f64.powi((exact.abs().log2().floor() as i32).max(-126) - 23);
        (f64::from(got) - exact).abs() / ulp
    }

    fn worst(range: (f32, f32), f: fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
        let steps = 2_000_000;
        let width = f64::from(range.1) - f64::from(range.0);
        (0..=steps)
            .map(|i| {
                let x = (f64::from(range.0) + width * f64::from(i) / f64::from(steps)) as f32;
                ulps(f(x), exact(f64::from(x)))
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn errors_stay_within_the_documented_bounds() {
        let sigmoid_exact = |x: f64| 1.0 / (1.0 + (-x).exp());
        let table = [
            (
                "exp2_fraction",
                1.5,
                worst((0.0, 1.0), exp2_fraction, f64::exp2),
            ),
            ("exp", 1.0, worst((-86.0, 88.7), exp, f64::exp)),
            ("exp near 0", 1.0, worst((-1.0, 1.0), exp, f64::exp)),
            ("sigmoid", 2.5, worst((-80.0, 80.0), sigmoid, sigmoid_exact)),
            (
                "silu",
                2.5,
                worst((-80.0, 80.0), silu, |x| x * sigmoid_exact(x)),
            ),
            ("tanh", 1.5, worst((-9.0, 9.0), tanh, f64::tanh)),
            ("tanh near 0", 1.0, worst((-0.01, 0.01), tanh, f64::tanh)),
        ];
        for (name, bound, measured) in table {
            println!("{name}: {measured:.3} ulp");
            assert!(measured <= bound, "{name}: {measured} ulp over {bound}");
        }
    }

    #[test]
    fn gelu_is_close_in_absolute_terms() {
        let exact = |x: f64| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        };
        let mut worst: f64 = 0.0;
        for i in -400_000..=400_000 {
            let x = i as f32 * 1e-4;
            let error = (f64::from(gelu_tanh(x)) - exact(f64::from(x))).abs();
            worst = worst.max(error / f64::from(x.abs()).max(1e-30));
        }
        println!("gelu_tanh: {worst:e} of |x|");
        assert!(worst < 2f64.powi(-22), "{worst:e}");
    }

    #[test]
    fn ends_of_the_range_are_defined() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp2_fraction(0.0), 1.0);
        assert_eq!(exp(-86.1), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(EXP_HIGH).is_finite());
        assert_eq!((sigmoid(-200.0), sigmoid(200.0)), (0.0, 1.0));
        assert_eq!((tanh(-20.0), tanh(20.0), tanh(0.0)), (-1.0, 1.0, 0.0));
        assert_eq!((gelu_tanh(100.0), gelu_tanh(-100.0)), (100.0, 0.0));
        assert_eq!((silu(100.0), silu(-100.0)), (100.0, 0.0));
        for f in [exp, sigmoid, silu, gelu_tanh, tanh] {
            assert!(f(f32::NAN).is_nan());
        }
        for n in -126..=127 {
            assert_eq!(exp2_integer(n as f32), 2f32.powi(n));
        }
    }
}

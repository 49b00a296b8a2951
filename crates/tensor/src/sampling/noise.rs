//! The noise of sampling and the two functions of one number that it needs, the same on every machine.
//!
//! Here: Philox4x32-10, Gumbel noise, `ln` in f64, `exp` in f32. Only additions, multiplications and divisions, never
//! fused, so that every IEEE machine gives the same bits. Not here: what is done with them (the parent module).

/// Multipliers and key increments of Philox4x32.
///
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; Random123 `philox.h`.
const PHILOX_MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const PHILOX_WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const PHILOX_ROUNDS: usize = 10;

/// No value of [`gumbel`] is above this: `-ln(-ln(1 - 2^-33)) = 22.87385...`.
pub(super) const GUMBEL_MAX: f64 = 22.874;

/// Which row the noise is for; with an id it names one number.
#[derive(Debug, Clone, Copy)]
pub(super) struct NoiseKey {
    /// Seed of the request.
    pub seed: u64,
    /// Which of its `n` samples.
    pub sample: u32,
    /// Position of the token to be chosen.
    pub position: u32,
}

impl NoiseKey {
    /// Random bits of ids `4 block .. 4 block + 4`: counter `(block, position, sample, 0)`, key `seed`.
    pub(super) fn bits(&self, block: u32) -> [u32; 4] {
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        philox([block, self.position, self.sample, 0], key)
    }
}

fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..PHILOX_ROUNDS {
        let low = u64::from(counter[0]) * u64::from(PHILOX_MULTIPLIERS[0]);
        let high = u64::from(counter[2]) * u64::from(PHILOX_MULTIPLIERS[1]);
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
        key = [
            key[0].wrapping_add(PHILOX_WEYL[0]),
            key[1].wrapping_add(PHILOX_WEYL[1]),
        ];
    }
    counter
}

/// Standard Gumbel noise from 32 random bits: `-ln(-ln(u))` with `u = (bits + 1/2) / 2^32`, inside of (0, 1).
pub(super) fn gumbel(bits: u32) -> f64 {
    let uniform = (f64::from(bits) + 0.5) * (1.0 / 4_294_967_296.0);
    -ln(-ln(uniform))
}

/// Least bits whose noise may exceed `wanted`: smaller bits surely do not.
///
/// `-ln(-ln u) > d` needs `1 - u < 1 - exp(-exp(-d)) <= exp(-d)`. The slack covers the error of [`exp`].
pub(super) fn least_bits(wanted: f64) -> u32 {
    let tail = f64::from(exp(-(wanted.clamp(-1.0, 80.0) as f32))) * 1.001;
    let bits = 4_294_967_296.0 * (1.0 - tail) - 2.0;
    if bits <= 0.0 { 0 } else { bits as u32 }
}

/// Natural logarithm of a positive, normal number; below 1 ulp.
///
/// Source: FreeBSD msun `e_log.c` (Sun Microsystems 1993): reduction to `[sqrt(2)/2, sqrt(2))`, then a Remez polynomial.
pub(super) fn ln(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    const ODD: [f64; 4] = [
        6.666_666_666_666_735e-1,
        2.857_142_874_366_239e-1,
        1.818_357_216_161_805e-1,
        1.479_819_860_511_658_6e-1,
    ];
    const EVEN: [f64; 3] = [
        3.999_999_999_940_942e-1,
        2.222_219_843_214_978_4e-1,
        1.531_383_769_920_937_3e-1,
    ];
    debug_assert!(x.is_normal() && x > 0.0, "ln of {x}");
    // Moving sqrt(2)/2 to a power of two splits the exponent so that the mantissa lands in [sqrt(2)/2, sqrt(2)).
    let shifted = x
        .to_bits()
        .wrapping_add(0x3ff0_0000_0000_0000 - 0x3fe6_a09e_0000_0000);
    let exponent = ((shifted >> 52) as i64 - 0x3ff) as f64;
    let mantissa = (shifted & 0x000f_ffff_ffff_ffff).wrapping_add(0x3fe6_a09e_0000_0000);
    let f = f64::from_bits(mantissa) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (EVEN[0] + w * (EVEN[1] + w * EVEN[2]));
    let odd = z * (ODD[0] + w * (ODD[1] + w * (ODD[2] + w * ODD[3])));
    let half_square = 0.5 * f * f;
    s * (half_square + (even + odd)) + exponent * LN2_LO - half_square + f + exponent * LN2_HI
}

/// `e^x` for `x <= 88`, relative error below 2e-7; `x < -87` gives the value at -87 (1.6e-38).
///
/// Source: Cephes `expf.c` (Moshier 1992): `x = n ln 2 + r`, a polynomial in `r`, scaled by `2^n`. Inlined and free of
/// branches so that a loop over it becomes vector code.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to the nearest integer
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HI - n * LN2_LO;
    let mut p = 1.987_569_2e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let mantissa = p * (r * r) + r + 1.0;
    let scale = f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23);
    mantissa * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_answers() {
        // Source: Random123 `kat_vectors`.
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox(counter, key), expected);
        }
    }

    #[test]
    fn ln_is_within_an_ulp_of_the_system_s() {
        for i in 0..200_000u32 {
            let x = (f64::from(i) + 0.5) / 1000.0;
            for x in [x, x * 1e-9, 1.0 + x * 1e-9, x * 1e12] {
                let expected = x.ln();
                assert!(
                    (ln(x) - expected).abs() <= 2.3e-16 * expected.abs().max(1e-9),
                    "{x}"
                );
            }
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn exp_is_accurate_and_exact_at_zero() {
        assert_eq!(exp(0.0), 1.0);
        let mut worst = 0.0f64;
        for i in 0..870_000 {
            let x = -(i as f32) / 10_000.0;
            let expected = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - expected).abs() / expected);
        }
        assert!(worst < 2e-7, "{worst}");
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }

    #[test]
    fn noise_stays_inside_its_bounds_and_the_bound_on_bits_is_safe() {
        assert!(gumbel(u32::MAX) <= GUMBEL_MAX && gumbel(u32::MAX) > 22.87);
        assert!(gumbel(0) > -3.2 && gumbel(0).is_finite());
        for i in 0..100_000u32 {
            let bits = i.wrapping_mul(0x9E37_79B9);
            for bits in [bits, u32::MAX - i] {
                let noise = gumbel(bits);
                assert!(bits >= least_bits(noise - 1e-12), "{bits}");
                assert!(bits >= least_bits(noise - 3.0), "{bits}");
            }
        }
    }
}

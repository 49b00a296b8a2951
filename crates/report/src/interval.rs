//! Intervals for shares and for means.

use serde::Serialize;

/// A share or a mean with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// What was measured.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// The mean of `samples` with its 95 % interval, taken for normally distributed; of one sample the interval is the
    /// sample. `None` without samples, or when one of them is not finite.
    pub fn of_mean(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let squares: f64 = samples.iter().map(|x| (x - mean) * (x - mean)).sum();
        let half = match samples.len() {
            1 => 0.0,
            len => student95(len - 1) * (squares / (n - 1.0) / n).sqrt(),
        };
        Some(Self {
            value: mean,
            low: mean - half,
            high: mean + half,
        })
    }

    /// Half its width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// 97.5 % quantile of Student's t distribution, within 1 %.
///
/// Source: exact values up to 4 degrees of freedom, then the first terms of the Cornish-Fisher expansion (M. Abramowitz and
/// I. A. Stegun, Handbook of Mathematical Functions, 26.7.5).
fn student95(degrees: usize) -> f64 {
    const FEW: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    if let Some(quantile) = FEW.get(degrees.wrapping_sub(1)) {
        return *quantile;
    }
    let (z, n) = (Z95, degrees as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / n + second / (n * n)
}

/// 97.5 % quantile of the normal distribution.
const Z95: f64 = 1.959_963_984_540_054;

/// The 95 % Wilson score interval of `hits` out of `trials`; the whole range without trials.
///
/// Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927).
pub fn wilson(hits: u64, trials: u64) -> Interval {
    if trials == 0 {
        return Interval {
            value: 0.0,
            low: 0.0,
            high: 1.0,
        };
    }
    let (n, p) = (trials as f64, hits as f64 / trials as f64);
    let z2 = Z95 * Z95;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z95 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    // The ends are exact where all or none hit; rounding must not move them.
    let low = if hits == 0 { 0.0 } else { centre - half };
    let high = if hits == trials { 1.0 } else { centre + half };
    Interval {
        value: p,
        low,
        high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_matches_known_values() {
        // (hits, trials, low, high), from the closed form with z = 1.96.
        for (hits, trials, low, high) in [
            (0, 20, 0.0, 0.161),
            (20, 20, 0.839, 1.0),
            (50, 100, 0.404, 0.596),
        ] {
            let interval = wilson(hits, trials);
            assert!((interval.low - low).abs() < 1e-3, "{interval:?}");
            assert!((interval.high - high).abs() < 1e-3, "{interval:?}");
        }
    }

    #[test]
    fn a_mean_has_the_interval_of_student() {
        let interval = Interval::of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        // 3 +- 2.776 * sqrt(2.5 / 5).
        assert_eq!(interval.value, 3.0);
        assert!((interval.half_width() - 1.963).abs() < 1e-3, "{interval:?}");
        let one = Interval::of_mean(&[7.0]).unwrap();
        assert_eq!((one.low, one.high), (7.0, 7.0));
        assert_eq!(Interval::of_mean(&[]), None);
        assert_eq!(Interval::of_mean(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn quantiles_of_student_match_known_values() {
        for (degrees, quantile) in [(1, 12.706), (5, 2.571), (10, 2.228), (30, 2.042)] {
            let found = student95(degrees);
            assert!((found / quantile - 1.0).abs() < 1e-2, "{degrees}: {found}");
        }
    }

    #[test]
    fn no_trials_say_nothing() {
        assert_eq!(
            wilson(0, 0),
            Interval {
                value: 0.0,
                low: 0.0,
                high: 1.0
            }
        );
    }
}

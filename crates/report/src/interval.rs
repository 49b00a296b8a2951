//! Intervals for shares, means and quantiles.

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

/// Share of cases that a 95 % interval may miss at either end.
const TAIL: f64 = 0.025;

/// A quantile of a sample with its 95 % interval from order statistics: no assumption on the distribution, only that the
/// values are independent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantile {
    /// The smallest value at or below which a share `q` of the sample lies.
    pub value: f64,
    /// Lower end; `None` where the sample is too small to have one.
    pub low: Option<f64>,
    /// Upper end; `None` where the sample is too small to have one: the quantile may be any value from `low` on. It takes 6
    /// values at the median, 36 at 90 %, 72 at 95 %, 368 at 99 %.
    pub high: Option<f64>,
}

impl Quantile {
    /// The quantile `share` of values in ascending order; `None` without values.
    ///
    /// The number of values at or below the true quantile is binomial, so ranks of that distribution bracket it.
    /// Source: H. A. David, H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.
    ///
    /// # Panics
    /// When `share` is not within 0 and 1, both excluded.
    pub fn of(sorted: &[f64], share: f64) -> Option<Self> {
        assert!(share > 0.0 && share < 1.0, "{share} is no share");
        let rank = (share * sorted.len() as f64).ceil() as usize;
        let value = *sorted.get(rank.max(1) - 1)?;
        let (low, high) = ranks(sorted.len(), share);
        Some(Self {
            value,
            low: low.map(|rank| sorted[rank - 1]),
            high: high.map(|rank| sorted[rank - 1]),
        })
    }

    /// Half the width of the interval; 0 where it has no upper or no lower end.
    pub fn uncertainty(&self) -> f64 {
        match (self.low, self.high) {
            (Some(low), Some(high)) => (high - low) / 2.0,
            _ => 0.0,
        }
    }

    /// The same in another unit: every number times `factor`, which is positive.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low.map(|low| low * factor),
            high: self.high.map(|high| high * factor),
        }
    }
}

/// Ranks (from 1) that bracket the quantile `share` of `count` values: the largest with P(B < rank) <= TAIL and the smallest
/// with P(B >= rank) <= TAIL, where B is binomial.
fn ranks(count: usize, share: f64) -> (Option<usize>, Option<usize>) {
    let (mut below, mut low, mut high) = (0.0, None, None);
    for rank in 1..=count {
        below += binomial(rank - 1, count, share);
        if below <= TAIL {
            low = Some(rank);
        }
        if 1.0 - below <= TAIL {
            high = Some(rank);
            break;
        }
    }
    (low, high)
}

/// Probability of `hits` in `trials`, by logarithms so that large numbers stay finite.
fn binomial(hits: usize, trials: usize, share: f64) -> f64 {
    let (k, n) = (hits as f64, trials as f64);
    let ways = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    (ways + k * share.ln() + (n - k) * (-share).ln_1p()).exp()
}

/// Logarithm of the factorial of a whole number: its sum while it is short, else Stirling's series, which is exact to 1e-12
/// from 32 on.
fn ln_factorial(n: f64) -> f64 {
    if n < 32.0 {
        return (2..=n as u32).map(|i| f64::from(i).ln()).sum();
    }
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5));
    n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_bracket_quantiles() {
        // Ranks from tables of the binomial distribution.
        for (count, share, low, high) in [
            (1000, 0.5, Some(469), Some(532)),
            (1000, 0.95, Some(936), Some(964)),
            (1000, 0.99, Some(983), Some(997)),
            (36, 0.9, Some(29), Some(36)),
            (6, 0.5, Some(1), Some(6)),
        ] {
            assert_eq!(ranks(count, share), (low, high), "{count} {share}");
        }
    }

    #[test]
    fn an_upper_end_takes_a_number_of_values() {
        for (needed, share) in [(6, 0.5), (36, 0.9), (72, 0.95), (368, 0.99), (3688, 0.999)] {
            assert_eq!(ranks(needed - 1, share).1, None, "{share}");
            assert_eq!(ranks(needed, share).1, Some(needed), "{share}");
        }
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let median = Quantile::of(&values, 0.5).unwrap();
        assert_eq!(
            (median.value, median.low, median.high),
            (50.0, Some(40.0), Some(61.0))
        );
        assert_eq!(median.scaled(2.0).uncertainty(), 21.0);
        assert_eq!(Quantile::of(&values, 0.999).unwrap().value, 100.0);
        assert_eq!(Quantile::of(&[], 0.5), None);
        let one = Quantile::of(&[3.0], 0.99).unwrap();
        assert_eq!((one.value, one.high, one.uncertainty()), (3.0, None, 0.0));
    }

    #[test]
    fn probabilities_of_large_samples_stay_finite() {
        let (low, high) = ranks(1_000_000, 0.99);
        let (low, high) = (low.unwrap(), high.unwrap());
        assert!(
            low < 990_000 && 990_000 < high && high - low < 500,
            "{low} {high}"
        );
    }

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

//! Intervals for shares.

use serde::Serialize;

/// A share with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The measured share.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
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

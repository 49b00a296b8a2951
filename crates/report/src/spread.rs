//! What repeated measurements of one quantity come to: median, quartiles, extremes.

use serde::Serialize;

/// Repeated measurements of one quantity, in whatever unit they were taken.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How often it was measured.
    pub repetitions: usize,
    /// The middle value; the mean of the two middle ones when the number is even.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// A quarter lies at or below.
    pub p25: f64,
    /// A quarter lies at or above.
    pub p75: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Sums up; `None` without samples, or when one of them is not finite.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            repetitions: sorted.len(),
            median: quantile(&sorted, 0.5),
            min: sorted[0],
            p25: quantile(&sorted, 0.25),
            p75: quantile(&sorted, 0.75),
            max: sorted[sorted.len() - 1],
        })
    }

    /// The same in another unit: every number times `factor`, which is positive.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            repetitions: self.repetitions,
            median: self.median * factor,
            min: self.min * factor,
            p25: self.p25 * factor,
            p75: self.p75 * factor,
            max: self.max * factor,
        }
    }

    /// `amount` per measured unit: seconds become tokens per second. The slowest becomes the smallest.
    pub fn rate(self, amount: f64) -> Self {
        Self {
            repetitions: self.repetitions,
            median: amount / self.median,
            min: amount / self.max,
            p25: amount / self.p75,
            p75: amount / self.p25,
            max: amount / self.min,
        }
    }

    /// Half the distance between the quartiles: what the median can be trusted to.
    pub fn uncertainty(&self) -> f64 {
        (self.p75 - self.p25) / 2.0
    }
}

/// The value below which a share `q` of `sorted` lies, linear between neighbours.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(
            (spread.min, spread.median, spread.max, spread.repetitions),
            (1.0, 2.5, 4.0, 4)
        );
        assert_eq!((spread.p25, spread.p75), (1.75, 3.25));
        assert_eq!(spread.uncertainty(), 0.75);
    }

    #[test]
    fn one_sample_has_no_spread() {
        let spread = Spread::of(&[7.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (7.0, 7.0, 7.0));
        assert_eq!(spread.uncertainty(), 0.0);
    }

    #[test]
    fn nothing_and_nonsense_have_no_summary() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
        assert_eq!(Spread::of(&[f64::INFINITY]), None);
    }

    #[test]
    fn a_rate_turns_the_order_round() {
        let seconds = Spread::of(&[1.0, 2.0, 4.0]).unwrap();
        let rate = seconds.rate(8.0);
        assert_eq!((rate.min, rate.median, rate.max), (2.0, 4.0, 8.0));
        assert!(rate.p25 < rate.p75);
        assert_eq!(seconds.scaled(1e3).median, 2000.0);
    }
}

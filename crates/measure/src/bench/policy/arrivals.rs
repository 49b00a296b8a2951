//! When requests come.

use serde::Serialize;

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Arrivals {
    /// All are there at the start.
    AllAtOnce,
    /// One by one, independently of each other, at `load` times the capacity.
    Poisson {
        /// Share of the capacity.
        load: f64,
    },
}

impl Arrivals {
    /// Times of `requests` arrivals, ascending, when `capacity` requests a unit of time can be served; the first comes at
    /// zero. Equal seeds give equal times but for the scale, whatever load and capacity.
    pub fn times(self, requests: usize, capacity: f64, seed: u64) -> Vec<f64> {
        let Self::Poisson { load } = self else {
            return vec![0.0; requests];
        };
        let mut random = SplitMix(seed);
        let mut now = 0.0;
        let mut next = || {
            let at = now;
            now += -random.uniform().ln() / (load * capacity);
            at
        };
        (0..requests).map(|_| next()).collect()
    }

    /// The same for people.
    pub fn name(self) -> String {
        match self {
            Self::AllAtOnce => "all at once".to_owned(),
            Self::Poisson { load } => format!("Poisson {load}"),
        }
    }
}

/// SplitMix64.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
struct SplitMix(u64);

impl SplitMix {
    /// A number above 0 and at most 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        ((z >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poisson_arrivals_are_ascending_and_of_the_rate_that_was_asked_for() {
        let times = Arrivals::Poisson { load: 0.5 }.times(20_000, 4.0, 7);
        assert_eq!(times[0], 0.0);
        assert!(times.is_sorted());
        let rate = times.len() as f64 / times[times.len() - 1];
        assert!((rate - 2.0).abs() < 0.05, "{rate}");
        // Exponential gaps: their standard deviation is their mean.
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let squares = gaps.iter().map(|gap| (gap - 0.5).powi(2)).sum::<f64>();
        let deviation = (squares / gaps.len() as f64).sqrt();
        assert!((deviation - 0.5).abs() < 0.02, "{deviation}");
    }

    #[test]
    fn seeds_repeat_themselves_and_loads_only_stretch() {
        let half = Arrivals::Poisson { load: 0.5 };
        assert_eq!(half.times(9, 1.0, 3), half.times(9, 1.0, 3));
        assert_ne!(half.times(9, 1.0, 3), half.times(9, 1.0, 4));
        let whole = Arrivals::Poisson { load: 1.0 }.times(9, 1.0, 3);
        for (slow, fast) in half.times(9, 1.0, 3).iter().zip(whole) {
            assert!((slow - 2.0 * fast).abs() < 1e-12);
        }
        assert_eq!(Arrivals::AllAtOnce.times(3, 1.0, 3), [0.0; 3]);
    }
}

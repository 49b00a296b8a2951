//! A seeded generator: the same seed gives the same schedule and the same requests, in any order of asking.

/// What random numbers are for; each use draws from its own stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// When requests are due.
    Arrivals,
    /// Tokens that all requests begin with.
    SharedPrompt,
    /// Tokens of one request.
    Prompt,
    /// Whether and where the client hangs up.
    Hangup,
}

/// SplitMix64.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The stream number `index` of a use.
    pub(super) fn new(seed: u64, what: Use, index: u64) -> Self {
        let start = mix(seed ^ mix(what as u64 + 1));
        Self {
            state: mix(start ^ mix(index)),
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Uniform from 0 (included) to 1 (excluded).
    pub(super) fn share(&mut self) -> f64 {
        // 53 bits are what a double holds.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform from `low` (included) to `high` (excluded, and larger).
    pub(super) fn between(&mut self, low: u32, high: u32) -> u32 {
        let width = u64::from(high.saturating_sub(low).max(1));
        low + ((u128::from(self.next()) * u128::from(width)) >> 64) as u32
    }

    /// The time to the next event of a Poisson process, in units of its mean.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_themselves_and_differ_from_each_other() {
        let draw = |seed, what, index| {
            let mut random = Random::new(seed, what, index);
            [random.next(), random.next()]
        };
        let one = draw(1, Use::Prompt, 0);
        assert_eq!(one, draw(1, Use::Prompt, 0));
        for other in [
            draw(2, Use::Prompt, 0),
            draw(1, Use::Hangup, 0),
            draw(1, Use::Prompt, 1),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn draws_lie_in_their_range_and_have_the_right_mean() {
        let mut random = Random::new(7, Use::Arrivals, 0);
        let n = 20_000;
        let (mut ids, mut waits) = (0.0, 0.0);
        for _ in 0..n {
            let id = random.between(10, 14);
            assert!((10..14).contains(&id));
            ids += f64::from(id);
            waits += random.exponential();
        }
        assert!((ids / f64::from(n) - 11.5).abs() < 0.05);
        assert!((waits / f64::from(n) - 1.0).abs() < 0.05);
    }
}

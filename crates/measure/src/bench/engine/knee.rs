//! The knee: where a larger batch stops to pay.

use serde::Serialize;

/// Share of the first sequence's throughput that each further one must still add.
pub const GAIN_MIN: f64 = 0.5;

/// Where batching stops to pay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Knee {
    /// The largest batch up to which every sequence added at least half of what the first one gives.
    pub batch: usize,
    /// Tokens per second there.
    pub tokens_per_s: f64,
    /// Whether a larger batch was measured and gained less; otherwise the knee lies at this batch or above.
    pub is_passed: bool,
}

/// Finds the knee of `(batch, tokens per second)`, ascending by batch; `None` with fewer than two.
///
/// From one batch to the next, the gain is `(speed' - speed) / (batch' - batch)`, compared with the speed of one sequence:
/// that of the first batch through its size. The knee is the last batch before the first gain below half of that.
pub fn knee(speeds: &[(usize, f64)]) -> Option<Knee> {
    let [(first, speed), _, ..] = speeds else {
        return None;
    };
    let alone = speed / *first as f64;
    let gain = |pair: &[(usize, f64)]| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0) as f64;
    let end = speeds
        .windows(2)
        .position(|pair| gain(pair) < GAIN_MIN * alone);
    let (batch, tokens_per_s) = speeds[end.unwrap_or(speeds.len() - 1)];
    Some(Knee {
        batch,
        tokens_per_s,
        is_passed: end.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_last_batch_before_gains_fall_below_half() {
        for (speeds, expected) in [
            // Gains a sequence: 100, then 60, then 40: the second is still more than half of 100.
            (
                &[(1, 100.0), (2, 200.0), (4, 320.0), (8, 480.0)][..],
                (4, true),
            ),
            (&[(1, 100.0), (2, 200.0), (4, 400.0)], (4, false)),
            (&[(1, 100.0), (2, 90.0), (4, 800.0)], (1, true)),
            (&[(4, 400.0), (8, 560.0)], (4, true)),
        ] {
            let knee = knee(speeds).unwrap();
            assert_eq!((knee.batch, knee.is_passed), expected, "{speeds:?}");
        }
    }

    #[test]
    fn one_batch_has_no_knee() {
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&[(1, 5.0)]), None);
    }
}

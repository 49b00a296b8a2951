//! Whether the device that would be picked is the fastest one.

use serde::Serialize;
use ucuz_report::Spread;

/// Times closer than this are called equal: kernels that share their code differ by as much on a busy machine.
pub const MARGIN: f64 = 0.05;

/// A pick that another device beats.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowerPick {
    /// What was measured, in words.
    pub case: String,
    /// Who would be picked.
    pub picked: String,
    /// Its median in seconds.
    pub picked_seconds: f64,
    /// Who is faster.
    pub fastest: String,
    /// Its median in seconds.
    pub fastest_seconds: f64,
}

impl std::fmt::Display for SlowerPick {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} takes {:.1} us, {} {:.1} us",
            self.case,
            self.picked,
            self.picked_seconds * 1e6,
            self.fastest,
            self.fastest_seconds * 1e6
        )
    }
}

/// Index of the fastest device, if it beats the picked one beyond doubt: its median by more than [`MARGIN`], and three
/// quarters of its samples faster than three quarters of the other's.
pub fn faster_than_picked(picked: usize, seconds: &[Spread]) -> Option<usize> {
    let by_median = |a: &usize, b: &usize| seconds[*a].median.total_cmp(&seconds[*b].median);
    let fastest = (0..seconds.len()).min_by(by_median)?;
    let (theirs, ours) = (&seconds[fastest], &seconds[picked]);
    let beyond_margin = theirs.median < ours.median * (1.0 - MARGIN);
    let beyond_spread = theirs.p75 < ours.p25;
    (beyond_margin && beyond_spread).then_some(fastest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(samples: &[&[f64]], picked: usize, expected: Option<usize>) {
        let seconds: Vec<Spread> = samples.iter().map(|s| Spread::of(s).unwrap()).collect();
        assert_eq!(
            faster_than_picked(picked, &seconds),
            expected,
            "{samples:?}"
        );
    }

    #[test]
    fn a_pick_loses_only_beyond_margin_and_spread() {
        check(&[&[3.0], &[2.0], &[1.0]], 2, None);
        check(&[&[3.0], &[1.0], &[2.0]], 2, Some(1));
        check(&[&[1.0], &[1.5], &[2.0]], 2, Some(0));
        // Within the margin, however small the spread.
        check(&[&[0.96, 0.96, 0.96], &[1.0, 1.0, 1.0]], 1, None);
        // Beyond the margin, but the quartiles overlap.
        check(&[&[0.5, 0.8, 1.1], &[0.9, 1.0, 1.1]], 1, None);
        check(&[&[0.7, 0.8, 0.82], &[0.9, 1.0, 1.1]], 1, Some(0));
        check(&[&[1.0]], 0, None);
    }

    #[test]
    fn an_offender_is_named_with_both_times() {
        let pick = SlowerPick {
            case: "linear Q4_1, 1 rows, 2048x2048".to_owned(),
            picked: "avx512".to_owned(),
            picked_seconds: 2e-6,
            fastest: "avx2".to_owned(),
            fastest_seconds: 1e-6,
        };
        assert_eq!(
            pick.to_string(),
            "linear Q4_1, 1 rows, 2048x2048: avx512 takes 2.0 us, avx2 1.0 us"
        );
    }
}

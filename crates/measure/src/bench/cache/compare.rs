//! Two sides become one result: identity, costs, growth.

use ucuz_report::{PowerLaw, Spread};

use super::{CachePoint, CacheResult, Cost, Growth, Identity};
use crate::Provenance;
use crate::bench::ModelFacts;
use crate::bench::work::Work;

/// Bytes of one score.
const SCORE_BYTES: u64 = 4;

/// Name and value of a cost.
type Quantity = (&'static str, fn(&Cost) -> f64);

/// What grows.
const QUANTITIES: [Quantity; 4] = [
    ("time", |cost| cost.seconds.median),
    ("multiply-accumulates", |cost| cost.macs as f64),
    ("score bytes", |cost| cost.score_bytes as f64),
    ("memory by formula", |cost| cost.memory_bytes as f64),
];

/// One way of generating; all but the tokens are by length.
pub(super) struct Side {
    /// Each pass's tokens, the prompt first.
    pub tokens: Vec<Vec<u32>>,
    /// Each pass's time.
    pub seconds: Vec<Vec<f64>>,
    /// The logits that follow.
    pub logits: Vec<Vec<f32>>,
    /// Work counted.
    pub work: Vec<Work>,
    /// Memory by formula.
    pub memory_bytes: Vec<u64>,
    /// Memory as the system saw it.
    pub peak_bytes: Vec<Option<u64>>,
}

impl Side {
    fn cost(&self, i: usize) -> Option<Cost> {
        let work = &self.work[i];
        Some(Cost {
            seconds: Spread::of(&self.seconds[i])?,
            macs: work.macs(),
            score_bytes: work.scores * SCORE_BYTES,
            kv_bytes: work.kv_bytes,
            memory_bytes: self.memory_bytes[i],
            memory_peak_bytes: self.peak_bytes[i],
        })
    }
}

/// The whole result.
pub(super) fn result(
    lengths: &[usize],
    (provenance, model): (Provenance, ModelFacts),
    with: &Side,
    without: &Side,
) -> CacheResult {
    let point = |(i, tokens): (usize, &usize)| {
        Some(CachePoint {
            tokens: *tokens,
            with: with.cost(i)?,
            without: without.cost(i)?,
        })
    };
    let points: Vec<CachePoint> = lengths.iter().enumerate().filter_map(point).collect();
    CacheResult {
        bench: "cache",
        provenance,
        model,
        identity: identity(with, without),
        growth: growth(&points),
        points,
    }
}

/// Compares all tokens of all passes with the first pass with the cache, and all logits.
fn identity(with: &Side, without: &Side) -> Identity {
    let expected = with.tokens.first().map_or(&[][..], Vec::as_slice);
    let passes = with.tokens.iter().chain(&without.tokens);
    let logits = || with.logits.iter().zip(&without.logits);
    Identity {
        tokens_equal: passes
            .clone()
            .all(|tokens| expected.get(..tokens.len()) == Some(tokens.as_slice())),
        // The prompt is the same by choice.
        tokens_compared: passes.map(|tokens| tokens.len().saturating_sub(1)).sum(),
        logits_equal: with.logits.len() == without.logits.len()
            && logits().all(|(a, b)| same(a, b)),
        logits_compared: logits().map(|(a, b)| a.len().min(b.len())).sum(),
    }
}

/// Equal bit for bit.
fn same(a: &[f32], b: &[f32]) -> bool {
    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits(a) == bits(b)
}

/// Power laws of every cost over the lengths.
fn growth(points: &[CachePoint]) -> Vec<Growth> {
    let fit = |cost: &dyn Fn(&CachePoint) -> f64| {
        let points: Vec<(f64, f64)> = points.iter().map(|p| (p.tokens as f64, cost(p))).collect();
        PowerLaw::fit(&points)
    };
    QUANTITIES
        .iter()
        .map(|(quantity, value)| Growth {
            quantity,
            with: fit(&|point| value(&point.with)),
            without: fit(&|point| value(&point.without)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(tokens: Vec<Vec<u32>>, logits: Vec<Vec<f32>>) -> Side {
        Side {
            tokens,
            logits,
            seconds: Vec::new(),
            work: Vec::new(),
            memory_bytes: Vec::new(),
            peak_bytes: Vec::new(),
        }
    }

    #[test]
    fn one_other_token_or_bit_is_a_difference() {
        let with = side(vec![vec![7, 1, 2], vec![7, 1]], vec![vec![0.0, 1.0]]);
        let check = |tokens, logits| identity(&with, &side(tokens, logits));
        let same = check(vec![vec![7, 1, 2]], vec![vec![0.0, 1.0]]);
        assert!(same.holds());
        assert_eq!((same.tokens_compared, same.logits_compared), (5, 2));
        assert!(!check(vec![vec![7, 1, 3]], vec![vec![0.0, 1.0]]).tokens_equal);
        assert!(!check(vec![vec![7, 1, 2]], vec![vec![-0.0, 1.0]]).logits_equal);
        assert!(!check(vec![vec![7, 1, 2]], vec![]).logits_equal);
        assert!(!check(vec![vec![7, 1, 2, 4]], vec![vec![0.0, 1.0]]).tokens_equal);
    }
}

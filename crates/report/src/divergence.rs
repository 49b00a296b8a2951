//! How far one model's next-token distribution is from another's, position by position.
//!
//! Kullback-Leibler divergence `Σ p ln(p / q)` in nats with `p` the reference, agreement of the likeliest token, and the
//! negative log-likelihood of the text's own next token, from which perplexity follows. All sums in f64.

use serde::Serialize;

use crate::interval::{Interval, wilson};

/// One position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenDivergence {
    /// Divergence in nats; never negative.
    pub kl: f64,
    /// Whether both find the same token likeliest (ties to the lowest id).
    pub agrees: bool,
    /// Negative log-likelihoods of the text's next token: reference, other.
    pub nll: Option<(f64, f64)>,
}

/// Natural log of `Σ exp(x)`, and the index of the first largest value.
fn log_sum_exp(logits: &[f32]) -> (f64, usize) {
    let mut best = 0;
    for (i, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = i;
        }
    }
    let max = f64::from(logits[best]);
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - max).exp()).sum();
    (max + sum.ln(), best)
}

impl TokenDivergence {
    /// Compares two rows of logits `[vocab]`; `next` is the token that the text goes on with.
    ///
    /// # Panics
    /// When the rows are empty or differ in length: the caller compares models of one vocabulary.
    pub fn new(reference: &[f32], other: &[f32], next: Option<u32>) -> Self {
        assert_eq!(reference.len(), other.len(), "one vocabulary");
        let (lse_p, best_p) = log_sum_exp(reference);
        let (lse_q, best_q) = log_sum_exp(other);
        let kl: f64 = reference
            .iter()
            .zip(other)
            .map(|(p, q)| {
                let (ln_p, ln_q) = (f64::from(*p) - lse_p, f64::from(*q) - lse_q);
                ln_p.exp() * (ln_p - ln_q)
            })
            .sum();
        let nll = next.map(|id| {
            let i = id as usize;
            (lse_p - f64::from(reference[i]), lse_q - f64::from(other[i]))
        });
        Self {
            kl: kl.max(0.0),
            agrees: best_p == best_q,
            nll,
        }
    }
}

/// Divergence gathered over a text.
#[derive(Debug, Clone, Default)]
pub struct Divergence {
    kl: Vec<f64>,
    agreed: u64,
    nll: (f64, f64),
    predicted: u64,
}

/// What a [`Divergence`] comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DivergenceSummary {
    /// Positions compared.
    pub positions: u64,
    /// Mean divergence in nats.
    pub kl_mean: f64,
    /// Median.
    pub kl_p50: f64,
    /// 99th percentile.
    pub kl_p99: f64,
    /// Largest.
    pub kl_max: f64,
    /// Share of positions with the same likeliest token, with its 95 % interval.
    pub agreement: Interval,
    /// Perplexity of the reference on the text's own tokens.
    pub perplexity_reference: f64,
    /// Perplexity of the other.
    pub perplexity_other: f64,
}

impl Divergence {
    /// Adds one position.
    pub fn push(&mut self, token: TokenDivergence) {
        self.kl.push(token.kl);
        self.agreed += u64::from(token.agrees);
        if let Some((reference, other)) = token.nll {
            self.nll.0 += reference;
            self.nll.1 += other;
            self.predicted += 1;
        }
    }

    /// Sums up; `None` without positions.
    pub fn summary(&self) -> Option<DivergenceSummary> {
        let mut sorted = self.kl.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |q: f64| sorted[(q * last as f64).round() as usize];
        let n = self.predicted.max(1) as f64;
        Some(DivergenceSummary {
            positions: sorted.len() as u64,
            kl_mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            kl_p50: quantile(0.5),
            kl_p99: quantile(0.99),
            kl_max: sorted[last],
            agreement: wilson(self.agreed, sorted.len() as u64),
            perplexity_reference: (self.nll.0 / n).exp(),
            perplexity_other: (self.nll.1 / n).exp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_diverge_by_nothing() {
        let token = TokenDivergence::new(&[1.0, 2.0, -3.0], &[1.0, 2.0, -3.0], Some(0));
        assert_eq!(token.kl, 0.0);
        assert!(token.agrees);
    }

    #[test]
    fn a_shift_of_all_logits_changes_nothing() {
        let token = TokenDivergence::new(&[1.0, 2.0, -3.0], &[11.0, 12.0, 7.0], None);
        assert!(token.kl < 1e-12, "{}", token.kl);
    }

    #[test]
    fn two_outcomes_match_the_closed_form() {
        // p = (1/2, 1/2), q = (1/4, 3/4): KL = ln 2 - ln 3 / 2.
        let token = TokenDivergence::new(&[0.0, 0.0], &[0.0, 3f32.ln()], Some(1));
        let expected = std::f64::consts::LN_2 - 3f64.ln() / 2.0;
        // The logit ln 3 carries f32's rounding: 2^-24 relative.
        assert!((token.kl - expected).abs() < 3f64.ln() * 2f64.powi(-24));
        let (reference, other) = token.nll.unwrap();
        assert!((reference - std::f64::consts::LN_2).abs() < 1e-12);
        assert!((other - (4.0f64 / 3.0).ln()).abs() < 1e-6);
        assert!(!token.agrees, "the reference's tie goes to id 0");
    }

    #[test]
    fn summary_orders_percentiles_and_exponentiates_likelihoods() {
        let mut all = Divergence::default();
        assert!(all.summary().is_none());
        for q in [0.0, 1.0, 2.0] {
            all.push(TokenDivergence::new(&[0.0, 0.0], &[0.0, q], Some(0)));
        }
        let summary = all.summary().unwrap();
        assert_eq!(summary.positions, 3);
        assert!(summary.kl_p50 <= summary.kl_p99 && summary.kl_p99 <= summary.kl_max);
        assert!((summary.perplexity_reference - 2.0).abs() < 1e-12);
    }
}

//! Static against continuous: means over runs, and how much the one gains on the other.

use anyhow::{Context, Result};
use serde::Serialize;
use ucuz_report::Interval;

use super::arrivals::Arrivals;
use super::outcome::{Heard, Outcome, Policy};

/// One policy, over all runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// Which.
    pub policy: Policy,
    /// Tokens that somebody wanted, a second.
    pub tokens_per_s: Interval,
    /// Mean time from arrival until a request is handed back, with its batch where there is one.
    pub latency_s: Interval,
    /// Mean time from arrival to a request's own last token.
    pub last_token_s: Interval,
    /// Mean time from arrival to a request's first token.
    pub first_token_s: Interval,
    /// Mean number of steps.
    pub steps: f64,
}

/// What the continuous policy gains on a static one: factors above 1 are in its favour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// The static one.
    pub over: Policy,
    /// Throughput.
    pub throughput: Interval,
    /// Mean latency, where a static batch is handed back as one.
    pub latency: Interval,
    /// Mean latency, where each member is handed back when its own last token is there.
    pub latency_last_token: Interval,
    /// Mean time until something is heard: a static batch as one, the first token of a stream.
    pub first_word: Interval,
}

/// All policies under the same arrivals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// How requests came.
    pub arrivals: Arrivals,
    /// Runs, each with a seed of its own.
    pub runs: usize,
    /// In the order of [`Policy::ALL`].
    pub sides: Vec<Side>,
    /// Over each static policy.
    pub gains: Vec<Gain>,
}

/// One run: what each of [`Policy::ALL`] made of the same requests.
pub type Run = [Outcome; Policy::ALL.len()];

impl Comparison {
    /// Sums up `runs`.
    ///
    /// # Errors
    /// No runs, or times that are not finite.
    pub fn of(arrivals: Arrivals, runs: &[Run]) -> Result<Self> {
        let sides = Policy::ALL.iter().enumerate();
        let sides = sides.map(|(index, &policy)| side(policy, runs, index));
        let gains = Policy::ALL[..Policy::ALL.len() - 1].iter().enumerate();
        let gains = gains.map(|(index, &policy)| gain(policy, runs, index));
        Ok(Self {
            arrivals,
            runs: runs.len(),
            sides: sides.collect::<Result<_>>()?,
            gains: gains.collect::<Result<_>>()?,
        })
    }
}

fn mean(runs: &[Run], of: impl Fn(&Run) -> f64) -> Result<Interval> {
    let samples: Vec<f64> = runs.iter().map(of).collect();
    Interval::of_mean(&samples).context("nothing was run; raise --seeds")
}

fn side(policy: Policy, runs: &[Run], index: usize) -> Result<Side> {
    let latency = |heard| mean(runs, move |run| run[index].latency_s(heard));
    Ok(Side {
        policy,
        tokens_per_s: mean(runs, |run| run[index].tokens_per_s())?,
        latency_s: latency(Heard::Batch)?,
        last_token_s: latency(Heard::LastToken)?,
        first_token_s: latency(Heard::FirstToken)?,
        steps: mean(runs, |run| run[index].steps as f64)?.value,
    })
}

/// Factors run by run, so that a run of many arrivals at once does not count more than another.
fn gain(over: Policy, runs: &[Run], index: usize) -> Result<Gain> {
    let last = Policy::ALL.len() - 1;
    let latency = |fixed, continuous| {
        mean(runs, move |run| {
            run[index].latency_s(fixed) / run[last].latency_s(continuous)
        })
    };
    Ok(Gain {
        over,
        throughput: mean(runs, |run| {
            run[last].tokens_per_s() / run[index].tokens_per_s()
        })?,
        latency: latency(Heard::Batch, Heard::Batch)?,
        latency_last_token: latency(Heard::LastToken, Heard::LastToken)?,
        first_word: latency(Heard::Batch, Heard::FirstToken)?,
    })
}

//! Choosing a token from a row of logits: pure, counter-based, the same on every backend.
//!
//! The token is the argmax over the allowed ids of `logit / T + gumbel(seed, sample, position, id)`, ties to the lowest
//! id; at `T = 0` the noise is left out. So a draft token drawn with the same noise is right exactly when it is equal.

mod mask;
mod noise;
mod row;
mod select;

pub use mask::RowMask;
pub use row::{SampleScratch, sample_row};

/// Sampling parameters with every default resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the `k` most likely ids; 0 keeps all.
    pub top_k: u32,
    /// Keep the smallest set of ids whose probability reaches this; 1 keeps all.
    pub top_p: f32,
    /// Keep ids at least this times as likely as the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of ids seen in prompt or output; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted once from ids seen in the output; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted per occurrence in the output; 0 is off.
    pub frequency_penalty: f32,
    /// Added to single ids, ascending by id.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the noise.
    pub seed: u64,
}

impl SamplingParams {
    /// Argmax, nothing else.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

/// How often an id stands in a sequence; kept ascending by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// The id.
    pub id: u32,
    /// Occurrences in the prompt.
    pub prompt: u32,
    /// Occurrences in the output.
    pub output: u32,
}

/// What is wanted of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Choose a token.
    Sample,
    /// Report the log-probability of this token; choose nothing.
    Score(u32),
    /// Report the row of the last norm instead of logits. A runner answers it before any queue is asked.
    Hidden,
}

/// One row's orders.
#[derive(Debug, Clone, Copy)]
pub struct SampleRow<'a> {
    /// What is wanted.
    pub take: Take,
    /// Parameters.
    pub params: &'a SamplingParams,
    /// Which of `n` samples of the request this is.
    pub sample: u32,
    /// Position that the chosen token will have.
    pub position: u32,
    /// Ids seen so far, ascending; empty when no penalty is on.
    pub counts: &'a [TokenCount],
    /// Ids that may be chosen; `None` allows all.
    pub mask: Option<&'a RowMask>,
    /// Ids never chosen in this step (end tokens before `min_tokens`), ascending.
    pub forbidden: &'a [u32],
    /// How many of the likeliest ids to report with log-probabilities; `None` reports none, not even the chosen one's.
    pub logprobs: Option<u32>,
}

/// A row's outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledRow {
    /// The chosen token, or the scored one.
    pub token: u32,
    /// Natural log-probability of `token` under the raw logits, if asked for.
    pub logprob: Option<f32>,
    /// The likeliest ids under the raw logits, likeliest first, ties to the lowest id.
    pub top: Vec<(u32, f32)>,
    /// `[hidden]`, the row of the last norm, if that was wanted; else empty.
    pub hidden: Vec<f32>,
}

impl SampledRow {
    /// The outcome of [`Take::Hidden`].
    ///
    /// # Errors
    /// [`RowFault::NonFinite`].
    pub fn of_hidden(row: &[f32]) -> Result<Self, RowFault> {
        if row.iter().any(|value| !value.is_finite()) {
            return Err(RowFault::NonFinite);
        }
        Ok(Self {
            token: 0,
            logprob: None,
            top: Vec::new(),
            hidden: row.to_vec(),
        })
    }
}

/// Why one row could not be sampled; it ends that sequence only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// A logit is NaN or infinite.
    #[error("the model produced a non-finite number for this request")]
    NonFinite,
    /// No id is allowed.
    #[error("no token is allowed by the request's constraints")]
    EmptyMask,
}

/// Outcome of one [`crate::Queue::sample`], row by row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampled {
    /// One entry a row.
    pub rows: Vec<Result<SampledRow, RowFault>>,
}

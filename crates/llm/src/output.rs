//! What a generation gives back, piece by piece.

use ucuz_engine::{FailureKind, FinishReason, Usage};

/// One token with its log-probability.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// Id.
    pub id: u32,
    /// Its bytes; not always UTF-8 by themselves.
    pub bytes: Vec<u8>,
    /// Natural log-probability under the raw logits.
    pub logprob: f32,
    /// The likeliest ids: id, bytes, log-probability.
    pub top: Vec<(u32, Vec<u8>, f32)>,
}

/// A piece of the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// Text; whole characters only, possibly empty.
    pub text: String,
    /// The tokens that this text finishes.
    pub tokens: Vec<u32>,
    /// One entry a token, when log-probabilities were asked for.
    pub logprobs: Vec<TokenLogprob>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Why.
    pub reason: FinishReason,
    /// The stop string that ended it.
    pub stop: Option<String>,
    /// Counts.
    pub usage: Usage,
}

/// One step of a generation.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Nothing to show yet.
    Nothing,
    /// Log-probabilities of every prompt token after the first.
    Prompt(Vec<TokenLogprob>),
    /// The prompt as one vector, `[hidden]`, of the length that the pooling gave it.
    Pooled(Vec<f32>),
    /// More of the answer.
    Delta(Delta),
    /// The last piece, and the end.
    Finished(Delta, Finished),
    /// The request failed; nothing follows.
    Failed {
        /// What broke.
        kind: FailureKind,
        /// A sentence for people.
        text: String,
    },
}

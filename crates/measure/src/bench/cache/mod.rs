//! The same answers with and without the KV cache, and what each costs.
//!
//! Both start from one token and choose the likeliest next one, again and again.
//!
//! - **With** the cache, a step computes the newest token; keys and values of the others are read back.
//! - **Without**, a step computes every token from the first one on. Keys and values live for one layer only: all layers
//!   write to the same blocks, so nothing is left of an earlier step, nor of an earlier layer.
//!
//! Time is measured from the first step to the last; a length on the way to a longer one is timed in passing. Work is
//! counted ([`super::work`]): `n` steps cost `n` rows with the cache and `n (n + 1) / 2` without, and a row's attention grows
//! with its position, so that multiply-accumulates grow like `n` to `n²` with, like `n²` to `n³` without. Peak memory is what
//! the process holds at most beyond the loaded weights.
//!
//! Identity is checked with `==`: every token of every pass, and all logits that follow each length.

mod compare;
mod report;
mod run;

use serde::Serialize;
use ucuz_report::{PowerLaw, Spread};

use super::ModelFacts;
use crate::Provenance;

pub use run::run;

/// A length is not timed again when its first time was longer, in seconds.
pub const AGAIN_MAX_S: f64 = 20.0;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Tokens to generate.
    pub lengths: Vec<usize>,
    /// Passes; long lengths get fewer, see [`AGAIN_MAX_S`].
    pub repetitions: usize,
}

/// What generating a number of tokens costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Time.
    pub seconds: Spread,
    /// Multiply-accumulates, all steps together.
    pub macs: u64,
    /// Bytes of attention scores, four each: the matrix that a textbook would write and read.
    pub score_bytes: u64,
    /// Bytes of keys and values read.
    pub kv_bytes: u64,
    /// Bytes of keys, values, workspace and scratch by formula.
    pub memory_bytes: u64,
    /// Most bytes that the process held beyond the loaded weights; absent where the system does not tell.
    pub memory_peak_bytes: Option<u64>,
}

/// One length, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CachePoint {
    /// Tokens generated.
    pub tokens: usize,
    /// With the cache.
    pub with: Cost,
    /// Without.
    pub without: Cost,
}

/// How a cost grows with the number of tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// Which cost.
    pub quantity: &'static str,
    /// With the cache; absent with fewer than two lengths.
    pub with: Option<PowerLaw>,
    /// Without.
    pub without: Option<PowerLaw>,
}

/// Whether both ways gave the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Whether all tokens of all passes are equal.
    pub tokens_equal: bool,
    /// Tokens compared.
    pub tokens_compared: usize,
    /// Whether all logits are equal, bit for bit.
    pub logits_equal: bool,
    /// Logits compared.
    pub logits_compared: usize,
}

impl Identity {
    /// Whether nothing differed.
    pub fn holds(&self) -> bool {
        self.tokens_equal && self.logits_equal
    }
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheResult {
    /// `cache`.
    pub bench: &'static str,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// What was measured.
    pub model: ModelFacts,
    /// Whether the answers are the same.
    pub identity: Identity,
    /// By number of tokens.
    pub points: Vec<CachePoint>,
    /// By quantity.
    pub growth: Vec<Growth>,
}

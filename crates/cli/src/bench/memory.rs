//! `ucuz bench memory`: users in the same KV memory.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use ucuz_measure::bench::memory::{Options, Plan};
use ucuz_measure::bench::policy::Workload;

use super::host::TerminalHost;
use super::lengths_file;
use super::model::{self, BenchModel, LlmSizes, ModelBenchArgs};

/// Most tokens that are reserved for a user unless others are named.
const RESERVE_MAX: usize = 2048;

/// Arguments of `ucuz bench memory`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench memory smollm2 --html memory.html
  ucuz bench memory model.gguf --reserve 8192 --kv-memory 256MiB
  ucuz bench memory --lengths lengths.json --prompt-tokens 200 --json - | jq '.naive, .real.users'
  ucuz bench memory --compute-only

Without --kv-memory the memory is what four reservations take. A file of --lengths is as for bench policy.

Exit codes: 0 done, 1 error, 2 wrong usage")]
pub struct Args {
    /// Tokens that naive reservation sets aside for each user [default: the context, at most 2048]
    #[arg(long, value_name = "TOKENS", value_parser = model::length())]
    reserve: Option<usize>,
    /// Output lengths of the users, in tokens [default: 64 of them, 1874 tokens, half below 18, the longest 231]
    #[arg(long, value_name = "FILE")]
    lengths: Option<PathBuf>,
    /// Tokens that each user has beside
    #[arg(long, default_value_t = 16, value_name = "TOKENS", value_parser = model::length())]
    prompt_tokens: usize,
    /// Leave the real run out
    #[arg(long)]
    compute_only: bool,
    #[command(flatten)]
    common: ModelBenchArgs,
}

/// Computes, counts on the engine, and prints.
///
/// # Errors
/// A model that cannot be brought or loaded, users beyond the reservation, memory that holds no reservation.
pub fn run(args: Args) -> Result<ExitCode> {
    let common = &args.common;
    common.output.check()?;
    let lengths = lengths_file::or_default(args.lengths.as_deref())?;
    let model = BenchModel::open(common)?;
    let setup = model.setup(&common.engine)?;
    let options = Options {
        workload: Workload::new(lengths, args.prompt_tokens)?,
        reserve: args.reserve.unwrap_or(setup.context.min(RESERVE_MAX)),
        memory_bytes: common.engine.kv_memory.map(|size| size.0),
    };
    let plan = Plan::new(&setup, &options)?;
    let mut host = TerminalHost::start();
    let sizes = LlmSizes {
        sequences: plan.sequences(),
        waiting: plan.users(),
        context: Some(plan.context()),
        kv_memory_bytes: plan.memory_bytes(),
    };
    let llm = match args.compute_only {
        true => None,
        false => Some(model.llm(&setup, sizes, &mut host)?),
    };
    let result = plan.run(llm.as_ref(), model.about(&setup), &mut host)?;
    common.output.write(&result, &result.document())?;
    Ok(ExitCode::SUCCESS)
}

//! `ucuz bench policy`: static against continuous batching.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use ucuz_llm::{Clock, SystemClock};
use ucuz_measure::bench::policy::{self, Arrivals, Options, Workload};

use super::host::TerminalHost;
use super::lengths_file;
use super::model::{self, BenchModel, LlmSizes, ModelBenchArgs};

/// Arguments of `ucuz bench policy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench policy smollm2 --html policy.html
  ucuz bench policy model.gguf --only all-at-once --runs 5
  ucuz bench policy --only poisson --loads 0.6,0.8 --slots 4 --runs 0
  ucuz bench policy --lengths lengths.json --json - | jq '.real[].real.gains'

A file of --lengths holds numbers of tokens, one for each request: {\"output_lengths\": [13, 9, ...]}, or numbers
with spaces, commas or newlines between them.

Exit codes: 0 done, 1 error, 2 wrong usage")]
pub struct Args {
    /// Output lengths of the requests, in tokens [default: 64 of them, 1874 tokens, half below 18, the longest 231]
    #[arg(long, value_name = "FILE")]
    lengths: Option<PathBuf>,
    /// Requests that run at once
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: u16,
    /// Tokens of each prompt
    #[arg(long, default_value_t = 16, value_name = "TOKENS", value_parser = model::length())]
    prompt_tokens: usize,
    /// How requests come [default: both]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ARRIVALS,...")]
    only: Vec<Kind>,
    /// Poisson arrivals, as shares of what continuous batching completes with all requests at once
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", default_value = "0.5,0.7,0.9", value_parser = load)]
    loads: Vec<f64>,
    /// Simulated runs of each Poisson arrival, each with a seed of its own
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    seeds: u16,
    /// Real runs of each arrival and policy, with the first of these seeds; 0 only simulates
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    runs: u16,
    /// Runs of each measurement of step costs, after one to warm up
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    #[command(flatten)]
    common: ModelBenchArgs,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// All are there at the start
    AllAtOnce,
    /// One by one, independently of each other
    Poisson,
}

/// Measures, simulates, runs and prints.
///
/// # Errors
/// A model that cannot be brought or loaded, a file without lengths, requests beyond the context, too little memory.
pub fn run(args: Args) -> Result<ExitCode> {
    let common = &args.common;
    common.output.check()?;
    let options = options(&args)?;
    let model = BenchModel::open(common)?;
    let setup = model.setup(&common.engine)?;
    let mut host = TerminalHost::start();
    let step_costs = policy::measure(&setup, &options, &mut host)?;
    let sizes = LlmSizes {
        sequences: options.slots,
        waiting: options.workload.lengths.len(),
        context: Some(options.workload.longest()),
        kv_memory_bytes: setup.kv_memory_bytes,
    };
    let llm = match options.runs {
        0 => None,
        _ => Some(model.llm(&setup, sizes, &mut host)?),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let live = llm.as_ref().map(|llm| (llm, clock));
    let result = policy::run(&options, step_costs, live, model.about(&setup), &mut host)?;
    common.output.write(&result, &result.document())?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args) -> Result<Options> {
    let lengths = lengths_file::or_default(args.lengths.as_deref())?;
    let has = |kind| args.only.is_empty() || args.only.contains(&kind);
    let mut arrivals = Vec::new();
    if has(Kind::AllAtOnce) {
        arrivals.push(Arrivals::AllAtOnce);
    }
    if has(Kind::Poisson) {
        let loads = args.loads.iter();
        arrivals.extend(loads.map(|&load| Arrivals::Poisson { load }));
    }
    Ok(Options {
        workload: Workload::new(lengths, args.prompt_tokens)?,
        slots: usize::from(args.slots),
        arrivals,
        seeds: usize::from(args.seeds),
        runs: usize::from(args.runs),
        repetitions: usize::from(args.repeat),
    })
}

/// Parses a share of the capacity.
fn load(text: &str) -> Result<f64, String> {
    let load = text.parse::<f64>().ok();
    load.filter(|load| (0.01..=100.0).contains(load))
        .ok_or_else(|| "it is a share of the capacity from 0.01 to 100, e.g. 0.7".to_owned())
}

#[cfg(test)]
mod tests {
    use super::load;

    #[test]
    fn loads_are_positive_shares() {
        assert_eq!(load("0.7"), Ok(0.7));
        assert_eq!(load("2"), Ok(2.0));
        for text in ["0", "-1", "inf", "nan", "much", "101"] {
            assert!(load(text).is_err(), "{text}");
        }
    }
}

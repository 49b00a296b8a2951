//! Floor 6: the binary `ucuz`: arguments, environment, the model store, the list of backends, exit codes.
//!
//! One file a subcommand. Exit codes: 0 done, 1 an error (said on stderr), 2 wrong usage, 70 the engine died.

// A full disk behind stderr makes `eprintln` panic; [`note!`] goes on.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

#[macro_use]
mod output;

mod backends;
mod bench;
mod doctor;
mod engine_args;
mod inspect;
mod kv_events;
mod process;
mod pull;
mod run;
mod serve;
mod size;
mod store;
mod visible;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Cheap inference of language models, proved by measurement
///
/// MODEL is a path (a .gguf file, or a folder with config.json and safetensors), an alias (smollm2), hf:org/repo[/file], or
/// pypi:package for a model packed in a wheel.
#[derive(Parser)]
#[command(name = "ucuz", version, max_term_width = 100)]
#[command(after_help = "Examples:
  ucuz serve                                      serve the default model on http://127.0.0.1:8000
  ucuz run smollm2 -p \"What is the capital of France?\" --temperature 0
  ucuz inspect model.gguf --json
  ucuz doctor
  ucuz bench engine smollm2

Exit codes: 0 done, 1 error, 2 wrong usage, 70 the engine died")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// How much to log on stderr: error, warn, info, debug, trace, or a filter like ucuz_engine=debug
    #[arg(long, global = true, default_value = "warn", env = "UCUZ_LOG")]
    log: String,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests over an OpenAI-compatible HTTP API
    Serve(serve::Args),
    /// Chat in the terminal, or answer one prompt
    Run(run::Args),
    /// Bring a model into the cache
    Pull(pull::Args),
    /// Show what a model is: tensors, formats, sizes, template, tokenizer
    Inspect(inspect::Args),
    /// Show what this machine is and which kernels it gets
    Doctor(doctor::Args),
    /// Measure speed and memory
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = match EnvFilter::try_new(&cli.log) {
        Ok(filter) => filter,
        Err(error) => {
            note!("error: --log {}: {error}", cli.log);
            return ExitCode::from(2);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written must not end the server: the library would tell stderr, and panic.
        .log_internal_errors(false)
        .init();
    let outcome = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Run(args) => run::run(args),
        Command::Pull(args) => pull::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) if output::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            note!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! `ucuz bench`: speed and memory, measured.
//!
//! One file a bench: arguments to the options of `ucuz_measure`, and back to what is printed. Shared: [`host`] (clock, memory
//! and progress), [`model`] (the model to measure), [`lengths_file`] (lists of lengths), [`output`] (tables, JSON, HTML), [`provenance`].

mod cache;
mod engine;
mod host;
mod kernels;
mod lengths_file;
mod memory;
mod model;
mod output;
mod policy;
mod provenance;
mod serve;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Arguments of `ucuz bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench engine smollm2
  ucuz bench engine model.gguf --only decode --contexts 16,1024 --json -
  ucuz bench cache smollm2 --lengths 16,64,256 --html cache.html
  ucuz bench policy smollm2 --only all-at-once
  ucuz bench memory smollm2 --reserve 4096
  ucuz bench kernels --only linear --formats Q4_1,Q8_0
  ucuz bench serve http://127.0.0.1:8000 --concurrency 8

Figures of all but serve are medians of --repeat runs, with the smallest and the largest. Keep the machine quiet meanwhile.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Prefill against prompt length, decode against context, throughput against batch
    Engine(engine::Args),
    /// The same tokens with and without the KV cache: identity, time, work and memory of both
    Cache(cache::Args),
    /// Static against continuous batching of the same requests: simulated, and run for real
    Policy(policy::Args),
    /// Users that the same KV memory holds: naive reservation against paged, computed and run for real
    Memory(memory::Args),
    /// Each operation and number format against what the machine can do at most; needs no model
    Kernels(kernels::Args),
    /// Requests to a running server: latencies, throughput, outcomes, whether it stays well
    Serve(Box<serve::Args>),
}

/// Measures and prints.
///
/// # Errors
/// What the bench reports.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.what {
        What::Engine(args) => engine::run(args),
        What::Cache(args) => cache::run(args),
        What::Policy(args) => policy::run(args),
        What::Memory(args) => memory::run(args),
        What::Kernels(args) => kernels::run(args),
        What::Serve(args) => serve::run(&args),
    }
}

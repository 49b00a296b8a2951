//! `ucuz doctor`: what this machine is, and which kernel serves which operation.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;
use ucuz_cpu::{Tier, detect};

use crate::backends::{self, BackendName, BackendOptions};
use crate::engine_args::parse_tier;
use crate::size::ByteSize;

/// Arguments of `ucuz doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show the kernels of this tier: generic, avx2, avx512
    #[arg(long, value_parser = parse_tier)]
    cpu_tier: Option<Tier>,
    /// Threads that compute
    #[arg(long)]
    threads: Option<usize>,
    /// Machine-readable output with stable keys
    #[arg(long)]
    json: bool,
}

/// Prints the report.
///
/// # Errors
/// A tier that this processor lacks.
pub fn run(args: Args) -> Result<ExitCode> {
    let options = BackendOptions {
        name: BackendName::Cpu,
        tier: args.cpu_tier,
        threads: args.threads,
        pin: false,
    };
    let info = backends::open(options)?.describe();
    let features = detect::CpuFeatures::detect();
    let names: Vec<&str> = features.names().collect();
    let (total, available) = (
        detect::total_memory_bytes(),
        detect::available_memory_bytes(),
    );
    if args.json {
        let kernels: Vec<_> = info
            .kernels
            .iter()
            .map(|k| json!({"operation": k.operation, "kernel": k.kernel, "why": k.why}))
            .collect();
        let tiers: Vec<_> = Tier::ALL
            .iter()
            .map(|t| json!({"tier": t.name(), "available": features.missing(*t).is_none(), "missing": features.missing(*t)}))
            .collect();
        let report = json!({
            "processor": detect::cpu_model(),
            "features": names,
            "physical_cores": detect::physical_cores(),
            "threads": info.threads,
            "memory_total_bytes": total,
            "memory_available_bytes": available,
            "tiers": tiers,
            "device": info.device,
            "exactness": {
                "rows": info.exactness.rows,
                "chunks": info.exactness.chunks,
                "resume": info.exactness.resume,
                "tiers": info.exactness.tiers,
            },
            "arithmetic_version": ucuz_tensor::ARITHMETIC_VERSION,
            "kernels": kernels,
        });
        println!("{report:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let size = |bytes: Option<u64>| {
        bytes.map_or_else(|| "unknown".to_owned(), |b| ByteSize(b).to_string())
    };
    println!("processor   {}", detect::cpu_model());
    println!(
        "cores       {} physical, {} threads compute",
        detect::physical_cores(),
        info.threads
    );
    println!(
        "memory      {} available of {}",
        size(available),
        size(total)
    );
    println!("features    {}", names.join(" "));
    for tier in Tier::ALL {
        let state = features
            .missing(tier)
            .unwrap_or_else(|| "available".to_owned());
        println!("tier        {:<8} {state}", tier.name());
    }
    println!("device      {}", info.device);
    let e = info.exactness;
    println!(
        "exact       rows {}, chunks {}, resume {}, tiers {} (arithmetic {})",
        e.rows,
        e.chunks,
        e.resume,
        e.tiers,
        ucuz_tensor::ARITHMETIC_VERSION
    );
    println!(
        "\n{:<28} {:<10} why not a faster one",
        "operation", "kernel"
    );
    for kernel in info.kernels {
        println!(
            "{:<28} {:<10} {}",
            kernel.operation, kernel.kernel, kernel.why
        );
    }
    Ok(ExitCode::SUCCESS)
}

//! `ucuz doctor`: what this machine is, and which kernel serves which operation.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use ucuz_cpu::Tier;
use ucuz_cpu::detect::{self, CpuFeatures};
use ucuz_tensor::backend::BackendInfo;

use crate::backends::{self, BackendName, BackendOptions};
use crate::engine_args::parse_tier;
use crate::output;
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
    let report = if args.json {
        format!("{:#}\n", json(&info, &features))
    } else {
        text(&info, &features)?
    };
    output::print(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn json(info: &BackendInfo, features: &CpuFeatures) -> Value {
    let names: Vec<&str> = features.names().collect();
    let (total, available) = (
        detect::total_memory_bytes(),
        detect::available_memory_bytes(),
    );
    let kernels: Vec<_> = info
        .kernels
        .iter()
        .map(|k| json!({"operation": k.operation, "kernel": k.kernel, "why": k.why}))
        .collect();
    let tiers: Vec<_> = Tier::ALL
        .iter()
        .map(|t| json!({"tier": t.name(), "available": features.missing(*t).is_none(), "missing": features.missing(*t)}))
        .collect();
    json!({
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
    })
}

fn text(info: &BackendInfo, features: &CpuFeatures) -> Result<String, std::fmt::Error> {
    let names: Vec<&str> = features.names().collect();
    let (total, available) = (
        detect::total_memory_bytes(),
        detect::available_memory_bytes(),
    );
    let mut out = String::new();
    let size = |bytes: Option<u64>| {
        bytes.map_or_else(|| "unknown".to_owned(), |b| ByteSize(b).to_string())
    };
    writeln!(out, "processor   {}", detect::cpu_model())?;
    writeln!(
        out,
        "cores       {} physical, {} threads compute",
        detect::physical_cores(),
        info.threads
    )?;
    writeln!(
        out,
        "memory      {} available of {}",
        size(available),
        size(total)
    )?;
    writeln!(out, "features    {}", names.join(" "))?;
    for tier in Tier::ALL {
        let state = features
            .missing(tier)
            .unwrap_or_else(|| "available".to_owned());
        writeln!(out, "tier        {:<8} {state}", tier.name())?;
    }
    writeln!(out, "device      {}", info.device)?;
    let e = info.exactness;
    writeln!(
        out,
        "exact       rows {}, chunks {}, resume {}, tiers {} (arithmetic {})",
        e.rows,
        e.chunks,
        e.resume,
        e.tiers,
        ucuz_tensor::ARITHMETIC_VERSION
    )?;
    writeln!(
        out,
        "\n{:<28} {:<10} why not a faster one",
        "operation", "kernel"
    )?;
    for kernel in &info.kernels {
        writeln!(
            out,
            "{:<28} {:<10} {}",
            kernel.operation, kernel.kernel, kernel.why
        )?;
    }
    Ok(out)
}

//! `ucuz doctor`: what this machine is, and which kernel serves which operation.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use ucuz_cpu::Tier;
use ucuz_cpu::detect::{self, CpuFeatures};
use ucuz_tensor::backend::{BackendInfo, KernelChoice};

use crate::backends::{self, BackendName, BackendOptions};
use crate::engine_args::parse_tier;
use crate::output;
use crate::size::ByteSize;

/// Arguments of `ucuz doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show the kernels of this tier: generic, avx2, avx512, amx
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
        "numa_nodes": detect::numa_nodes(),
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
    if detect::numa_nodes() > 1 {
        writeln!(
            out,
            "numa        {} memory nodes; weights and threads are not placed by node: keep a process on one, \
             e.g. with numactl --cpunodebind=0 --membind=0",
            detect::numa_nodes()
        )?;
    }
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
    kernels(&mut out, info)?;
    Ok(out)
}

/// The dispatch table.
fn kernels(out: &mut String, info: &BackendInfo) -> std::fmt::Result {
    let width = |of: fn(&KernelChoice) -> &str| {
        let widths = info.kernels.iter().map(|kernel| of(kernel).len());
        widths.max().unwrap_or(0)
    };
    let (operations, names) = (width(|k| &k.operation), width(|k| &k.kernel));
    writeln!(
        out,
        "\n{:<operations$}  {:<names$}  why not a faster one",
        "operation", "kernel"
    )?;
    for kernel in &info.kernels {
        let why = match kernel.why.as_str() {
            "" => "the fastest there is",
            why => why,
        };
        let (operation, name) = (&kernel.operation, &kernel.kernel);
        writeln!(out, "{operation:<operations$}  {name:<names$}  {why}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ucuz_tensor::Backend;

    use super::*;

    fn info() -> BackendInfo {
        let options = ucuz_cpu::CpuOptions::quiet(Tier::Generic, 1);
        let backend = ucuz_cpu::CpuBackend::new(options).expect("generic runs everywhere");
        backend.describe()
    }

    #[test]
    fn every_operation_has_a_reason_and_columns_line_up() {
        let features = CpuFeatures::detect();
        let text = text(&info(), &features).expect("a string takes everything");
        let mut lines = text
            .lines()
            .skip_while(|line| !line.starts_with("operation"));
        let header = lines.next().expect("a table");
        let column = header.find("why").expect("a column");
        for line in lines {
            let (before, why) = line.split_at(column);
            assert!(before.ends_with("  "), "{line:?}");
            assert!(!why.is_empty() && !why.starts_with(' '), "{line:?}");
        }
        assert!(text.contains("\ntier        amx      "), "{text}");
    }

    #[test]
    fn machines_get_the_same_facts() {
        let info = info();
        let report = json(&info, &CpuFeatures::detect());
        let kernels = report["kernels"].as_array().expect("a table");
        assert_eq!(kernels.len(), info.kernels.len());
        assert!(
            report["arithmetic_version"].is_number() || report["arithmetic_version"].is_string()
        );
        let names = report["features"].as_array().expect("a list");
        let has = names.iter().any(|name| name == "amx-tile");
        assert_eq!(has, CpuFeatures::detect().has("amx-tile"));
    }
}

//! `ucuz inspect`: what a model is, from its headers alone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use ucuz_formats::Checkpoint;
use ucuz_formats::config::TokenizerSource;
use ucuz_models::cache_spec;
use ucuz_tensor::KvDtype;
use ucuz_tensor::layout::PanelLayout;

use crate::engine_args::DEFAULT_MODEL;
use crate::output;
use crate::size::ByteSize;
use crate::store::{self, ModelRef, progress};

/// Arguments of `ucuz inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz inspect smollm2
  ucuz inspect model.gguf --tensors
  ucuz inspect model.gguf --json | jq .bits_per_weight")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Machine-readable output with stable keys
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: store::Options,
}

/// Prints the report.
///
/// # Errors
/// The model cannot be brought, or its headers are damaged.
pub fn run(args: Args) -> Result<ExitCode> {
    let reference = ModelRef::parse(args.model.as_deref().unwrap_or(DEFAULT_MODEL))?;
    let resolved = args
        .store
        .open()?
        .resolve(&reference, progress::on_stderr().as_mut())?;
    let checkpoint = Checkpoint::open(&resolved.path)
        .with_context(|| format!("cannot read {}", resolved.path.display()))?;
    let report = report(&checkpoint);
    if args.json {
        output::print(&format!("{report:#}\n"))?;
    } else {
        output::print(&text(&checkpoint, &report, args.tensors)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sizes of all tensors of one format.
#[derive(Default)]
struct FormatTotal {
    tensors: u64,
    parameters: u64,
    stored_bytes: u64,
    resident_bytes: u64,
}

/// Bytes of a tensor in memory: its compute layout, or f32 for vectors.
fn resident_bytes(format: ucuz_tensor::Format, shape: &[usize]) -> u64 {
    let elements = shape.iter().product::<usize>();
    let layout = match shape {
        [rows, cols] => PanelLayout::new(format, *rows, *cols)
            .ok()
            .and_then(|l| l.checked_bytes()),
        _ => None,
    };
    layout.unwrap_or(elements * 4) as u64
}

fn report(checkpoint: &Checkpoint) -> Value {
    let mut formats: BTreeMap<&'static str, FormatTotal> = BTreeMap::new();
    let mut tensors = Vec::new();
    for tensor in checkpoint.tensors() {
        let parameters = tensor.shape.iter().product::<usize>() as u64;
        let resident = resident_bytes(tensor.format, tensor.shape);
        let total = formats.entry(tensor.format.info().name).or_default();
        total.tensors += 1;
        total.parameters += parameters;
        total.stored_bytes += tensor.bytes.len() as u64;
        total.resident_bytes += resident;
        tensors.push(json!({
            "name": tensor.stored_name,
            "role": tensor.name,
            "format": tensor.format.info().name,
            "shape": tensor.shape,
            "stored_bytes": tensor.bytes.len(),
            "resident_bytes": resident,
        }));
    }
    let sum = |pick: fn(&FormatTotal) -> u64| formats.values().map(pick).sum::<u64>();
    let (parameters, stored) = (sum(|t| t.parameters), sum(|t| t.stored_bytes));
    let config = &checkpoint.config;
    json!({
        "name": checkpoint.name,
        "architecture": config.architecture,
        "parameters": parameters,
        "stored_bytes": stored,
        "resident_bytes": sum(|t| t.resident_bytes),
        "bits_per_weight": stored as f64 * 8.0 / parameters.max(1) as f64,
        "context": config.context,
        "vocab": config.vocab,
        "hidden": config.hidden,
        "layers": config.layers,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "ffn": config.ffn,
        "rope_theta": config.rope.theta,
        "rope_scaling": format!("{:?}", config.rope.scaling),
        "window": config.window,
        "sliding_layers": config.sliding.iter().filter(|s| **s).count(),
        "kv_bytes_per_token": kv_bytes(checkpoint),
        "formats": formats.iter().map(|(name, t)| json!({
            "format": name,
            "tensors": t.tensors,
            "parameters": t.parameters,
            "stored_bytes": t.stored_bytes,
            "resident_bytes": t.resident_bytes,
            "bits_per_weight": t.stored_bytes as f64 * 8.0 / t.parameters.max(1) as f64,
        })).collect::<Vec<_>>(),
        "tokenizer": tokenizer(checkpoint),
        "chat_template": checkpoint.chat_template,
        "generation_defaults": defaults(checkpoint),
        "warnings": checkpoint.warnings(),
        "tensors": tensors,
    })
}

fn kv_bytes(checkpoint: &Checkpoint) -> Value {
    let bytes = |dtype| cache_spec(&checkpoint.config, dtype).token_bytes();
    KvDtype::ALL
        .into_iter()
        .map(|dtype| (dtype.name().to_owned(), json!(bytes(dtype))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn tokenizer(checkpoint: &Checkpoint) -> Value {
    match &checkpoint.tokenizer {
        TokenizerSource::Gguf(vocab) => json!({
            "source": "gguf",
            "model": vocab.model,
            "pre": vocab.pre,
            "tokens": vocab.tokens.len(),
            "merges": vocab.merges.as_ref().map(Vec::len),
            "bos": vocab.bos,
            "eos": vocab.eos,
            "add_bos": vocab.add_bos,
        }),
        TokenizerSource::HuggingFace { tokenizer, .. } => {
            json!({"source": "tokenizer.json", "bytes": tokenizer.len()})
        }
        TokenizerSource::Missing => Value::Null,
    }
}

/// A number as people wrote it: 0.7, not the f32 next to it in f64.
fn decimal(value: Option<f32>) -> Value {
    value.and_then(|v| v.to_string().parse::<f64>().ok()).into()
}

fn defaults(checkpoint: &Checkpoint) -> Value {
    let d = &checkpoint.generation;
    json!({
        "temperature": decimal(d.temperature),
        "top_k": d.top_k,
        "top_p": decimal(d.top_p),
        "min_p": decimal(d.min_p),
        "repetition_penalty": decimal(d.repetition_penalty),
        "eos_ids": d.eos_ids,
    })
}

/// The report for people.
fn text(checkpoint: &Checkpoint, report: &Value, tensors: bool) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let config = &checkpoint.config;
    let size = |value: &Value| ByteSize(value.as_u64().unwrap_or(0)).to_string();
    writeln!(out, "name             {}", checkpoint.name)?;
    writeln!(out, "architecture     {}", config.architecture)?;
    writeln!(
        out,
        "parameters       {:.1} M at {:.3} bits per weight",
        report["parameters"].as_f64().unwrap_or(0.0) / 1e6,
        report["bits_per_weight"].as_f64().unwrap_or(0.0)
    )?;
    writeln!(
        out,
        "weights          {} in the file, {} in memory",
        size(&report["stored_bytes"]),
        size(&report["resident_bytes"])
    )?;
    writeln!(out, "context          {} tokens", config.context)?;
    writeln!(
        out,
        "shape            {} layers, hidden {}, feed-forward {}, {} heads of {}, {} key/value heads, vocabulary {}",
        config.layers,
        config.hidden,
        config.ffn,
        config.heads,
        config.head_dim,
        config.kv_heads,
        config.vocab
    )?;
    if let Some(window) = config.window {
        writeln!(
            out,
            "sliding window   {window} tokens in {} of {} layers",
            report["sliding_layers"], config.layers
        )?;
    }
    writeln!(
        out,
        "rope             theta {}, scaling {}",
        config.rope.theta,
        report["rope_scaling"].as_str().unwrap_or("")
    )?;
    for dtype in KvDtype::ALL {
        writeln!(
            out,
            "KV bytes/token   {:<5} {}",
            dtype.name(),
            report["kv_bytes_per_token"][dtype.name()]
        )?;
    }
    writeln!(out, "tokenizer        {}", report["tokenizer"])?;
    writeln!(
        out,
        "chat template    {}",
        checkpoint
            .chat_template
            .as_ref()
            .map_or_else(|| "none".to_owned(), |t| format!("{} bytes", t.len()))
    )?;
    writeln!(out, "defaults         {}", report["generation_defaults"])?;
    writeln!(
        out,
        "\n{:<8} {:>8} {:>14} {:>12} {:>12} {:>8}",
        "format", "tensors", "parameters", "file", "memory", "bits"
    )?;
    for row in report["formats"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "{:<8} {:>8} {:>14} {:>12} {:>12} {:>8.3}",
            row["format"].as_str().unwrap_or(""),
            row["tensors"],
            row["parameters"],
            size(&row["stored_bytes"]),
            size(&row["resident_bytes"]),
            row["bits_per_weight"].as_f64().unwrap_or(0.0)
        )?;
    }
    for warning in checkpoint.warnings() {
        writeln!(out, "warning: {warning}")?;
    }
    if tensors {
        writeln!(out)?;
        for row in report["tensors"].as_array().into_iter().flatten() {
            let (name, format) = (
                row["name"].as_str().unwrap_or(""),
                row["format"].as_str().unwrap_or(""),
            );
            writeln!(
                out,
                "{name:<48} {format:<7} {:<16} {:>12}",
                row["shape"].to_string(),
                size(&row["stored_bytes"])
            )?;
        }
    } else {
        writeln!(out, "\n--tensors lists every tensor")?;
    }
    Ok(out)
}

//! The report for people.

use std::fmt::{Result, Write};

use ucuz_formats::Checkpoint;
use ucuz_formats::config::{
    GenerationDefaults, ModelConfig, RopeConfig, RopeScaling, TokenizerSource, VocabMetadata,
};

use super::sizes::{Serving, Sizes, kv_bytes_per_token};
use crate::size::ByteSize;

/// The whole report; every tensor with `tensors`.
///
/// # Errors
/// None: a string takes everything.
pub fn report(
    checkpoint: &Checkpoint,
    (sizes, serving): (&Sizes<'_>, Serving),
    tensors: bool,
) -> std::result::Result<String, std::fmt::Error> {
    let mut out = String::new();
    model(&mut out, checkpoint, sizes)?;
    memory(&mut out, sizes, serving)?;
    words(&mut out, checkpoint)?;
    formats(&mut out, sizes)?;
    for warning in checkpoint.warnings() {
        writeln!(out, "warning: {warning}")?;
    }
    if tensors {
        tensor_table(&mut out, sizes)?;
    } else {
        writeln!(out, "\n--tensors lists every tensor")?;
    }
    Ok(out)
}

/// Sizes and shape of the model.
fn model(out: &mut String, checkpoint: &Checkpoint, sizes: &Sizes<'_>) -> Result {
    let (config, total) = (&checkpoint.config, &sizes.total);
    writeln!(out, "name             {}", checkpoint.name)?;
    writeln!(out, "architecture     {}", config.architecture)?;
    writeln!(
        out,
        "parameters       {:.1} M at {:.3} bits per weight",
        total.parameters as f64 / 1e6,
        total.bits_per_weight()
    )?;
    writeln!(
        out,
        "weights          {} in the file, {} in memory",
        ByteSize(total.stored_bytes),
        ByteSize(total.resident_bytes)
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
    positions(out, config)?;
    for (dtype, bytes) in kv_bytes_per_token(checkpoint) {
        writeln!(out, "KV bytes/token   {dtype:<5} {bytes}")?;
    }
    Ok(())
}

/// What a server holds before the first token is cached.
fn memory(out: &mut String, sizes: &Sizes<'_>, serving: Serving) -> Result {
    let workspace = serving.workspace_bytes;
    writeln!(
        out,
        "memory to serve  {} and the KV bytes of cached tokens: weights, and {} to work in ({} requests at once, {} tokens a step)",
        ByteSize(sizes.total.resident_bytes + workspace),
        ByteSize(workspace),
        serving.sequences,
        serving.step_tokens
    )
}

/// Windows and rotary embeddings.
fn positions(out: &mut String, config: &ModelConfig) -> Result {
    if let Some(window) = config.window {
        let sliding = config.sliding.iter().filter(|s| **s).count();
        writeln!(
            out,
            "sliding window   {window} tokens in {sliding} of {} layers",
            config.layers
        )?;
    }
    write!(out, "rope             {}", rope(&config.rope))?;
    if let Some(local) = &config.rope_local {
        write!(out, "; in sliding layers {}", rope(local))?;
    }
    writeln!(out)
}

fn rope(rope: &RopeConfig) -> String {
    let scaling = match &rope.scaling {
        RopeScaling::None => "no scaling".to_owned(),
        RopeScaling::Linear { factor } => format!("positions divided by {factor}"),
        RopeScaling::Llama3 {
            factor,
            original_context,
            ..
        } => format!(
            "low frequencies divided by {factor} (Llama 3, first trained with {original_context} tokens)"
        ),
        RopeScaling::Factors(factors) => {
            let (low, high) = factors
                .iter()
                .fold((f32::INFINITY, 0.0f32), |(low, high), f| {
                    (low.min(*f), high.max(*f))
                });
            format!("{} frequencies divided by {low} to {high}", factors.len())
        }
    };
    format!("theta {}, {scaling}", rope.theta)
}

/// Tokenizer, template, sampling defaults.
fn words(out: &mut String, checkpoint: &Checkpoint) -> Result {
    let tokenizer = match &checkpoint.tokenizer {
        TokenizerSource::Gguf(vocab) => vocabulary(vocab),
        TokenizerSource::HuggingFace { tokenizer, .. } => {
            format!("tokenizer.json, {}", ByteSize(tokenizer.len() as u64))
        }
        TokenizerSource::Missing => "none".to_owned(),
    };
    writeln!(out, "tokenizer        {tokenizer}")?;
    let template = checkpoint
        .chat_template
        .as_ref()
        .map_or_else(|| "none".to_owned(), |t| format!("{} bytes", t.len()));
    writeln!(out, "chat template    {template}")?;
    writeln!(out, "defaults         {}", defaults(&checkpoint.generation))
}

fn vocabulary(vocab: &VocabMetadata) -> String {
    let mut parts = vec![format!("{} in the GGUF file", vocab.model)];
    parts.extend(vocab.pre.as_ref().map(|pre| format!("split as {pre}")));
    parts.push(format!("{} tokens", vocab.tokens.len()));
    let merges = vocab.merges.as_ref();
    parts.extend(merges.map(|merges| format!("{} merges", merges.len())));
    parts.extend(vocab.bos.map(|id| format!("BOS {id}")));
    parts.extend(vocab.eos.map(|id| format!("EOS {id}")));
    parts.extend(vocab.add_bos.map(|adds| match adds {
        true => "prompts begin with BOS".to_owned(),
        false => "no BOS added to prompts".to_owned(),
    }));
    parts.join(", ")
}

/// What the publisher samples with; `none` when the checkpoint is silent.
fn defaults(defaults: &GenerationDefaults) -> String {
    let named = |name: &str, value: Option<f32>| value.map(|value| format!("{name} {value}"));
    let mut parts: Vec<String> = [
        named("temperature", defaults.temperature),
        defaults.top_k.map(|k| format!("top_k {k}")),
        named("top_p", defaults.top_p),
        named("min_p", defaults.min_p),
        named("repetition_penalty", defaults.repetition_penalty),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !defaults.eos_ids.is_empty() {
        let ids: Vec<String> = defaults.eos_ids.iter().map(u32::to_string).collect();
        parts.push(format!("ends with token {}", ids.join(" or ")));
    }
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    }
}

fn formats(out: &mut String, sizes: &Sizes<'_>) -> Result {
    writeln!(
        out,
        "\n{:<8} {:>8} {:>14} {:>12} {:>12} {:>8}",
        "format", "tensors", "parameters", "file", "memory", "bits"
    )?;
    for (format, total) in &sizes.formats {
        writeln!(
            out,
            "{format:<8} {:>8} {:>14} {:>12} {:>12} {:>8.3}",
            total.tensors,
            total.parameters,
            ByteSize(total.stored_bytes).to_string(),
            ByteSize(total.resident_bytes).to_string(),
            total.bits_per_weight()
        )?;
    }
    Ok(())
}

fn tensor_table(out: &mut String, sizes: &Sizes<'_>) -> Result {
    writeln!(
        out,
        "\n{:<48} {:<8} {:<16} {:>12}",
        "tensor", "format", "shape", "file"
    )?;
    for tensor in &sizes.tensors {
        let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
        writeln!(
            out,
            "{:<48} {:<8} {:<16} {:>12}",
            tensor.name,
            tensor.format,
            shape.join(" x "),
            ByteSize(tensor.total.stored_bytes).to_string()
        )?;
    }
    Ok(())
}

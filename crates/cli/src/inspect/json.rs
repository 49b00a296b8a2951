//! The report for machines: stable keys, `null` where a checkpoint says nothing.

use serde_json::{Value, json};
use ucuz_formats::Checkpoint;
use ucuz_formats::config::{RopeConfig, RopeScaling, TokenizerSource};

use super::sizes::{Serving, Sizes, TensorSize, Total, kv_bytes_per_token};

/// The whole report.
pub fn report(checkpoint: &Checkpoint, sizes: &Sizes<'_>, serving: Serving) -> Value {
    let config = &checkpoint.config;
    let kv_bytes = kv_bytes_per_token(checkpoint).into_iter();
    json!({
        "name": checkpoint.name,
        "architecture": config.architecture,
        "parameters": sizes.total.parameters,
        "stored_bytes": sizes.total.stored_bytes,
        "resident_bytes": sizes.total.resident_bytes,
        "bits_per_weight": sizes.total.bits_per_weight(),
        "context": config.context,
        "vocab": config.vocab,
        "hidden": config.hidden,
        "layers": config.layers,
        "heads": config.heads,
        "kv_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "ffn": config.ffn,
        "rope_theta": config.rope.theta,
        "rope_scaling": scaling(&config.rope),
        "rope_local": config.rope_local.as_ref().map(|rope| json!({
            "theta": rope.theta,
            "scaling": scaling(rope),
        })),
        "window": config.window,
        "sliding_layers": config.sliding.iter().filter(|s| **s).count(),
        "kv_bytes_per_token": kv_bytes
            .map(|(dtype, bytes)| (dtype.to_owned(), json!(bytes)))
            .collect::<serde_json::Map<_, _>>(),
        "serving": {
            "sequences": serving.sequences,
            "step_tokens": serving.step_tokens,
            "workspace_bytes": serving.workspace_bytes,
            "bytes_before_kv": sizes.total.resident_bytes + serving.workspace_bytes,
        },
        "formats": formats(sizes),
        "tokenizer": tokenizer(checkpoint),
        "chat_template": checkpoint.chat_template,
        "generation_defaults": defaults(checkpoint),
        "warnings": checkpoint.warnings(),
        "tensors": tensors(sizes),
    })
}

fn formats(sizes: &Sizes<'_>) -> Value {
    let row = |(name, total): (&&str, &Total)| {
        json!({
            "format": name,
            "tensors": total.tensors,
            "parameters": total.parameters,
            "stored_bytes": total.stored_bytes,
            "resident_bytes": total.resident_bytes,
            "bits_per_weight": total.bits_per_weight(),
        })
    };
    sizes.formats.iter().map(row).collect()
}

fn tensors(sizes: &Sizes<'_>) -> Value {
    let row = |tensor: &TensorSize<'_>| {
        json!({
            "name": tensor.name,
            "role": tensor.role,
            "format": tensor.format,
            "shape": tensor.shape,
            "stored_bytes": tensor.total.stored_bytes,
            "resident_bytes": tensor.total.resident_bytes,
        })
    };
    sizes.tensors.iter().map(row).collect()
}

fn scaling(rope: &RopeConfig) -> Value {
    match &rope.scaling {
        RopeScaling::None => Value::Null,
        RopeScaling::Linear { factor } => json!({"kind": "linear", "factor": factor}),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_context,
        } => json!({
            "kind": "llama3",
            "factor": factor,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "original_context": original_context,
        }),
        RopeScaling::Factors(factors) => json!({"kind": "factors", "factors": factors}),
    }
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

//! The tensors that a configuration implies, and the comparison of a file's tensors with them.
//!
//! After [`select`] every canonical tensor that a model asks for is there, has its shape, and norms and biases are floats.

use std::collections::HashMap;
use std::ops::Range;

use ucuz_tensor::Format;
use ucuz_tensor::format::Coding;

use crate::config::ModelConfig;
use crate::error::{FormatError, Place};
use crate::family::{Biases, Family};

/// A tensor of some file, named canonically.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) stored: String,
    pub(crate) format: Format,
    pub(crate) shape: Vec<usize>,
    /// Which of the checkpoint's maps.
    pub(crate) file: usize,
    pub(crate) span: Range<usize>,
}

/// What the file says beside the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Whether the output matrix is the embedding; `None`: when there is no output matrix.
    pub(crate) tied: Option<bool>,
    /// Whether attention has biases; `None`: when they are there.
    pub(crate) attention_bias: Option<bool>,
}

/// What is known of a canonical tensor before it is met.
struct Expected {
    shape: Vec<usize>,
    required: bool,
}

/// Suffixes of canonical or foreign tensors that change results: met where they are not expected, the model is refused.
const MEANINGFUL: &[&str] = &[
    "attn_q_norm.weight",
    "attn_k_norm.weight",
    "post_attention_norm.weight",
    "post_ffw_norm.weight",
    "attn_norm.bias",
    "ffn_norm.bias",
    "output_norm.bias",
    "output.bias",
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_output.bias",
    "ffn_gate.bias",
    "ffn_up.bias",
    "ffn_down.bias",
    "ffn_gate_inp.weight",
    "attn_sinks.weight",
    "attn_sub_norm.weight",
    "ffn_sub_norm.weight",
    "position_embd.weight",
    "token_embd_norm.weight",
];

/// Keeps the entries that `config` asks for, in order; tells of the rest in `warnings`.
pub(crate) fn select(
    entries: Vec<Entry>,
    family: &Family,
    config: &ModelConfig,
    layout: Layout,
    warnings: &mut Vec<String>,
) -> Result<Vec<Entry>, FormatError> {
    let mut expected = expected(family, config, layout);
    let mut kept = Vec::new();
    for entry in entries {
        if let Some(row) = expected.get_mut(&entry.name) {
            check(&entry, row)?;
            row.required = false;
            kept.push(entry);
        } else if is_refused(&entry.name, layout) {
            let rule = format!(
                "{} has no such tensor and it would change results",
                family.name
            );
            return Err(FormatError::unsupported(
                Place::Tensor(entry.stored),
                rule,
                "",
            ));
        } else if !is_silent(&entry.name, layout) {
            warnings.push(format!(
                "tensor {} is not used",
                entry.stored.escape_debug()
            ));
        }
    }
    // The first in name order, so that the same file gives the same message.
    match expected
        .into_iter()
        .filter(|(_, row)| row.required)
        .map(|(name, _)| name)
        .min()
    {
        None => Ok(kept),
        Some(name) => {
            let rule = format!("a {} model has this tensor", family.name);
            Err(FormatError::missing(Place::Tensor(name), rule))
        }
    }
}

fn expected(family: &Family, config: &ModelConfig, layout: Layout) -> HashMap<String, Expected> {
    let ModelConfig { vocab, hidden, .. } = *config;
    let mut all = HashMap::new();
    let mut put = |name: String, shape: &[usize], required: bool| {
        all.insert(
            name,
            Expected {
                shape: shape.to_vec(),
                required,
            },
        );
    };
    put("token_embd.weight".into(), &[vocab, hidden], true);
    put("output_norm.weight".into(), &[hidden], true);
    if layout.tied != Some(true) {
        put(
            "output.weight".into(),
            &[vocab, hidden],
            layout.tied == Some(false),
        );
    }
    for layer in 0..config.layers {
        for (suffix, shape, required) in layer_tensors(family, config, layout) {
            put(format!("blk.{layer}.{suffix}"), &shape, required);
        }
    }
    all
}

fn layer_tensors(
    family: &Family,
    config: &ModelConfig,
    layout: Layout,
) -> Vec<(&'static str, Vec<usize>, bool)> {
    let ModelConfig {
        hidden,
        ffn,
        head_dim,
        ..
    } = *config;
    let (q, kv) = (config.heads * head_dim, config.kv_heads * head_dim);
    let mut all = vec![
        ("attn_norm.weight", vec![hidden], true),
        ("attn_q.weight", vec![q, hidden], true),
        ("attn_k.weight", vec![kv, hidden], true),
        ("attn_v.weight", vec![kv, hidden], true),
        ("attn_output.weight", vec![hidden, q], true),
        ("ffn_norm.weight", vec![hidden], true),
        ("ffn_gate.weight", vec![ffn, hidden], true),
        ("ffn_up.weight", vec![ffn, hidden], true),
        ("ffn_down.weight", vec![hidden, ffn], true),
    ];
    if family.qk_norm {
        all.push(("attn_q_norm.weight", vec![head_dim], true));
        all.push(("attn_k_norm.weight", vec![head_dim], true));
    }
    if family.post_norms {
        all.push(("post_attention_norm.weight", vec![hidden], true));
        all.push(("post_ffw_norm.weight", vec![hidden], true));
    }
    let (biased, required) = match (family.biases, layout.attention_bias) {
        (Biases::Qkv, _) => (true, true),
        (Biases::Never, _) => (false, false),
        (Biases::Configured, said) => (said != Some(false), said == Some(true)),
    };
    if biased {
        all.push(("attn_q.bias", vec![q], required));
        all.push(("attn_k.bias", vec![kv], required));
        all.push(("attn_v.bias", vec![kv], required));
    }
    if biased && family.biases == Biases::Configured {
        all.push(("attn_output.bias", vec![hidden], required));
    }
    all
}

fn check(entry: &Entry, expected: &Expected) -> Result<(), FormatError> {
    if entry.shape != expected.shape {
        let rule = format!("the configuration implies the shape {:?}", expected.shape);
        let place = Place::tensor(&entry.stored);
        return Err(FormatError::damaged(
            place,
            rule,
            format!("{:?}", entry.shape),
        ));
    }
    if expected.shape.len() == 1 && entry.format.info().coding != Coding::Float {
        let rule = "norms and biases are stored as floats";
        return Err(FormatError::unsupported(
            Place::tensor(&entry.stored),
            rule,
            entry.format,
        ));
    }
    Ok(())
}

fn is_refused(name: &str, layout: Layout) -> bool {
    let suffix = match name
        .strip_prefix("blk.")
        .and_then(|rest| rest.split_once('.'))
    {
        Some((_, suffix)) => suffix,
        None => name,
    };
    // What `attention_bias: false` disowns is ignored, as transformers does.
    let disowned = layout.attention_bias == Some(false)
        && suffix.starts_with("attn_")
        && suffix.ends_with(".bias");
    MEANINGFUL.contains(&suffix) && !disowned
}

/// Tensors that say nothing new: rope tables and a copy of a tied embedding.
fn is_silent(name: &str, layout: Layout) -> bool {
    name == "rope_freqs.weight"
        || name.ends_with("rotary_emb.inv_freq")
        || name.ends_with("attn_rot_embd.weight")
        || (name == "output.weight" && layout.tied == Some(true))
}

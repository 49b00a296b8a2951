//! Hugging Face `config.json` to [`ModelConfig`].
//!
//! Here: [`parse`] over plain bytes. Every key that changes results is either understood or refused by name; nothing a file
//! names is ever executed (`auto_map` is ignored with a warning).
//! Source: `configuration_{llama,mistral,qwen2,qwen3,gemma3}.py` of transformers.

mod rope;
mod windows;

use serde_json::{Map, Value};

use crate::config::ModelConfig;
use crate::error::{FormatError, Place};
use crate::family::{self, Family};
use crate::limits;
use crate::validate::{narrow, reciprocal_sqrt, validate};

/// What `config.json` says.
pub struct HfConfig {
    /// Sizes and constants; `embedding_scale` is not yet rounded to the embedding's format.
    pub config: ModelConfig,
    /// Whether the output matrix is the embedding.
    pub tied: bool,
    /// Whether attention projections have biases.
    pub attention_bias: bool,
    /// What was met and not used.
    pub warnings: Vec<String>,
    pub(crate) family: &'static Family,
    pub(crate) multimodal: bool,
}

/// Keys of features that are not computed here, with the rule that is told.
const FEATURES: &[(&str, &str)] = &[
    ("attn_logit_softcapping", "attention logits are not capped"),
    ("final_logit_softcapping", "logits are not capped"),
    ("use_bidirectional_attention", "attention is causal"),
    ("mlp_bias", "the feed-forward has no biases"),
    ("is_encoder_decoder", "the model is decoder-only"),
    ("attention_chunk_size", "attention is not chunked"),
];

/// A JSON object with the accessors this module needs.
pub(crate) struct Object<'a> {
    map: &'a Map<String, Value>,
    /// Where keys are looked up that the inner object lacks (`text_config` inside `config.json`).
    outer: Option<&'a Map<String, Value>>,
}

/// Reads `config.json`.
///
/// # Errors
/// [`FormatError::Unsupported`] for another class or a feature that is not computed here, by name;
/// [`FormatError::Missing`] and [`FormatError::Damaged`] for absent or impossible values.
pub fn parse(bytes: &[u8]) -> Result<HfConfig, FormatError> {
    let root = object(bytes)?;
    let text = match root.get("text_config") {
        None | Some(Value::Null) => None,
        Some(Value::Object(text)) => Some(text),
        Some(other) => return Err(bad("text_config", "is an object", other)),
    };
    let family = find_family(&root)?;
    let json = Object {
        map: text.unwrap_or(&root),
        outer: text.map(|_| &root),
    };
    refuse_features(&json, family)?;
    let mut config = read_sizes(&json, family)?;
    rope::read(&json, family, &mut config)?;
    windows::read(&json, family, &mut config)?;
    validate(&config)?;
    let mut warnings = Vec::new();
    if json.get("auto_map").is_some() {
        warnings.push("auto_map of config.json is ignored: no code of a model is run".to_owned());
    }
    Ok(HfConfig {
        tied: json
            .boolean("tie_word_embeddings")?
            .unwrap_or(family.defaults.tied),
        attention_bias: json.boolean("attention_bias")?.unwrap_or(false),
        multimodal: text.is_some(),
        config,
        warnings,
        family,
    })
}

/// The bytes as a JSON object (nesting is bounded by the parser).
pub(crate) fn object(bytes: &[u8]) -> Result<Map<String, Value>, FormatError> {
    if bytes.len() as u64 > limits::CONFIG_BYTES_MAX {
        let rule = format!("the file has at most {} bytes", limits::CONFIG_BYTES_MAX);
        return Err(FormatError::damaged(Place::File, rule, bytes.len()));
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(FormatError::damaged(
            Place::File,
            "the file is a JSON object",
            "another value",
        )),
        Err(e) => Err(FormatError::damaged(
            Place::File,
            "the file is valid JSON",
            e,
        )),
    }
}

fn find_family(root: &Map<String, Value>) -> Result<&'static Family, FormatError> {
    let classes = match root.get("architectures") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list
            .iter()
            .map(|v| {
                v.as_str()
                    .ok_or_else(|| bad("architectures", "is a list of strings", v))
            })
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(bad("architectures", "is a list of strings", other)),
    };
    let model_type = root.get("model_type").and_then(Value::as_str);
    family::of_config(&classes, model_type)
}

fn refuse_features(json: &Object<'_>, family: &Family) -> Result<(), FormatError> {
    if let Some(quantization) = json.get("quantization_config") {
        let method = quantization
            .get("quant_method")
            .and_then(Value::as_str)
            .unwrap_or("unnamed");
        let place = Place::key("quantization_config");
        let rule = "quantised safetensors are not read";
        return Err(
            FormatError::unsupported(place, rule, format!("quant_method {method}"))
                .advise("take the unquantised checkpoint, or a GGUF file of this model"),
        );
    }
    for (key, rule) in FEATURES {
        let unused = |v: &&Value| matches!(v, Value::Bool(false)) || v.as_f64() == Some(0.0);
        if let Some(value) = json.get(key).filter(|v| !unused(v)) {
            return Err(FormatError::unsupported(Place::key(*key), *rule, value));
        }
    }
    for key in ["hidden_act", "hidden_activation"] {
        if let Some(value) = json.get(key)
            && value.as_str() != Some(family.activation)
        {
            let rule = format!("{} uses {}", family.name, family.activation);
            return Err(FormatError::unsupported(Place::key(key), rule, value));
        }
    }
    Ok(())
}

fn read_sizes(json: &Object<'_>, family: &Family) -> Result<ModelConfig, FormatError> {
    let defaults = &family.defaults;
    let hidden = json.size("hidden_size", limits::HIDDEN_MAX, None)?;
    let heads = json.size("num_attention_heads", limits::HEADS_MAX, defaults.heads)?;
    let head_dim = json.head_dim(family, hidden, heads)?;
    let kv_heads = if json.is_null("num_key_value_heads") {
        heads
    } else {
        let default = Some(defaults.kv_heads.unwrap_or(heads as u64));
        json.size("num_key_value_heads", limits::HEADS_MAX, default)?
    };
    let query_scalar = match json.float("query_pre_attn_scalar")? {
        Some(given) if defaults.query_scalar.is_some() => given,
        _ => defaults.query_scalar.unwrap_or(head_dim as f64),
    };
    let scale = if family.scaled_embedding {
        (hidden as f64).sqrt()
    } else {
        1.0
    };
    Ok(ModelConfig {
        architecture: family.name.to_owned(),
        vocab: json.size("vocab_size", limits::VOCAB_MAX, defaults.vocab)?,
        hidden,
        layers: json.size("num_hidden_layers", limits::LAYERS_MAX, None)?,
        heads,
        kv_heads,
        head_dim,
        ffn: json.size("intermediate_size", limits::FFN_MAX, None)?,
        norm_eps: narrow(json.float("rms_norm_eps")?.unwrap_or(1e-6)),
        context: json.size(
            "max_position_embeddings",
            limits::CONTEXT_MAX,
            defaults.context,
        )?,
        rope: rope::plain(defaults.theta, head_dim),
        rope_local: None,
        window: None,
        sliding: Vec::new(),
        attention_scale: reciprocal_sqrt(query_scalar),
        embedding_scale: narrow(scale),
        norm_offset: family.hf_norm_offset,
    })
}

impl<'a> Object<'a> {
    /// A part of the object, for its own accessors.
    pub(crate) fn inner(map: &'a Map<String, Value>) -> Self {
        Self { map, outer: None }
    }

    /// The value of `key` unless it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        let found = self
            .map
            .get(key)
            .or_else(|| self.outer.and_then(|outer| outer.get(key)));
        found.filter(|value| !value.is_null())
    }

    fn is_null(&self, key: &str) -> bool {
        matches!(self.map.get(key), Some(Value::Null))
    }

    /// A number, finite.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>, FormatError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.as_f64() {
            Some(x) if x.is_finite() => Ok(Some(x)),
            _ => Err(bad(key, "is a number", value)),
        }
    }

    /// A truth value.
    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>, FormatError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value
            .as_bool()
            .map(Some)
            .ok_or_else(|| bad(key, "is true or false", value))
    }

    /// An object.
    pub(crate) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, FormatError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        value
            .as_object()
            .map(Some)
            .ok_or_else(|| bad(key, "is an object", value))
    }

    /// An integer from 1 to `limit`, or the default where there is one.
    pub(crate) fn size(
        &self,
        key: &str,
        limit: u64,
        default: Option<u64>,
    ) -> Result<usize, FormatError> {
        let n = match (self.get(key), default) {
            (Some(value), _) => value.as_u64(),
            (None, Some(default)) => Some(default),
            (None, None) => {
                let rule = "config.json has this key";
                return Err(FormatError::missing(Place::key(key), rule));
            }
        };
        let size = n
            .filter(|n| (1..=limit).contains(n))
            .and_then(|n| usize::try_from(n).ok());
        let rule = format!("is an integer from 1 to {limit}");
        size.ok_or_else(|| bad(key, &rule, self.get(key).unwrap_or(&Value::Null)))
    }

    fn head_dim(&self, family: &Family, hidden: usize, heads: usize) -> Result<usize, FormatError> {
        let key = "head_dim";
        if self.get(key).is_some() {
            return self.size(key, limits::HEAD_DIM_MAX, None);
        }
        if let Some(default) = family.defaults.head_dim.filter(|_| !self.is_null(key)) {
            return self.size(key, limits::HEAD_DIM_MAX, Some(default));
        }
        if !hidden.is_multiple_of(heads) {
            let rule = format!("num_attention_heads divides hidden_size {hidden}");
            return Err(FormatError::setting("num_attention_heads", rule, heads));
        }
        Ok(hidden / heads)
    }
}

/// A value of the wrong kind; long values are cut when shown.
pub(crate) fn bad(key: &str, rule: &str, value: &Value) -> FormatError {
    let shown = match value {
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(map) => format!("an object of {} keys", map.len()),
        Value::String(text) => text.chars().take(100).collect(),
        other => other.to_string(),
    };
    FormatError::setting(key, format!("{key} {rule}"), shown)
}

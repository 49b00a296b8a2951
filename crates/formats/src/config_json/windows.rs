//! Sliding windows of `config.json`.
//!
//! A window of W lets a query see the W latest tokens, itself included: transformers masks with `kv > q - W`
//! (`masking_utils.py: sliding_window_overlay`), llama.cpp hides `q - kv >= W`; [`ModelConfig::window`] means the same.

use serde_json::Value;

use super::{Object, bad};
use crate::config::ModelConfig;
use crate::error::{FormatError, Place};
use crate::family::{Family, Windows};
use crate::gguf::config::every;
use crate::limits;

/// Fills `config.window` and `config.sliding`.
pub(super) fn read(
    json: &Object<'_>,
    family: &Family,
    config: &mut ModelConfig,
) -> Result<(), FormatError> {
    let used = match family.windows {
        Windows::Never => false,
        Windows::Upper => json.boolean("use_sliding_window")?.unwrap_or(false),
        Windows::All | Windows::Pattern => !json.is_null("sliding_window"),
    };
    if !used {
        config.rope_local = None;
        return listed(json, config.layers).map(drop);
    }
    let sliding = match listed(json, config.layers)? {
        Some(listed) => listed,
        None => by_rule(json, family, config.layers)?,
    };
    if sliding.contains(&true) {
        let default = family.defaults.window;
        config.window = Some(json.size("sliding_window", limits::CONTEXT_MAX, default)?);
        config.sliding = sliding;
    } else {
        config.rope_local = None;
    }
    Ok(())
}

/// `layer_types`, one entry a layer.
fn listed(json: &Object<'_>, layers: usize) -> Result<Option<Vec<bool>>, FormatError> {
    let key = "layer_types";
    let Some(value) = json.get(key) else {
        return Ok(None);
    };
    let Some(list) = value.as_array().filter(|list| list.len() == layers) else {
        return Err(bad(key, &format!("is a list of {layers} names"), value));
    };
    let slides = |value: &Value| match value.as_str() {
        Some("full_attention") => Ok(false),
        Some("sliding_attention") => Ok(true),
        Some(other) => {
            let rule = "layers are full_attention or sliding_attention";
            Err(FormatError::unsupported(Place::key(key), rule, other))
        }
        None => Err(bad(key, "is a list of names", value)),
    };
    list.iter().map(slides).collect::<Result<_, _>>().map(Some)
}

fn by_rule(json: &Object<'_>, family: &Family, layers: usize) -> Result<Vec<bool>, FormatError> {
    match family.windows {
        Windows::Never | Windows::All => Ok(vec![true; layers]),
        Windows::Upper => {
            // 0 is a value here: every layer slides.
            let key = "max_window_layers";
            let first = json
                .get(key)
                .map_or(Some(28), Value::as_u64)
                .ok_or_else(|| {
                    bad(
                        key,
                        "is a number of layers",
                        json.get(key).unwrap_or(&Value::Null),
                    )
                })?;
            Ok((0..layers as u64).map(|layer| layer >= first).collect())
        }
        Windows::Pattern => {
            let newer = json.get("_sliding_window_pattern").is_some();
            let key = if newer {
                "_sliding_window_pattern"
            } else {
                "sliding_window_pattern"
            };
            Ok(every(json.size(key, limits::LAYERS_MAX, Some(6))?, layers))
        }
    }
}

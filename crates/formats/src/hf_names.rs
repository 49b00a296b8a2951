//! Hugging Face tensor names to canonical ones.

use crate::family::Family;

/// The canonical name of `stored`; `None` when the family has no such tensor.
pub(crate) fn canonical(family: &Family, stored: &str) -> Option<String> {
    let rest = strip(stored);
    match rest {
        "embed_tokens.weight" => Some("token_embd.weight".to_owned()),
        "norm.weight" => Some("output_norm.weight".to_owned()),
        "lm_head.weight" => Some("output.weight".to_owned()),
        "norm.bias" => Some("output_norm.bias".to_owned()),
        "lm_head.bias" => Some("output.bias".to_owned()),
        _ => in_layer(family, rest),
    }
}

/// Whether a multimodal checkpoint's tensor belongs to the part that is not text.
pub(crate) fn is_vision(stored: &str) -> bool {
    let rest = stored.strip_prefix("model.").unwrap_or(stored);
    rest.starts_with("vision_tower.") || rest.starts_with("multi_modal_projector.")
}

/// Without the prefixes that differ between base, causal and multimodal classes.
fn strip(stored: &str) -> &str {
    [
        "model.language_model.",
        "language_model.model.",
        "language_model.",
        "model.",
    ]
    .iter()
    .find_map(|prefix| stored.strip_prefix(prefix))
    .unwrap_or(stored)
}

fn in_layer(family: &Family, rest: &str) -> Option<String> {
    let (layer, rest) = rest.strip_prefix("layers.")?.split_once('.')?;
    // Only the plain decimal spelling, so that two names cannot mean one layer.
    if layer.parse::<u16>().ok()?.to_string() != layer {
        return None;
    }
    let (stem, kind) = rest.rsplit_once('.')?;
    let (_, canonical) = family.layer_names.iter().find(|(hf, _)| *hf == stem)?;
    matches!(kind, "weight" | "bias").then(|| format!("blk.{layer}.{canonical}.{kind}"))
}

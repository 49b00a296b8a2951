//! Limits on a [`ModelConfig`], whichever file it came from, and the few roundings both share.

use crate::config::{ModelConfig, RopeConfig, RopeScaling};
use crate::error::FormatError;
use crate::limits;

/// `x` as f32, rounded to nearest.
#[allow(
    clippy::cast_possible_truncation,
    reason = "rounding is meant; overflow gives infinity"
)]
pub(crate) fn narrow(x: f64) -> f32 {
    x as f32
}

/// `1 / sqrt(x)`, rounded once.
pub(crate) fn reciprocal_sqrt(x: f64) -> f32 {
    narrow(1.0 / x.sqrt())
}

/// Checks every field of `config` against its limit and against the others.
pub(crate) fn validate(config: &ModelConfig) -> Result<(), FormatError> {
    let sizes: [(&str, usize, u64); 8] = [
        ("vocab", config.vocab, limits::VOCAB_MAX),
        ("hidden", config.hidden, limits::HIDDEN_MAX),
        ("layers", config.layers, limits::LAYERS_MAX),
        ("heads", config.heads, limits::HEADS_MAX),
        ("kv_heads", config.kv_heads, limits::HEADS_MAX),
        ("head_dim", config.head_dim, limits::HEAD_DIM_MAX),
        ("ffn", config.ffn, limits::FFN_MAX),
        ("context", config.context, limits::CONTEXT_MAX),
    ];
    for (name, value, limit) in sizes {
        if value == 0 || value as u64 > limit {
            return Err(FormatError::setting(
                name,
                format!("{name} lies in 1 to {limit}"),
                value,
            ));
        }
    }
    if !config.heads.is_multiple_of(config.kv_heads) {
        let rule = format!("kv_heads divides heads {}", config.heads);
        return Err(FormatError::setting("kv_heads", rule, config.kv_heads));
    }
    if !(config.head_dim as u64).is_multiple_of(limits::HEAD_DIM_STEP) {
        let rule = format!("head_dim is a multiple of {}", limits::HEAD_DIM_STEP);
        return Err(FormatError::setting("head_dim", rule, config.head_dim)
            .advise("models whose heads have another size are not computed here"));
    }
    if !(config.norm_eps > 0.0 && config.norm_eps < 1.0) {
        let rule = "the epsilon of norms lies between 0 and 1";
        return Err(FormatError::setting("norm_eps", rule, config.norm_eps));
    }
    for (name, scale) in [
        ("attention_scale", config.attention_scale),
        ("embedding_scale", config.embedding_scale),
    ] {
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(FormatError::setting(
                name,
                "a scale is positive and finite",
                scale,
            ));
        }
    }
    for rope in std::iter::once(&config.rope).chain(&config.rope_local) {
        validate_rope(rope, config.head_dim)?;
    }
    validate_windows(config)
}

fn validate_rope(rope: &RopeConfig, head_dim: usize) -> Result<(), FormatError> {
    if !(rope.theta >= 1.0 && rope.theta.is_finite()) {
        return Err(FormatError::setting(
            "rope_theta",
            "the base is at least 1",
            rope.theta,
        ));
    }
    if rope.rotary_dim == 0 || rope.rotary_dim > head_dim || !rope.rotary_dim.is_multiple_of(2) {
        let rule = format!("an even number of the head's {head_dim} numbers rotates");
        return Err(FormatError::setting("rotary_dim", rule, rope.rotary_dim));
    }
    let positive = |name: &str, x: f64| {
        if x > 0.0 && x.is_finite() {
            return Ok(());
        }
        Err(FormatError::setting(
            name,
            "a rope factor is positive and finite",
            x,
        ))
    };
    match &rope.scaling {
        RopeScaling::None => Ok(()),
        RopeScaling::Linear { factor } => positive("rope_scaling.factor", *factor),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_context,
        } => {
            positive("rope_scaling.factor", *factor)?;
            positive("rope_scaling.low_freq_factor", *low_freq_factor)?;
            positive("rope_scaling.high_freq_factor", *high_freq_factor)?;
            positive(
                "rope_scaling.original_max_position_embeddings",
                *original_context,
            )?;
            if high_freq_factor <= low_freq_factor {
                let rule = format!("high_freq_factor exceeds low_freq_factor {low_freq_factor}");
                let key = "rope_scaling.high_freq_factor";
                return Err(FormatError::setting(key, rule, high_freq_factor));
            }
            Ok(())
        }
        RopeScaling::Factors(factors) => factors
            .iter()
            .try_for_each(|f| positive("rope_freqs.weight", f64::from(*f))),
    }
}

fn validate_windows(config: &ModelConfig) -> Result<(), FormatError> {
    if !config.sliding.is_empty() && config.sliding.len() != config.layers {
        let rule = format!(
            "layer_types has one entry for each of {} layers",
            config.layers
        );
        return Err(FormatError::setting(
            "layer_types",
            rule,
            config.sliding.len(),
        ));
    }
    match config.window {
        Some(window) if window == 0 || window as u64 > limits::CONTEXT_MAX => {
            let rule = format!("sliding_window lies in 1 to {}", limits::CONTEXT_MAX);
            Err(FormatError::setting("sliding_window", rule, window))
        }
        None if config.sliding.contains(&true) => {
            let rule = "sliding layers come with a sliding_window";
            Err(FormatError::setting("sliding_window", rule, "none"))
        }
        _ => Ok(()),
    }
}

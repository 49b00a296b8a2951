//! The JSON beside the weights: `config.json`, `generation_config.json`, `tokenizer_config.json`.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ucuz_formats::{Checkpoint, ModelConfig, config_json, generation};
use ucuz_fuzz::{bounded, check_error, put, scratch};
use ucuz_text::TokenizerConfig;

const WEIGHTS: &[u8] = include_bytes!("../seeds/safetensors/llama.safetensors");

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = scratch();
    put(&folder.path().join("model.safetensors"), WEIGHTS);
    folder
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&FOLDER);
    bounded(data.len(), || {
        match config_json::parse(data) {
            Ok(hf) => {
                check_config(&hf.config);
                open(data);
            }
            Err(error) => check_error(&error),
        }
        match generation::parse(data) {
            Ok(defaults) => {
                assert!(
                    defaults
                        .temperature
                        .is_none_or(|t| (0.0..=100.0).contains(&t))
                );
                assert!(defaults.top_p.is_none_or(|p| (0.0..=1.0).contains(&p)));
                assert!(defaults.min_p.is_none_or(|p| (0.0..=1.0).contains(&p)));
                assert!(
                    defaults
                        .repetition_penalty
                        .is_none_or(|p| p >= 0.0 && p.is_finite())
                );
            }
            Err(error) => check_error(&error),
        }
        TokenizerConfig::from_json(data).map_or_else(|e| check_error(&e), drop);
    });
});

/// What a model relies on without asking again.
fn check_config(config: &ModelConfig) {
    assert!(config.vocab > 0 && config.hidden > 0 && config.layers > 0 && config.ffn > 0);
    assert!(config.heads > 0 && config.head_dim > 0 && config.context > 0);
    assert_eq!(config.heads % config.kv_heads, 0);
    assert!(config.norm_eps > 0.0 && config.attention_scale > 0.0);
    assert!(config.attention_scale.is_finite() && config.embedding_scale.is_finite());
    assert!(config.rope.rotary_dim > 0 && config.rope.rotary_dim <= config.head_dim);
    assert!(config.sliding.is_empty() || config.sliding.len() == config.layers);
    assert!(config.window != Some(0));
    for layer in 0..config.layers {
        assert!(!config.slides(layer) || config.window.is_some());
    }
}

fn open(data: &[u8]) {
    for name in [
        "config.json",
        "generation_config.json",
        "tokenizer_config.json",
    ] {
        put(&FOLDER.path().join(name), data);
    }
    Checkpoint::open(FOLDER.path()).map_or_else(|e| check_error(&e), drop);
}

//! Every tiny golden checkpoint opens, and says what its `config.json` or metadata says.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};

use ucuz_formats::Checkpoint;
use ucuz_formats::config::{ModelConfig, RopeScaling, TokenizerSource};

fn golden(rest: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(rest)
}

fn open(rest: &str) -> Checkpoint {
    Checkpoint::open(&golden(rest)).unwrap_or_else(|e| panic!("{rest}: {e}"))
}

#[test]
fn every_tiny_checkpoint_opens_without_a_warning() {
    let mut opened = 0;
    for kind in ["tiny", "tiny-gguf"] {
        for entry in std::fs::read_dir(golden(kind)).unwrap() {
            let folder = entry.unwrap().path();
            if !folder.is_dir() {
                continue;
            }
            let gguf = folder.join("model.gguf");
            let checkpoint = Checkpoint::open(if gguf.exists() { &gguf } else { &folder }).unwrap();
            assert_eq!(checkpoint.warnings(), [""; 0], "{}", folder.display());
            assert!(checkpoint.tensor("token_embd.weight").is_some());
            let summary = checkpoint.summary();
            assert!(summary.parameters > 1000 && summary.bits_per_weight >= 4.0);
            opened += 1;
        }
    }
    assert!(opened >= 18, "{opened} checkpoints");
}

#[test]
fn configurations_say_what_the_files_say() {
    type Check = fn(&ModelConfig) -> bool;
    let cases: &[(&str, Check)] = &[
        ("tiny/llama-gqa", |c| {
            (c.heads, c.kv_heads, c.head_dim, c.vocab) == (4, 2, 16, 288)
        }),
        ("tiny/llama-linear-rope-f16", |c| {
            c.rope.scaling == RopeScaling::Linear { factor: 4.0 }
        }),
        ("tiny/llama3-rope", |c| {
            matches!(
                c.rope.scaling,
                RopeScaling::Llama3 {
                    factor: 8.0,
                    original_context: 64.0,
                    ..
                }
            )
        }),
        ("tiny/mistral-bf16", |c| {
            c.window.is_none() && c.sliding.is_empty()
        }),
        ("tiny/mistral-window", |c| {
            c.window == Some(24) && c.sliding == [true; 2]
        }),
        ("tiny/qwen2", |c| c.window.is_none() && c.rope.theta == 1e6),
        ("tiny/qwen3", |c| {
            c.head_dim == 32 && c.rope.theta == 1e6 && !c.rope.interleaved
        }),
        ("tiny/gemma3-pattern", |c| {
            c.sliding == [true, true, false, true]
                && c.attention_scale == (1.0 / 24f64.sqrt()) as f32
                && (c.norm_offset, c.embedding_scale) == (1.0, 8.0)
        }),
        ("tiny/gemma3-layer-types", |c| {
            let local = c.rope_local.as_ref().unwrap();
            c.sliding == [false, true, true, false]
                && c.rope.scaling == RopeScaling::Linear { factor: 8.0 }
                && (local.theta, &local.scaling) == (10_000.0, &RopeScaling::None)
        }),
        ("tiny-gguf/llama-gqa-mixed/model.gguf", |c| {
            c.rope.interleaved && (c.heads, c.kv_heads, c.head_dim) == (4, 2, 16)
        }),
        (
            "tiny-gguf/llama3-rope-f32/model.gguf",
            |c| matches!(&c.rope.scaling, RopeScaling::Factors(f) if f.len() == 16),
        ),
        ("tiny-gguf/qwen3-f32/model.gguf", |c| {
            c.head_dim == 32 && !c.rope.interleaved
        }),
    ];
    for (file, check) in cases {
        let config = open(file).config;
        assert!(check(&config), "{file}: {config:?}");
    }
}

#[test]
fn twins_have_the_same_sizes_and_names() {
    let twins = [
        ("llama-gqa", "llama-gqa-f32"),
        ("qwen2", "qwen2-f32"),
        ("qwen3", "qwen3-f32"),
    ];
    for (folder, file) in twins {
        let hf = open(&format!("tiny/{folder}"));
        let gguf = open(&format!("tiny-gguf/{file}/model.gguf"));
        let names = |c: &Checkpoint| {
            let mut all: Vec<_> = c
                .tensors()
                .map(|t| (t.name.to_owned(), t.shape.to_vec()))
                .collect();
            all.sort();
            all
        };
        assert_eq!(names(&hf), names(&gguf), "{folder}");
        assert_eq!(
            hf.config.attention_scale, gguf.config.attention_scale,
            "{folder}"
        );
        assert_eq!(hf.config.rope.theta, gguf.config.rope.theta, "{folder}");
        assert!(matches!(gguf.tokenizer, TokenizerSource::Gguf(ref v) if v.tokens.len() == 288));
        assert!(matches!(hf.tokenizer, TokenizerSource::HuggingFace { .. }));
        assert!(gguf.chat_template.is_some());
    }
}

#[test]
fn released_pages_still_read_the_same() {
    let checkpoint = open("tiny/llama-gqa");
    let tensor = checkpoint.require("blk.1.ffn_down.weight").unwrap();
    let before = tensor.bytes.to_vec();
    checkpoint.release_pages(&tensor);
    assert_eq!(tensor.bytes, before);
}

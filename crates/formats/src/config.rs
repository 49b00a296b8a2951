//! What a checkpoint says of its model, in one form for GGUF metadata and Hugging Face `config.json`.

use std::fmt;

/// How rotary frequencies are stretched for long contexts.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by `factor`.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, a smooth ramp between.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// Wavelengths above `original / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Context of the first training.
        original_context: f64,
    },
    /// One divisor a frequency, as the GGUF tensor `rope_freqs.weight` gives: `[rotary_dim / 2]`.
    Factors(Vec<f32>),
}

/// Rotary embedding of one kind of layer.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeConfig {
    /// Base of the geometric series of frequencies.
    pub theta: f64,
    /// Numbers of a head that rotate.
    pub rotary_dim: usize,
    /// Whether pairs are `(2i, 2i + 1)` (GGUF llama) instead of `(i, i + rotary_dim / 2)`.
    pub interleaved: bool,
    /// Stretching.
    pub scaling: RopeScaling,
}

/// Sizes and constants of a dense decoder-only model; every field was checked against a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Architecture as registered in the models crate: `llama`, `mistral`, `qwen2`, `qwen3`, `gemma3`.
    pub architecture: String,
    /// Rows of the embedding.
    pub vocab: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of one head.
    pub head_dim: usize,
    /// Width of the feed-forward product.
    pub ffn: usize,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Context the model was trained for, in tokens.
    pub context: usize,
    /// Rotary embedding of layers that see everything.
    pub rope: RopeConfig,
    /// Rotary embedding of sliding-window layers, where it differs.
    pub rope_local: Option<RopeConfig>,
    /// Tokens that a sliding-window layer sees, the token itself included.
    pub window: Option<usize>,
    /// Per layer: whether it slides; empty when none does.
    pub sliding: Vec<bool>,
    /// Multiplies `q · k`.
    pub attention_scale: f32,
    /// Multiplies embeddings (Gemma: `sqrt(hidden)`, rounded as the reference does), else 1.
    pub embedding_scale: f32,
    /// Added to every norm weight when it is read (Hugging Face Gemma stores `w - 1`), else 0.
    pub norm_offset: f32,
}

impl ModelConfig {
    /// Whether layer `layer` slides.
    pub fn slides(&self, layer: usize) -> bool {
        self.sliding.get(layer).copied().unwrap_or(false)
    }
}

/// Generation defaults of the checkpoint (`generation_config.json`, GGUF `general.sampling.*`); `None` where silent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GenerationDefaults {
    /// 0 is greedy (also when `do_sample` is false and given).
    pub temperature: Option<f32>,
    /// Keep the `k` likeliest ids.
    pub top_k: Option<u32>,
    /// Nucleus.
    pub top_p: Option<f32>,
    /// Relative floor.
    pub min_p: Option<f32>,
    /// Repetition penalty.
    pub repetition_penalty: Option<f32>,
    /// End-of-sequence ids beside the tokenizer's.
    pub eos_ids: Vec<u32>,
}

/// A vocabulary as GGUF metadata gives it.
#[derive(Clone, Default, PartialEq)]
pub struct VocabMetadata {
    /// `tokenizer.ggml.model`.
    pub model: String,
    /// `tokenizer.ggml.pre`.
    pub pre: Option<String>,
    /// Token texts as stored (bytes; usually UTF-8).
    pub tokens: Vec<Vec<u8>>,
    /// Scores, one a token.
    pub scores: Option<Vec<f32>>,
    /// Types, one a token (1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte).
    pub token_types: Option<Vec<i32>>,
    /// Merge rules, best first.
    pub merges: Option<Vec<String>>,
    /// Special ids.
    pub bos: Option<u32>,
    /// Special ids.
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// Special ids.
    pub unk: Option<u32>,
    /// Special ids.
    pub pad: Option<u32>,
    /// Whether prompts start with `bos`.
    pub add_bos: Option<bool>,
    /// Whether prompts end with `eos`.
    pub add_eos: Option<bool>,
    /// Whether a space is put before the text.
    pub add_space_prefix: Option<bool>,
}

impl fmt::Debug for VocabMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "VocabMetadata({}, {:?}, {} tokens)",
            self.model,
            self.pre,
            self.tokens.len()
        )
    }
}

/// Where the tokenizer comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizerSource {
    /// `tokenizer.json` and, when present, `tokenizer_config.json`, as bytes.
    HuggingFace {
        /// `tokenizer.json`.
        tokenizer: Vec<u8>,
        /// `tokenizer_config.json`.
        config: Option<Vec<u8>>,
    },
    /// GGUF metadata.
    Gguf(VocabMetadata),
    /// The folder has none.
    Missing,
}

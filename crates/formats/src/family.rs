//! The table of model families whose checkpoints are understood: what their files call things and leave unsaid.
//!
//! Here: facts of file dialects (class names, defaults of the publisher's configuration class, tensor names). Not here: how a
//! model computes; that is one file each in `ucuz-models`. To add a family, add a row.
//! Source: `configuration_*.py` and `modeling_*.py` of transformers 4.57 and 5; `src/llama-arch.cpp`, `src/llama-model.cpp` and
//! `convert_hf_to_gguf.py` of llama.cpp.

use crate::error::{FormatError, Place};

/// Which layers slide when the configuration does not list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    /// None, whatever `sliding_window` says.
    Never,
    /// All, when `sliding_window` is given.
    All,
    /// Those from `max_window_layers` on, when `use_sliding_window` is true.
    Upper,
    /// All but every `sliding_window_pattern`-th (6th).
    Pattern,
}

/// Which projections have biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Biases {
    /// q, k, v and output, when the configuration's `attention_bias` says so.
    Configured,
    /// q, k and v, always.
    Qkv,
    /// None.
    Never,
}

/// One row of [`FAMILIES`].
pub(crate) struct Family {
    /// Name in `ModelConfig::architecture`.
    pub(crate) name: &'static str,
    /// `architectures` of `config.json`.
    pub(crate) classes: &'static [&'static str],
    /// `model_type` of `config.json`.
    pub(crate) model_types: &'static [&'static str],
    /// `general.architecture` of GGUF files.
    pub(crate) gguf: &'static str,
    /// The activation that the feed-forward uses, as `config.json` names it.
    pub(crate) activation: &'static str,
    /// Whether GGUF files store q and k rows for interleaved rotation.
    pub(crate) gguf_interleaved: bool,
    /// Biases of projections.
    pub(crate) biases: Biases,
    /// Whether q and k heads are normed.
    pub(crate) qk_norm: bool,
    /// Whether the outputs of attention and feed-forward are normed too.
    pub(crate) post_norms: bool,
    /// Which layers slide.
    pub(crate) windows: Windows,
    /// Whether embeddings are scaled by `sqrt(hidden)`.
    pub(crate) scaled_embedding: bool,
    /// What Hugging Face weights of norms lack.
    pub(crate) hf_norm_offset: f32,
    /// What `config.json` leaves unsaid.
    pub(crate) defaults: Defaults,
    /// Hugging Face names inside a layer and the canonical ones.
    pub(crate) layer_names: &'static [(&'static str, &'static str)],
}

/// Values of the publisher's configuration class for keys that `config.json` leaves out; `None` must be said.
pub(crate) struct Defaults {
    pub(crate) tied: bool,
    pub(crate) vocab: Option<u64>,
    pub(crate) heads: Option<u64>,
    /// `None`: as many as query heads.
    pub(crate) kv_heads: Option<u64>,
    /// `None`: hidden / heads.
    pub(crate) head_dim: Option<u64>,
    pub(crate) context: Option<u64>,
    pub(crate) theta: f64,
    /// Base of sliding layers where they have their own.
    pub(crate) local_theta: Option<f64>,
    pub(crate) window: Option<u64>,
    /// `query_pre_attn_scalar`; `None`: the head size.
    pub(crate) query_scalar: Option<f64>,
}

const PLAIN: Defaults = Defaults {
    tied: false,
    vocab: None,
    heads: None,
    kv_heads: None,
    head_dim: None,
    context: None,
    theta: 10_000.0,
    local_theta: None,
    window: None,
    query_scalar: None,
};

const LLAMA_NAMES: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

const GEMMA_NAMES: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];

/// What most families share.
const BASE: Family = Family {
    name: "llama",
    classes: &["LlamaForCausalLM"],
    model_types: &["llama"],
    gguf: "llama",
    activation: "silu",
    gguf_interleaved: true,
    biases: Biases::Configured,
    qk_norm: false,
    post_norms: false,
    windows: Windows::Never,
    scaled_embedding: false,
    hf_norm_offset: 0.0,
    defaults: PLAIN,
    layer_names: LLAMA_NAMES,
};

/// Every family, in the order in which GGUF names are looked up.
pub(crate) static FAMILIES: &[Family] = &[
    BASE,
    Family {
        name: "mistral",
        classes: &["MistralForCausalLM"],
        model_types: &["mistral"],
        biases: Biases::Never,
        windows: Windows::All,
        defaults: Defaults {
            kv_heads: Some(8),
            window: Some(4096),
            ..PLAIN
        },
        ..BASE
    },
    Family {
        name: "qwen2",
        classes: &["Qwen2ForCausalLM"],
        model_types: &["qwen2"],
        gguf: "qwen2",
        gguf_interleaved: false,
        biases: Biases::Qkv,
        windows: Windows::Upper,
        defaults: Defaults {
            window: Some(4096),
            ..PLAIN
        },
        ..BASE
    },
    Family {
        name: "qwen3",
        classes: &["Qwen3ForCausalLM"],
        model_types: &["qwen3"],
        gguf: "qwen3",
        gguf_interleaved: false,
        qk_norm: true,
        windows: Windows::Upper,
        defaults: Defaults {
            head_dim: Some(128),
            window: Some(4096),
            ..PLAIN
        },
        ..BASE
    },
    Family {
        name: "gemma3",
        classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        model_types: &["gemma3_text", "gemma3"],
        gguf: "gemma3",
        activation: "gelu_pytorch_tanh",
        gguf_interleaved: false,
        qk_norm: true,
        post_norms: true,
        windows: Windows::Pattern,
        scaled_embedding: true,
        hf_norm_offset: 1.0,
        // The multimodal checkpoints say only what differs from these.
        defaults: Defaults {
            tied: true,
            vocab: Some(262_208),
            heads: Some(8),
            kv_heads: Some(4),
            head_dim: Some(256),
            context: Some(131_072),
            theta: 1_000_000.0,
            local_theta: Some(10_000.0),
            window: Some(4096),
            query_scalar: Some(256.0),
        },
        layer_names: GEMMA_NAMES,
        ..BASE
    },
];

/// The family of a GGUF file's `general.architecture`.
pub(crate) fn of_gguf(architecture: &str) -> Result<&'static Family, FormatError> {
    FAMILIES
        .iter()
        .find(|f| f.gguf == architecture)
        .ok_or_else(|| unknown("general.architecture", architecture))
}

/// The family of `config.json`: by class when one is named, else by model type.
pub(crate) fn of_config(
    classes: &[&str],
    model_type: Option<&str>,
) -> Result<&'static Family, FormatError> {
    let by_class = |f: &&Family| classes.iter().any(|c| f.classes.contains(c));
    let by_type = |f: &&Family| model_type.is_some_and(|t| f.model_types.contains(&t));
    match (classes.first(), model_type) {
        (Some(class), _) => FAMILIES
            .iter()
            .find(by_class)
            .ok_or_else(|| unknown("architectures", class)),
        (None, Some(model_type)) => FAMILIES
            .iter()
            .find(by_type)
            .ok_or_else(|| unknown("model_type", model_type)),
        (None, None) => Err(FormatError::missing(
            Place::key("architectures"),
            "config.json names the model's class",
        )),
    }
}

fn unknown(key: &str, value: &str) -> FormatError {
    let names: Vec<_> = FAMILIES.iter().map(|f| f.name).collect();
    let rule = format!("the architecture is one of {}", names.join(", "));
    FormatError::unsupported(Place::key(key), rule, value)
}

//! Impossible `config.json` and damaged side files.

use serde_json::{Value, json};

use super::FolderRow;

pub const CONFIGURATIONS: &[FolderRow] = &[
    ("no config", |f| f.config = Value::Null, "has a config.json"),
    (
        "not JSON",
        |f| {
            f.config = Value::Null;
            f.put("config.json", "{\"a\":");
        },
        "the file is valid JSON",
    ),
    (
        "a list",
        |f| f.config = json!([1]),
        "the file is a JSON object",
    ),
    (
        "nested deep",
        |f| {
            f.config = Value::Null;
            f.put("config.json", "[".repeat(200_000));
        },
        "recursion limit",
    ),
    (
        "huge",
        |f| {
            f.config = Value::Null;
            f.put("config.json", vec![b' '; (4 << 20) + 1]);
        },
        "at most 4194304 bytes",
    ),
    (
        "other class",
        |f| f.set("architectures", json!(["FalconForCausalLM"])),
        "is one of llama",
    ),
    (
        "class number",
        |f| f.set("architectures", json!([7])),
        "a list of strings",
    ),
    (
        "no class",
        |f| {
            f.remove("architectures");
            f.remove("model_type");
        },
        "names the model's class",
    ),
    (
        "no hidden size",
        |f| f.remove("hidden_size"),
        "config.json has this key",
    ),
    (
        "hidden text",
        |f| f.set("hidden_size", json!("32")),
        "an integer from 1 to 65536",
    ),
    (
        "hidden 0",
        |f| f.set("hidden_size", json!(0)),
        "an integer from 1 to 65536",
    ),
    (
        "hidden negative",
        |f| f.set("hidden_size", json!(-32)),
        "an integer from 1 to 65536",
    ),
    (
        "hidden fraction",
        |f| f.set("hidden_size", json!(32.5)),
        "an integer from 1 to 65536",
    ),
    (
        "hidden huge",
        |f| f.set("hidden_size", json!(u64::MAX)),
        "an integer from 1 to 65536",
    ),
    (
        "layers huge",
        |f| f.set("num_hidden_layers", json!(100_000)),
        "from 1 to 1024",
    ),
    (
        "heads do not divide",
        |f| f.set("num_attention_heads", json!(3)),
        "divides hidden_size",
    ),
    (
        "kv heads do not divide",
        |f| f.set("num_key_value_heads", json!(3)),
        "kv_heads divides",
    ),
    (
        "head of 24",
        |f| f.set("head_dim", json!(24)),
        "a multiple of 16",
    ),
    (
        "vocabulary differs",
        |f| f.set("vocab_size", json!(9)),
        "implies the shape [9, 32]",
    ),
    (
        "epsilon 0",
        |f| f.set("rms_norm_eps", json!(0)),
        "epsilon of norms",
    ),
    (
        "context huge",
        |f| f.set("max_position_embeddings", json!(1 << 30)),
        "1 to 16777216",
    ),
    (
        "other activation",
        |f| f.set("hidden_act", json!("gelu")),
        "llama uses silu",
    ),
    (
        "quantised",
        |f| f.set("quantization_config", json!({"quant_method": "awq"})),
        "awq",
    ),
    (
        "mlp biases",
        |f| f.set("mlp_bias", json!(true)),
        "the feed-forward has no biases",
    ),
    (
        "biases absent",
        |f| f.set("attention_bias", json!(true)),
        "has this tensor",
    ),
    (
        "softcap",
        |f| f.set("final_logit_softcapping", json!(30.0)),
        "logits are not capped",
    ),
    (
        "untied without output",
        |f| f.set("tie_word_embeddings", json!(false)),
        "output.weight",
    ),
    (
        "tie text",
        |f| f.set("tie_word_embeddings", json!("yes")),
        "is true or false",
    ),
    (
        "text_config text",
        |f| f.set("text_config", json!("x")),
        "text_config is an object",
    ),
    (
        "theta 0",
        |f| f.set("rope_theta", json!(0)),
        "the base is at least 1",
    ),
    (
        "theta text",
        |f| f.set("rope_theta", json!("x")),
        "rope_theta is a number",
    ),
    (
        "yarn",
        |f| f.set("rope_scaling", json!({"rope_type": "yarn"})),
        "found yarn",
    ),
    (
        "dynamic",
        |f| f.set("rope_scaling", json!({"type": "dynamic"})),
        "found dynamic",
    ),
    (
        "scaling text",
        |f| f.set("rope_scaling", json!("linear")),
        "is an object",
    ),
    (
        "no factor",
        |f| f.set("rope_scaling", json!({"type": "linear"})),
        "has this key",
    ),
    (
        "factor 0",
        |f| f.set("rope_scaling", json!({"type": "linear", "factor": 0})),
        "positive and finite",
    ),
    (
        "llama3 ramp reversed",
        |f| {
            let scaling = json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                    "high_freq_factor": 1, "original_max_position_embeddings": 64});
            f.set("rope_scaling", scaling);
        },
        "exceeds low_freq_factor",
    ),
    (
        "partial 2",
        |f| f.set("partial_rotary_factor", json!(2)),
        "lies in 0 to 1",
    ),
    (
        "partial odd",
        |f| f.set("partial_rotary_factor", json!(0.2)),
        "an even number",
    ),
    (
        "layer types short",
        |f| f.set("layer_types", json!([])),
        "a list of 1 names",
    ),
    (
        "other layer type",
        |f| f.set("layer_types", json!(["linear_attention"])),
        "layers are",
    ),
    (
        "window 0",
        |f| {
            f.set("architectures", json!(["MistralForCausalLM"]));
            f.set("sliding_window", json!(0));
        },
        "an integer from 1 to 16777216",
    ),
];

pub const SIDE_FILES: &[FolderRow] = &[
    (
        "template number",
        |f| f.put("tokenizer_config.json", r#"{"chat_template": 7}"#),
        "chat_template a string or a list",
    ),
    (
        "tokenizer_config cut",
        |f| f.put("tokenizer_config.json", "{"),
        "the file is JSON",
    ),
    (
        "template not UTF-8",
        |f| f.put("chat_template.jinja", [0xff]),
        "a template is UTF-8",
    ),
    (
        "template huge",
        |f| f.put("chat_template.jinja", vec![b'x'; (256 << 10) + 1]),
        "at most 262144 bytes",
    ),
    (
        "generation list",
        |f| f.put("generation_config.json", "[]"),
        "is a JSON object",
    ),
    (
        "temperature text",
        |f| f.put("generation_config.json", r#"{"temperature": "hot"}"#),
        "temperature is a number",
    ),
    (
        "top_p 7",
        |f| f.put("generation_config.json", r#"{"top_p": 7}"#),
        "top_p lies in 0 to 1",
    ),
    (
        "penalty 0",
        |f| f.put("generation_config.json", r#"{"repetition_penalty": 0}"#),
        "0 excluded",
    ),
    (
        "eos texts",
        |f| f.put("generation_config.json", r#"{"eos_token_id": ["</s>"]}"#),
        "a token id or a list",
    ),
    (
        "eos negative",
        |f| f.put("generation_config.json", r#"{"eos_token_id": -1}"#),
        "a token id or a list",
    ),
];

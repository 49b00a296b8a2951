//! Impossible GGUF metadata and vocabularies.

use super::Row;
use super::common::{array, string, strings};

pub const METADATA: &[Row] = &[
    (
        "no architecture",
        |f| f.remove("general.architecture"),
        "names its architecture",
    ),
    (
        "architecture number",
        |f| f.u32("general.architecture", 1),
        "the value is a string",
    ),
    (
        "other architecture",
        |f| f.text("general.architecture", "falcon"),
        "is one of llama",
    ),
    (
        "architecture not UTF-8",
        |f| f.set("general.architecture", 8, string(&[0xff])),
        "the string is UTF-8",
    ),
    (
        "adapter",
        |f| f.text("general.type", "adapter"),
        "not an adapter",
    ),
    (
        "split file",
        |f| f.u32("split.count", 3),
        "split in parts are not read",
    ),
    (
        "no hidden size",
        |f| f.remove("llama.embedding_length"),
        "has this key",
    ),
    (
        "hidden size text",
        |f| f.text("llama.embedding_length", "32"),
        "a non-negative integer",
    ),
    (
        "hidden size negative",
        |f| f.set("llama.embedding_length", 5, vec![255; 4]),
        "non-negative",
    ),
    (
        "hidden size huge",
        |f| f.u32("llama.embedding_length", u32::MAX),
        "lies in 1 to 65536",
    ),
    (
        "no layers",
        |f| f.u32("llama.block_count", 0),
        "lies in 1 to 1024",
    ),
    (
        "5000 layers",
        |f| f.u32("llama.block_count", 5000),
        "lies in 1 to 1024",
    ),
    (
        "layers 2^64-1",
        |f| f.set("llama.block_count", 10, vec![255; 8]),
        "lies in 1 to 1024",
    ),
    (
        "more layers than tensors",
        |f| f.u32("llama.block_count", 2),
        "has this tensor",
    ),
    (
        "no heads",
        |f| f.u32("llama.attention.head_count", 0),
        "lies in 1 to 1024",
    ),
    (
        "heads do not divide",
        |f| f.u32("llama.attention.head_count", 3),
        "head_count divides",
    ),
    (
        "kv heads do not divide",
        |f| f.u32("llama.attention.head_count_kv", 3),
        "kv_heads divides",
    ),
    (
        "kv heads differ by layer",
        |f| {
            f.set(
                "llama.attention.head_count_kv",
                9,
                array(4, 2, &[1, 0, 0, 0, 2, 0, 0, 0]),
            )
        },
        "all layers have the same size",
    ),
    (
        "kv heads of strings",
        |f| f.set("llama.attention.head_count_kv", 9, strings(&[b"1"])),
        "an integer from 1 to 1024, or one a layer",
    ),
    (
        "head of 24",
        |f| f.u32("llama.attention.key_length", 24),
        "a multiple of 16",
    ),
    (
        "k and v differ",
        |f| f.u32("llama.attention.value_length", 32),
        "the same length 16",
    ),
    (
        "no ffn",
        |f| f.remove("llama.feed_forward_length"),
        "has this key",
    ),
    (
        "context 2^30",
        |f| f.u32("llama.context_length", 1 << 30),
        "lies in 1 to 16777216",
    ),
    (
        "no epsilon",
        |f| f.remove("llama.attention.layer_norm_rms_epsilon"),
        "has this key",
    ),
    (
        "epsilon NaN",
        |f| f.f32("llama.attention.layer_norm_rms_epsilon", f32::NAN),
        "is finite",
    ),
    (
        "epsilon 0",
        |f| f.f32("llama.attention.layer_norm_rms_epsilon", 0.0),
        "epsilon of norms",
    ),
    (
        "rope base 0",
        |f| f.f32("llama.rope.freq_base", 0.0),
        "the base is at least 1",
    ),
    (
        "rope base integer",
        |f| f.u32("llama.rope.freq_base", 10_000),
        "the value is a float",
    ),
    (
        "rope of 15",
        |f| f.u32("llama.rope.dimension_count", 15),
        "an even number",
    ),
    (
        "rope beyond the head",
        |f| f.u32("llama.rope.dimension_count", 32),
        "an even number",
    ),
    (
        "yarn",
        |f| f.text("llama.rope.scaling.type", "yarn"),
        "rope scaling is none, linear",
    ),
    (
        "rope factor -1",
        |f| f.f32("llama.rope.scaling.factor", -1.0),
        "positive and finite",
    ),
    (
        "experts",
        |f| f.u32("llama.expert_count", 8),
        "not computed here",
    ),
    (
        "logits capped",
        |f| f.f32("llama.final_logit_softcapping", 30.0),
        "not computed here",
    ),
    (
        "not causal",
        |f| f.set("llama.attention.causal", 7, vec![0]),
        "attention is causal",
    ),
    (
        "pattern of 3 layers",
        |f| {
            f.u32("llama.attention.sliding_window", 16);
            f.set(
                "llama.attention.sliding_window_pattern",
                9,
                array(7, 3, &[1, 0, 1]),
            );
        },
        "one bool for each of 1 layers",
    ),
    (
        "temperature NaN",
        |f| f.f32("general.sampling.temp", f32::NAN),
        "is finite",
    ),
    (
        "temperature -1",
        |f| f.f32("general.sampling.temp", -1.0),
        "lies in 0 to 100",
    ),
    (
        "top_p 7",
        |f| f.f32("general.sampling.top_p", 7.0),
        "lies in 0 to 1",
    ),
];

pub const VOCABULARY: &[Row] = &[
    (
        "vocabulary size differs",
        |f| f.u32("llama.vocab_size", 9),
        "the 8 rows of the embedding",
    ),
    (
        "tokens text",
        |f| f.text("tokenizer.ggml.tokens", "a"),
        "the value is an array",
    ),
    (
        "tokens of bytes",
        |f| f.set("tokenizer.ggml.tokens", 9, array(0, 8, &[0; 8])),
        "an array of strings",
    ),
    (
        "no tokens",
        |f| f.set("tokenizer.ggml.tokens", 9, strings::<&str>(&[])),
        "1 to 1048576 tokens",
    ),
    (
        "seven tokens",
        |f| f.set("tokenizer.ggml.tokens", 9, strings(&[b"a"; 7])),
        "the 8 rows of the embedding",
    ),
    (
        "no tokenizer model",
        |f| f.remove("tokenizer.ggml.model"),
        "its tokenizer's model",
    ),
    (
        "scores of bytes",
        |f| f.set("tokenizer.ggml.scores", 9, array(0, 8, &[0; 8])),
        "an array of F32",
    ),
    (
        "scores short",
        |f| f.set("tokenizer.ggml.scores", 9, array(6, 7, &[0; 28])),
        "one entry for each of the 8 tokens",
    ),
    (
        "scores NaN",
        |f| f.set("tokenizer.ggml.scores", 9, array(6, 8, &[255; 32])),
        "scores are numbers",
    ),
    (
        "types of floats",
        |f| f.set("tokenizer.ggml.token_type", 9, array(6, 8, &[0; 32])),
        "an array of I32",
    ),
    (
        "types long",
        |f| f.set("tokenizer.ggml.token_type", 9, array(5, 9, &[0; 36])),
        "one entry for each of the 8 tokens",
    ),
    (
        "merges of numbers",
        |f| f.set("tokenizer.ggml.merges", 9, array(4, 1, &[0; 4])),
        "an array of strings",
    ),
    (
        "merges not UTF-8",
        |f| f.set("tokenizer.ggml.merges", 9, strings(&[[0xff]])),
        "merge rules are UTF-8",
    ),
    (
        "bos beyond",
        |f| f.u32("tokenizer.ggml.bos_token_id", 8),
        "in the vocabulary of 8",
    ),
    (
        "eos 2^32-1",
        |f| f.u32("tokenizer.ggml.eos_token_id", u32::MAX),
        "in the vocabulary of 8",
    ),
    (
        "add_bos number",
        |f| f.u32("tokenizer.ggml.add_bos_token", 1),
        "the value is a bool",
    ),
    (
        "template not UTF-8",
        |f| f.set("tokenizer.chat_template", 8, string(&[0xc3])),
        "the string is UTF-8",
    ),
    (
        "template huge",
        |f| f.text("tokenizer.chat_template", &"x".repeat((256 << 10) + 1)),
        "a template has at most",
    ),
];

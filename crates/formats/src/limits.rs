//! Named limits of every reader of this crate: what a file may declare before it is refused.
//!
//! Here: numbers only. Not here: who compares with them.

/// Key-value pairs of a GGUF file.
pub const GGUF_KEYS_MAX: u64 = 65_536;
/// Tensors of a file, and of all shards of a model together.
pub const TENSORS_MAX: u64 = 65_536;
/// Parts of a file of prepared weights.
pub const PREPARED_PARTS_MAX: u32 = 65_536;
/// Bytes of one GGUF string.
pub const STRING_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a GGUF key.
pub const KEY_BYTES_MAX: u64 = 1024;
/// Bytes of a tensor's name (the GGUF writer of llama.cpp stays below 64).
pub const TENSOR_NAME_BYTES_MAX: u64 = 255;
/// Dimensions of a GGUF tensor.
pub const DIMENSIONS_MAX: u32 = 4;
/// Dimensions of a safetensors tensor.
pub const SAFETENSORS_DIMENSIONS_MAX: usize = 8;
/// Arrays within arrays of a GGUF value.
pub const ARRAY_DEPTH_MAX: u32 = 4;
/// Smallest alignment of GGUF tensors.
pub const ALIGNMENT_MIN: u64 = 8;
/// Largest alignment of GGUF tensors.
pub const ALIGNMENT_MAX: u64 = 65_536;
/// Merge rules of a tokenizer.
pub const MERGES_MAX: usize = 4 << 20;
/// Bytes of a safetensors header.
pub const SAFETENSORS_HEADER_BYTES_MAX: u64 = 25 << 20;
/// Files a sharded model is cut into.
pub const SHARDS_MAX: usize = 1024;
/// Bytes of `config.json` and `generation_config.json`.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// Bytes of `tokenizer_config.json` and of a shard index.
pub const SIDE_FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of `tokenizer.json`.
pub const TOKENIZER_BYTES_MAX: u64 = 128 << 20;
/// Bytes of one chat template.
pub const TEMPLATE_BYTES_MAX: u64 = 256 << 10;
/// Named chat templates of a checkpoint.
pub const TEMPLATES_MAX: usize = 64;
/// End-of-sequence ids of a checkpoint.
pub const EOS_IDS_MAX: usize = 256;

/// Decoder layers.
pub const LAYERS_MAX: u64 = 1024;
/// Width of the residual stream.
pub const HIDDEN_MAX: u64 = 65_536;
/// Rows of the embedding.
pub const VOCAB_MAX: u64 = 1_048_576;
/// Query heads.
pub const HEADS_MAX: u64 = 1024;
/// Numbers of one head, a multiple of [`HEAD_DIM_STEP`].
pub const HEAD_DIM_MAX: u64 = 1024;
/// Step of head sizes.
pub const HEAD_DIM_STEP: u64 = 16;
/// Width of the feed-forward product.
pub const FFN_MAX: u64 = 1_048_576;
/// Tokens of context.
pub const CONTEXT_MAX: u64 = 1 << 24;

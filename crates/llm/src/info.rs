//! What is known of a loaded model.

use ucuz_formats::config::GenerationDefaults;
use ucuz_tensor::KvDtype;
use ucuz_tensor::backend::Exactness;

/// Facts of the model that is served.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// File stem or folder name.
    pub name: String,
    /// Architecture.
    pub architecture: String,
    /// Parameters, all tensors counted.
    pub parameters: u64,
    /// Bits per weight in the file, bookkeeping counted.
    pub bits_per_weight: f64,
    /// Bytes of the weights in the file.
    pub file_bytes: u64,
    /// Bytes of the weights in memory.
    pub weight_bytes: u64,
    /// Tokens that one request may hold, prompt and answer.
    pub context: usize,
    /// Tokens that the model was trained for.
    pub trained_context: usize,
    /// Rows of the vocabulary.
    pub vocab: usize,
    /// Precision of the KV cache.
    pub kv_dtype: KvDtype,
    /// KV bytes of one token.
    pub kv_bytes_per_token: usize,
    /// Bytes of the KV pool.
    pub kv_pool_bytes: usize,
    /// What is kept bit for bit.
    pub exactness: Exactness,
    /// Sampling defaults of the checkpoint.
    pub defaults: GenerationDefaults,
    /// Whether the model carries a chat template.
    pub has_template: bool,
    /// Identifies arithmetic and model: equal fingerprints give equal tokens.
    pub fingerprint: String,
}

//! Llama 2 and 3, SmolLM2, Mistral, and Qwen2 (which adds biases to q, k and v; biases are read wherever the file has them).
//!
//! Sources: arXiv 2302.13971 (Llama), 2310.06825 (Mistral), 2407.10671 (Qwen2).

use crate::dense::{self, DenseOptions};
use crate::{Loader, Model, ModelResult};

/// Loads the model.
///
/// # Errors
/// As [`Loader::weight`].
pub fn load(loader: &mut Loader<'_>) -> ModelResult<Box<dyn Model>> {
    let options = DenseOptions { head_norms: false };
    dense::load(loader, options)
}

//! Qwen3: the dense decoder with RMS norms over each query and key head. Source: arXiv 2505.09388.

use crate::dense::{self, DenseOptions};
use crate::{Loader, Model, ModelResult};

/// Loads the model.
///
/// # Errors
/// As [`Loader::weight`].
pub fn load(loader: &mut Loader<'_>) -> ModelResult<Box<dyn Model>> {
    let options = DenseOptions { head_norms: true };
    dense::load(loader, options)
}

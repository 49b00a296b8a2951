//! Qwen3: the dense decoder with RMS norms over each query and key head. Source: arXiv 2505.09388.

use crate::dense::{Dense, DenseOptions};
use crate::{Loader, Model, ModelResult};

/// Loads the model.
///
/// # Errors
/// As [`Loader::weight`].
pub fn load(loader: &mut Loader<'_>) -> ModelResult<Box<dyn Model>> {
    Ok(Box::new(Dense::load(
        loader,
        DenseOptions { head_norms: true },
    )?))
}

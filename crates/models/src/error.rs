//! What can go wrong between a checkpoint and a running model.

use ucuz_formats::FormatError;
use ucuz_tensor::TensorError;

/// Result of loading or running a model.
pub type ModelResult<T> = Result<T, ModelError>;

/// An error of a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The checkpoint is damaged or of a kind that is not read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A size, a device or memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The architecture is not in [`crate::ARCHITECTURES`].
    #[error("architecture `{name}` is not supported; supported: {known}")]
    UnknownArchitecture {
        /// As the checkpoint names it.
        name: String,
        /// What is.
        known: String,
    },
    /// A tensor whose shape does not follow from the configuration.
    #[error(
        "tensor `{name}` has shape {got:?}, the configuration asks for {expected:?}; the file is damaged or of another model"
    )]
    TensorShape {
        /// Name in the file.
        name: String,
        /// Shape in the file.
        got: Vec<usize>,
        /// Shape by the configuration.
        expected: Vec<usize>,
    },
}

//! What can go wrong below the models: sizes, memory, devices.

/// Result of everything in this crate that can fail.
pub type TensorResult<T> = Result<T, TensorError>;

/// An error of a tensor, a weight or a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The allocator or the device refused.
    #[error(
        "cannot allocate {bytes} bytes for {what}; lower --kv-memory, --context or --max-sequences, or use a smaller model"
    )]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// Bytes asked for.
        bytes: usize,
    },
    /// Two shapes that must agree do not.
    #[error("{what}: expected {expected}, got {got}")]
    Shape {
        /// The tensor or operation.
        what: String,
        /// The shape or size that the rule asks for.
        expected: String,
        /// The shape or size given.
        got: String,
    },
    /// A format, shape or option that this backend does not compute.
    #[error("{backend} backend cannot run {what}: {why}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// What was asked for.
        what: String,
        /// The rule it breaks and the way out.
        why: String,
    },
    /// The device failed and must be given up.
    #[error("{backend} device failed: {why}")]
    Device {
        /// Name of the backend.
        backend: &'static str,
        /// What it reported.
        why: String,
    },
}

impl TensorError {
    /// A [`TensorError::Shape`] from anything printable.
    pub fn shape(
        what: impl Into<String>,
        expected: impl std::fmt::Debug,
        got: impl std::fmt::Debug,
    ) -> Self {
        Self::Shape {
            what: what.into(),
            expected: format!("{expected:?}"),
            got: format!("{got:?}"),
        }
    }
}

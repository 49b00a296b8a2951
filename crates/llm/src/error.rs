//! What can go wrong between a request and its tokens.

use ucuz_engine::SubmitError;
use ucuz_formats::FormatError;
use ucuz_models::ModelError;
use ucuz_tensor::TensorError;
use ucuz_text::TextError;

/// Result of the facade.
pub type LlmResult<T> = Result<T, LlmError>;

/// An error of the facade.
#[derive(Debug, thiserror::Error)]
pub enum LlmError {
    /// A parameter breaks a rule.
    #[error("{message}")]
    Invalid {
        /// Name as in the request.
        param: &'static str,
        /// Rule, value, way out.
        message: String,
    },
    /// A parameter asks for what this model or this server cannot do.
    #[error("{message}")]
    Unsupported {
        /// Name as in the request.
        param: &'static str,
        /// What is not possible, way out.
        message: String,
    },
    /// Prompt and answer do not fit the context.
    #[error("{message}")]
    ContextLength {
        /// Counts and the way out.
        message: String,
    },
    /// There is no room, or no time before the deadline.
    #[error("{message}")]
    Full {
        /// What is full or late, and when to retry.
        message: String,
        /// From the backlog and the measured speed.
        retry_after_s: u32,
    },
    /// The engine does not take requests.
    #[error("the engine does not take requests: {why}")]
    Unavailable {
        /// Draining or dead.
        why: String,
    },
    /// Text or template.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A checkpoint.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A size, a device, memory.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl LlmError {
    /// An [`LlmError::Invalid`].
    pub fn invalid(param: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid {
            param,
            message: message.into(),
        }
    }

    /// An [`LlmError::Unsupported`].
    pub fn unsupported(param: &'static str, message: impl Into<String>) -> Self {
        Self::Unsupported {
            param,
            message: message.into(),
        }
    }
}

impl From<SubmitError> for LlmError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Full { retry_after_s, .. }
            | SubmitError::FullOfTokens { retry_after_s, .. }
            | SubmitError::Late { retry_after_s, .. } => Self::Full {
                message: error.to_string(),
                retry_after_s,
            },
            SubmitError::Draining | SubmitError::Dead => Self::Unavailable {
                why: error.to_string(),
            },
            SubmitError::TooLong { .. } | SubmitError::LargerThanPool { .. } => {
                Self::ContextLength {
                    message: error.to_string(),
                }
            }
            other => Self::Invalid {
                param: "request",
                message: other.to_string(),
            },
        }
    }
}

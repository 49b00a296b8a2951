//! Names of what is measured.

use std::fmt;
use std::str::FromStr;

/// An operation of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A product with a weight.
    Linear,
    /// Attention over a cache.
    Attention,
    /// Storing keys and values.
    KvStore,
    /// Looking up tokens.
    Embed,
    /// RMS norm.
    RmsNorm,
    /// Norms and rotation of queries and keys.
    QkNormRope,
    /// The gate of most models.
    SiluMul,
    /// The gate of Gemma.
    GeluMul,
    /// Adding a residual.
    Add,
    /// Gathering the rows whose logits are wanted.
    TakeRows,
    /// Choosing tokens.
    Sample,
}

impl Operation {
    /// All operations, those that decide a model's speed first.
    pub const ALL: [Self; 11] = [
        Self::Linear,
        Self::Attention,
        Self::KvStore,
        Self::Embed,
        Self::RmsNorm,
        Self::QkNormRope,
        Self::SiluMul,
        Self::GeluMul,
        Self::Add,
        Self::TakeRows,
        Self::Sample,
    ];

    /// Name of the queue's method.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Attention => "attention",
            Self::KvStore => "kv_store",
            Self::Embed => "embed",
            Self::RmsNorm => "rms_norm",
            Self::QkNormRope => "qk_norm_rope",
            Self::SiluMul => "silu_mul",
            Self::GeluMul => "gelu_mul",
            Self::Add => "add",
            Self::TakeRows => "take_rows",
            Self::Sample => "sample",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no operation's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an operation is one of {all}; got {0:?}", all = Operation::ALL.map(Operation::name).join(", "))]
pub struct UnknownOperation(pub String);

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let mut all = Self::ALL.into_iter();
        all.find(|operation| operation.name() == text)
            .ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_others_are_told_what_there_is() {
        for operation in Operation::ALL {
            assert_eq!(operation.to_string().parse(), Ok(operation));
        }
        let error = "matmul".parse::<Operation>().unwrap_err().to_string();
        assert!(
            error.contains("linear, attention") && error.contains("\"matmul\""),
            "{error}"
        );
    }
}

//! What each operation of a queue is measured with: one file a family, plain functions from options to [`Case`]s.

mod attention;
mod linear;
mod pointwise;
mod sample;

use anyhow::Result;
use ucuz_tensor::{Backend, Format, KvDtype};

use super::Options;
use super::case::Case;
use super::operation::Operation;
use attention::Step;

/// Cases that share their data, and so are made and dropped together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Products with weights of one format.
    Linear(Format),
    /// Lookups in a table of one format.
    Embed(Format),
    /// One step over a cache of one precision.
    Attention(KvDtype, Step),
    /// Storing into a cache of one precision.
    KvStore(KvDtype),
    /// An operation on activations alone.
    Plain(Operation),
}

impl Group {
    /// All groups that `options` ask for, in the order of [`Operation::ALL`].
    pub fn all(options: &Options) -> Vec<Self> {
        let wanted = Operation::ALL
            .iter()
            .filter(|o| options.operations.contains(o));
        wanted
            .flat_map(|operation| Self::of(*operation, options))
            .collect()
    }

    fn of(operation: Operation, options: &Options) -> Vec<Self> {
        let formats = || options.formats.iter().copied();
        let dtypes = || options.kv_dtypes.iter().copied();
        match operation {
            Operation::Linear => formats().map(Self::Linear).collect(),
            Operation::Embed => formats().map(Self::Embed).collect(),
            Operation::Attention => {
                let steps = attention::steps(&options.contexts);
                let of = |dtype| steps.iter().map(move |step| Self::Attention(dtype, *step));
                dtypes().flat_map(of).collect()
            }
            Operation::KvStore => dtypes().map(Self::KvStore).collect(),
            other => vec![Self::Plain(other)],
        }
    }

    /// What is timed, in words for a progress line.
    pub fn name(&self) -> String {
        match self {
            Self::Linear(format) => format!("linear {format}"),
            Self::Embed(format) => format!("embed {format}"),
            Self::Attention(dtype, step) => {
                let (dtype, phase) = (dtype.name(), step.phase.name());
                format!("attention {dtype} {phase} at {}", step.context)
            }
            Self::KvStore(dtype) => format!("kv_store {}", dtype.name()),
            Self::Plain(operation) => operation.to_string(),
        }
    }

    /// The cases on one backend; none when it cannot run them.
    ///
    /// # Errors
    /// Shapes that a format cannot store, memory.
    pub fn cases(&self, backend: &dyn Backend, options: &Options) -> Result<Vec<Case>> {
        match *self {
            Self::Linear(format) => linear::linear(backend, options, format),
            Self::Embed(format) => linear::embed(backend, options, format),
            Self::Attention(dtype, step) => attention::attention(backend, options, dtype, step),
            Self::KvStore(dtype) => attention::kv_store(backend, options, dtype),
            Self::Plain(Operation::QkNormRope) => pointwise::qk_norm_rope(options),
            Self::Plain(Operation::Sample) => sample::sample(options),
            Self::Plain(gate @ (Operation::SiluMul | Operation::GeluMul)) => {
                pointwise::gated(options, gate)
            }
            Self::Plain(other) => pointwise::hidden(options, other),
        }
    }
}

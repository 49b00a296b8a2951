//! One thing to time on one device, and what it must cost at least.

use serde::Serialize;
use ucuz_tensor::backend::{Limits, StepInputs};
use ucuz_tensor::{Batch, CeilingKind, Queue, TensorResult};

use super::operation::Operation;

/// Names a row of the report; equal on every device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The operation.
    pub operation: &'static str,
    /// Number format, precision of the cache, phase.
    pub variant: String,
    /// Rows of the step.
    pub rows: usize,
    /// Sizes, for people.
    pub shape: String,
}

impl Label {
    /// Names a row.
    pub fn new(
        operation: Operation,
        variant: impl Into<String>,
        rows: usize,
        shape: impl Into<String>,
    ) -> Self {
        Self {
            operation: operation.name(),
            variant: variant.into(),
            rows,
            shape: shape.into(),
        }
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.operation)?;
        if !self.variant.is_empty() {
            write!(f, " {}", self.variant)?;
        }
        write!(f, ", {} rows, {}", self.rows, self.shape)
    }
}

/// What one call must move and compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that only memory holds: weights, keys and values, once a call.
    pub memory_bytes: u64,
    /// Bytes that a cache may hold: activations in and out.
    pub cache_bytes: u64,
    /// Operations of the device; a multiply-add counts as two.
    pub operations: u64,
    /// The rate that bounds them.
    pub unit: CeilingKind,
}

impl Cost {
    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.memory_bytes + self.cache_bytes
    }
}

/// A call that can be repeated.
pub type Body = Box<dyn FnMut(&mut dyn Queue, &StepInputs<'_>) -> TensorResult<()>>;

/// One thing to time on one device.
pub struct Case {
    /// Its name.
    pub label: Label,
    /// What a call costs.
    pub cost: Cost,
    /// What its queue must hold.
    pub limits: Limits,
    /// The step that a call is part of.
    pub batch: Batch,
    /// One call.
    pub body: Body,
}

//! Floor 0: what every other crate means by a number, a weight, a batch and a device.
//!
//! Here: dtypes, stored number [`FORMATS`](format::FORMATS), their [`Arithmetic`], weights and their
//! compute layouts, tensors and views, the [`Backend`] and [`Queue`] traits, the
//! [`Batch`] of one step, the shape of the KV cache, the names of a device's ceilings, the checks at a queue's door, sampling from a row of logits, and the plain
//! [reference backend](mod@reference) that is the oracle of accuracy.
//!
//! Deliberately not here: files, text, any instruction set; threads only inside the reference backend. Every other crate may use this one.

pub mod backend;
pub mod batch;
pub mod buffer;
pub mod cache;
pub mod ceiling;
pub mod check;
pub mod conformance;
pub mod destination;
pub mod error;
pub mod format;
pub mod layout;
pub mod numerics;
pub mod part_bytes;
pub mod quant;
pub mod reference;
pub mod sampling;
pub mod tensor;
pub mod weight;

pub use backend::{Backend, Queue};
pub use batch::{Batch, SeqSlot};
pub use cache::{CacheSpec, KvDtype, KvPool};
pub use ceiling::{Ceiling, CeilingKind};
pub use error::{TensorError, TensorResult};
pub use format::{Activations, Arithmetic, Format, OnLoad};
pub use tensor::{Tensor, View, ViewMut};
pub use weight::{Weight, WeightOptions};

/// Version of the arithmetic that fixes every bit of a result; it keys caches and is the `system_fingerprint`.
///
/// Raise it with any change of an order of operations, a rounding or a constant in a canonical kernel.
pub const ARITHMETIC_VERSION: u32 = 3;

//! Speed and memory, measured: one folder a bench.
//!
//! - [`engine`]: prefill against prompt length, decode against context, throughput against batch.
//! - [`cache`]: the same answers with and without the KV cache, and what each costs.
//! - [`memory`]: users in the same KV memory, naive reservation against paged.
//! - [`policy`]: static against continuous batching, simulated and run for real.
//! - [`kernels`]: each operation of a queue against the roofline of its device; needs no model.
//!
//! Shared by the first two: [`Setup`] (a model on a backend), `session` (sequences fed straight to the runner), [`work`] (what a step
//! should cost, counted; [`work::products`] serves the third as well), [`ModelFacts`].

pub mod cache;
pub mod engine;
mod facts;
mod ids;
pub mod kernels;
pub mod memory;
mod point;
pub mod policy;
pub mod roofline;
mod session;
mod setup;
pub mod work;

pub use facts::{FormatShare, ModelFacts};
pub use point::Measured;
pub use roofline::Roofline;
pub use setup::Setup;

/// Each value once, smallest first.
pub fn ascending<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

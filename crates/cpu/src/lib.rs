//! The CPU backend: detection, threads, weights in panels of 16 rows, and kernels in tiers that agree bit for bit.
//!
//! Start at [`CpuBackend`]. Instruction sets appear only under `arch`, and only [`table`] chooses among them. Not here:
//! files, models, sampling rules, memory plans.

pub mod activations;
pub mod arch;
mod backend;
mod ceiling;
pub mod detect;
#[cfg(feature = "test-support")]
pub mod emulator;
pub mod ops;
pub mod pool;
mod queue;
pub mod repack;
pub mod table;

pub use backend::{CpuBackend, CpuOptions};
pub use detect::Tier;

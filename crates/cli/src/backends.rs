//! Every backend that this binary can run a model on.

use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_tensor::Backend;
use ucuz_tensor::reference::ReferenceBackend;

/// A backend by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// The processor, with the fastest kernels it has
    Cpu,
    /// Plain float32, slow: the oracle of accuracy
    Reference,
}

/// How to open a backend.
#[derive(Debug, Clone, Copy)]
pub struct BackendOptions {
    /// Which.
    pub name: BackendName,
    /// Kernels to use; the fastest available when absent.
    pub tier: Option<Tier>,
    /// Threads that compute; as many as make sense when absent.
    pub threads: Option<usize>,
    /// Whether each thread stays on one core.
    pub pin: bool,
}

/// Opens a backend.
///
/// # Errors
/// A tier that this processor lacks.
pub fn open(options: BackendOptions) -> Result<Arc<dyn Backend>> {
    let BackendOptions {
        name,
        tier,
        threads,
        pin,
    } = options;
    Ok(match name {
        BackendName::Cpu => Arc::new(CpuBackend::new(CpuOptions {
            tier,
            threads,
            pin,
            spin: true,
        })?),
        BackendName::Reference => Arc::new(ReferenceBackend::new(
            threads.unwrap_or_else(ucuz_cpu::detect::default_threads),
        )),
    })
}

//! The plain backend: the oracle of accuracy.
//!
//! Everything is f32: weights are decoded once at load, activations are never quantised, exponentials are the standard
//! library's in f64. Only the cache is stored in the precision that is asked for. What a fast backend computes is compared with this within the bounds of its arithmetic; only the
//! exactness promises (rows, chunks) are kept with `==`. It is quick enough for golden tests (8 outputs at once, a few
//! threads), not for serving: it spawns threads per operation and takes 4 bytes a weight.
//!
//! Deliberately not here: the arithmetic of the formats, tiers.

mod attention;
mod linear;
mod pointwise;
mod queue;
mod rope;
mod threads;

use std::ops::Range;

use crate::backend::{Backend, BackendInfo, Exactness, KernelChoice, Limits, Queue};
use crate::cache::{CacheSpec, KvPool};
use crate::ceiling::{Ceiling, CeilingKind};
use crate::error::{TensorError, TensorResult};
use crate::layout::PanelLayout;
use queue::ReferenceQueue;

/// Name in errors and descriptions.
const NAME: &str = "reference";

/// The plain backend; see the module's header.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceBackend {
    threads: usize,
}

impl ReferenceBackend {
    /// A backend that computes large operations on `threads` threads, at least one.
    pub fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
        }
    }
}

impl Backend for ReferenceBackend {
    fn describe(&self) -> BackendInfo {
        BackendInfo {
            name: NAME,
            device: "plain f32 code, no instruction set in particular".to_owned(),
            threads: self.threads,
            exactness: Exactness {
                rows: true,
                chunks: true,
                resume: true,
                tiers: true,
            },
            kernels: vec![KernelChoice {
                operation: "every operation and format".to_owned(),
                kernel: "plain".to_owned(),
                why: "the reference computes in f32 only".to_owned(),
            }],
        }
    }

    fn layout_id(&self) -> String {
        format!("{NAME} f32 panels 1")
    }

    fn layout_bytes(&self, layout: &PanelLayout) -> TensorResult<usize> {
        layout
            .rows
            .checked_mul(layout.cols)
            .and_then(|n| n.checked_mul(4))
            .ok_or_else(|| TensorError::OutOfMemory {
                what: format!("{} x {} weights as f32", layout.rows, layout.cols),
                bytes: usize::MAX,
            })
    }

    fn repack(
        &self,
        data: &mut [u8],
        layout: &PanelLayout,
        stored: &[u8],
        rows: Range<usize>,
    ) -> TensorResult<()> {
        linear::repack(data, layout, stored, rows)
    }

    fn kv_pool(&self, spec: &CacheSpec, blocks: &[usize]) -> TensorResult<KvPool> {
        for group in &spec.groups {
            if group.k_dim != group.v_dim {
                return Err(TensorError::Unsupported {
                    backend: NAME,
                    what: format!("keys of {} and values of {}", group.k_dim, group.v_dim),
                    why: "keys and values of one head must be equally long".to_owned(),
                });
            }
        }
        KvPool::zeroed(spec, blocks)
    }

    fn scratch_bytes(&self, limits: &Limits) -> usize {
        ReferenceQueue::scratch_bytes(self.threads, limits)
    }

    fn queue(&self, limits: &Limits) -> TensorResult<Box<dyn Queue>> {
        Ok(Box::new(ReferenceQueue::new(self.threads, limits)))
    }

    /// None: the oracle of accuracy is not built to come near any.
    fn ceiling(&self, _kind: CeilingKind) -> TensorResult<Option<Ceiling>> {
        Ok(None)
    }
}

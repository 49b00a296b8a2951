//! The CPU as a device: which tier and how many threads, layouts, memory, queues.

use std::ops::Range;
use std::sync::Arc;

use ucuz_tensor::backend::{BackendInfo, Exactness, KernelChoice, Limits};
use ucuz_tensor::format::{Coding, FORMATS, FormatInfo};
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::{Backend, CacheSpec, KvPool, Queue, TensorError, TensorResult};

use crate::detect::{self, CpuFeatures, Tier};
use crate::ops::attention::check_cache;
use crate::pool::ThreadPool;
use crate::queue::CpuQueue;
use crate::repack;
use crate::table::Kernels;

/// Name of the backend.
pub(crate) const NAME: &str = "cpu";

/// Choices of a CPU backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuOptions {
    /// The tier; `None` takes the fastest that runs here.
    pub tier: Option<Tier>,
    /// Threads that compute; `None` takes one per physical core that this process may use.
    pub threads: Option<usize>,
    /// Whether workers stay on one CPU each.
    pub pin: bool,
    /// Whether workers spin inside a step.
    pub spin: bool,
}

impl CpuOptions {
    /// What tests want: a given tier and number of threads, unpinned, without spinning.
    pub const fn quiet(tier: Tier, threads: usize) -> Self {
        Self {
            tier: Some(tier),
            threads: Some(threads),
            pin: false,
            spin: false,
        }
    }
}

/// The CPU. Queues share its threads.
#[derive(Debug)]
pub struct CpuBackend {
    kernels: &'static Kernels,
    pool: Arc<ThreadPool>,
}

impl CpuBackend {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`TensorError::Unsupported`] when this processor cannot run the tier that was asked for.
    pub fn new(options: CpuOptions) -> TensorResult<Self> {
        let features = CpuFeatures::detect();
        let tier = options.tier.unwrap_or_else(|| features.best_tier());
        let kernels = Kernels::for_tier(tier).ok_or_else(|| TensorError::Unsupported {
            backend: NAME,
            what: format!("the {tier} tier"),
            why: format!(
                "{}; choose {}",
                features.missing(tier).unwrap_or_default(),
                features.best_tier()
            ),
        })?;
        let threads = options.threads.unwrap_or_else(detect::default_threads);
        let pool = Arc::new(ThreadPool::new(threads, options.pin, options.spin));
        Ok(Self { kernels, pool })
    }

    /// The tier in use.
    pub fn tier(&self) -> Tier {
        self.kernels.tier
    }

    /// Number of threads that compute.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Why the tiers above the one in use are not; empty when it is the fastest.
    fn why_not_faster(&self) -> String {
        let features = CpuFeatures::detect();
        let faster = Tier::ALL.into_iter().filter(|tier| *tier > self.tier());
        let reasons = faster.map(|tier| match features.missing(tier) {
            Some(missing) => format!("{tier}: {missing}"),
            None => format!("{tier}: not asked for"),
        });
        reasons.collect::<Vec<_>>().join("; ")
    }
}

/// Operations that have one kernel a tier, whatever the format.
const OPERATIONS: [&str; 5] = [
    "rms_norm",
    "qk_norm_rope",
    "attention bf16",
    "silu_mul",
    "gelu_mul",
];

/// Which instructions serve products with this format.
fn linear_kernel(tier: Tier, format: &FormatInfo) -> &'static str {
    match (tier, format.coding) {
        (Tier::Generic, _) => "generic",
        (Tier::Avx2, Coding::Integer { .. }) => "avx2 maddubs",
        (Tier::Avx2, Coding::Codebook { .. }) => "avx2 permute, f32 fma",
        (Tier::Avx2, Coding::Float) => "avx2 f32",
        (Tier::Avx512, Coding::Integer { .. }) => "avx512 vnni",
        (Tier::Avx512, Coding::Codebook { .. }) => "avx512 permute, f32 fma",
        (Tier::Avx512, Coding::Float) => "avx512 f32",
    }
}

impl Backend for CpuBackend {
    fn describe(&self) -> BackendInfo {
        let (tier, why) = (self.tier(), self.why_not_faster());
        let choice = |operation: String, kernel: &str| KernelChoice {
            operation,
            kernel: kernel.to_owned(),
            why: why.clone(),
        };
        let linear = FORMATS.iter().map(|format| {
            choice(
                format!("linear {}", format.name),
                linear_kernel(tier, format),
            )
        });
        let others = OPERATIONS
            .iter()
            .map(|name| choice((*name).to_owned(), tier.name()));
        BackendInfo {
            name: NAME,
            device: format!("{tier} on {}", detect::cpu_model()),
            threads: self.threads(),
            exactness: Exactness {
                rows: true,
                chunks: true,
                resume: true,
                tiers: true,
            },
            kernels: linear.chain(others).collect(),
        }
    }

    fn layout_bytes(&self, layout: &PanelLayout) -> TensorResult<usize> {
        layout
            .checked_bytes()
            .ok_or_else(|| TensorError::OutOfMemory {
                what: format!(
                    "{} x {} {} weights",
                    layout.rows, layout.cols, layout.format
                ),
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
        repack::repack(&self.pool, data, layout, stored, rows)
    }

    fn kv_pool(&self, spec: &CacheSpec, blocks: &[usize]) -> TensorResult<KvPool> {
        check_cache(spec)?;
        KvPool::zeroed(spec, blocks)
    }

    fn scratch_bytes(&self, limits: &Limits) -> usize {
        CpuQueue::scratch_bytes(limits, self.threads())
    }

    fn queue(&self, limits: &Limits) -> TensorResult<Box<dyn Queue>> {
        Ok(Box::new(CpuQueue::new(
            Arc::clone(&self.pool),
            self.kernels,
            limits,
        )?))
    }
}

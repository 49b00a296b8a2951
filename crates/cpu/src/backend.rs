//! The CPU as a device: which tier and how many threads, layouts, memory, queues.

use std::ops::Range;
use std::sync::Arc;

use ucuz_tensor::backend::{BackendInfo, Exactness, KernelChoice, Limits};
use ucuz_tensor::format::{Arithmetic, Coding, FORMATS, FormatInfo};
use ucuz_tensor::layout::{LAYOUT_VERSION, PanelLayout};
use ucuz_tensor::{
    Backend, CacheSpec, Ceiling, CeilingKind, KvPool, Queue, TensorError, TensorResult,
};

use crate::ceiling::{self, Effort};
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
        Ok(Self::with_kernels(kernels, options))
    }

    /// Starts the threads for kernels that were chosen before; `options.tier` does not matter.
    pub(crate) fn with_kernels(kernels: &'static Kernels, options: CpuOptions) -> Self {
        let threads = options.threads.unwrap_or_else(detect::default_threads);
        let pool = Arc::new(ThreadPool::new(threads, options.pin, options.spin));
        Self { kernels, pool }
    }

    /// The tier in use.
    pub fn tier(&self) -> Tier {
        self.kernels.tier
    }

    /// Number of threads that compute.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

/// What an operation computes with, as far as it decides which instructions could serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// int8 codes.
    Int8,
    /// bf16 numbers.
    Bf16,
    /// f32 numbers, or what becomes f32 first: nothing is faster than the widest vectors.
    Float32,
}

impl Operands {
    const fn of(arithmetic: Arithmetic) -> Self {
        match arithmetic {
            Arithmetic::I8 | Arithmetic::I12 | Arithmetic::I8Row => Self::Int8,
            Arithmetic::Bf16Code | Arithmetic::Bf16 => Self::Bf16,
            Arithmetic::F32 => Self::Float32,
        }
    }
}

/// Why nothing faster than `tier` serves these operands on a processor with these features; empty when nothing could be.
fn why_not_faster(tier: Tier, operands: Operands, features: &CpuFeatures) -> String {
    // Tiles do nothing for f32: the AMX tier computes it as AVX-512 does.
    let serves = |other: &Tier| *other != Tier::Amx || operands != Operands::Float32;
    let faster = Tier::ALL.into_iter().filter(|other| *other > tier);
    let mut reasons: Vec<String> = faster
        .filter(serves)
        .map(|other| match features.missing(other) {
            Some(missing) => format!("{other}: {missing}"),
            None => format!("{other}: not asked for"),
        })
        .collect();
    if operands == Operands::Bf16 && tier == Tier::Avx512 && features.has("avx512bf16") {
        reasons.push("vdpbf16ps: another order of sums, not exact across tiers".to_owned());
    }
    reasons.join("; ")
}

/// Operations that have one kernel a tier, whatever the format.
const OPERATIONS: [(&str, Operands); 6] = [
    ("rms_norm", Operands::Float32),
    ("qk_norm_rope", Operands::Float32),
    ("attention bf16", Operands::Bf16),
    ("attention int8", Operands::Float32),
    ("silu_mul", Operands::Float32),
    ("gelu_mul", Operands::Float32),
];

/// Which instructions serve products with this format.
fn linear_kernel(tier: Tier, format: &FormatInfo) -> &'static str {
    match (tier, format.coding) {
        (Tier::Generic, _) => "generic",
        (Tier::Avx2, Coding::Integer { .. }) if CpuFeatures::detect().has("avxvnni") => "avx2 vnni",
        (Tier::Avx2, Coding::Integer { .. } | Coding::RowScaled) => "avx2 maddubs",
        (Tier::Avx2, Coding::Codebook { .. }) => "avx2 permute, f32 fma",
        (Tier::Avx2, Coding::Float) => "avx2 f32",
        (Tier::Avx512, Coding::Integer { .. } | Coding::RowScaled) => "avx512 vnni",
        (Tier::Avx512, Coding::Codebook { .. }) => "avx512 permute, f32 fma",
        (Tier::Avx512, Coding::Float) => "avx512 f32",
        (Tier::Amx, Coding::Integer { .. }) => "amx int8 tiles (under 24 rows avx512 vnni)",
        (Tier::Amx, Coding::RowScaled) => "amx int8 tiles (under 8 rows avx512 vnni)",
        (Tier::Amx, Coding::Codebook { .. }) => "amx bf16 tiles (under 8 rows avx512)",
        (Tier::Amx, Coding::Float) if format.arithmetic == Arithmetic::F32 => "avx512 f32",
        (Tier::Amx, Coding::Float) => "amx bf16 tiles (under 8 rows avx512)",
    }
}

/// Which instructions serve an operation that has one kernel a tier.
fn plain_kernel(tier: Tier, operands: Operands) -> &'static str {
    match (tier, operands) {
        (Tier::Amx, Operands::Float32) => Tier::Avx512.name(),
        (Tier::Amx, _) => "amx bf16 tiles (under 8 rows avx512)",
        _ => tier.name(),
    }
}

impl Backend for CpuBackend {
    fn describe(&self) -> BackendInfo {
        let (tier, features) = (self.tier(), CpuFeatures::detect());
        let choice = |operation: String, kernel: &str, operands: Operands| KernelChoice {
            operation,
            kernel: kernel.to_owned(),
            why: why_not_faster(tier, operands, &features),
        };
        let linear = FORMATS.iter().map(|format| {
            choice(
                format!("linear {}", format.name),
                linear_kernel(tier, format),
                Operands::of(format.arithmetic),
            )
        });
        let others = OPERATIONS.iter().map(|(name, operands)| {
            choice((*name).to_owned(), plain_kernel(tier, *operands), *operands)
        });
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

    fn layout_id(&self) -> String {
        // One layout serves every tier.
        format!("{NAME} panels {LAYOUT_VERSION}")
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

    fn ceiling(&self, kind: CeilingKind) -> TensorResult<Option<Ceiling>> {
        ceiling::measure(&self.pool, self.kernels.ceiling, kind, &Effort::full()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVX2: [&str; 3] = ["avx2", "fma", "f16c"];
    const AVX512: [&str; 6] = [
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512dq",
        "avx512vbmi",
        "avx512vnni",
    ];

    fn check(tier: Tier, operands: Operands, features: &[&'static str], expected: &str) {
        let features = CpuFeatures::from_names(features);
        let why = why_not_faster(tier, operands, &features);
        assert_eq!(why, expected, "{tier} {operands:?}");
    }

    #[test]
    fn every_faster_way_has_its_reason() {
        let most: Vec<&str> = AVX2.into_iter().chain(AVX512).collect();
        let amx = ["avx512bf16", "amx-tile", "amx-bf16", "amx-int8"];
        let all: Vec<&str> = [&most[..], &amx].concat();
        check(Tier::Avx512, Operands::Float32, &all, "");
        let lacks = "amx: this processor lacks amx-tile, amx-int8, amx-bf16";
        check(Tier::Avx512, Operands::Int8, &most, lacks);
        let has = "amx: not asked for";
        check(Tier::Avx512, Operands::Int8, &all, has);
        check(
            Tier::Avx512,
            Operands::Bf16,
            &all,
            "amx: not asked for; vdpbf16ps: another order of sums, not exact across tiers",
        );
        check(Tier::Amx, Operands::Float32, &all, "");
        check(Tier::Amx, Operands::Int8, &all, "");
        check(
            Tier::Avx2,
            Operands::Float32,
            &most,
            "avx512: not asked for",
        );
        check(
            Tier::Generic,
            Operands::Float32,
            &["fma", "f16c"],
            "avx2: this processor lacks avx2; avx512: this processor lacks avx2, avx512f, avx512bw, avx512vl, avx512dq, \
             avx512vbmi, avx512vnni",
        );
    }

    #[test]
    fn the_description_names_every_format_once() {
        let backend =
            CpuBackend::new(CpuOptions::quiet(Tier::Generic, 1)).expect("generic runs everywhere");
        let info = backend.describe();
        for format in FORMATS {
            let name = format!("linear {}", format.name);
            let rows = info.kernels.iter().filter(|k| k.operation == name);
            assert_eq!(rows.count(), 1, "{name}");
        }
    }
}

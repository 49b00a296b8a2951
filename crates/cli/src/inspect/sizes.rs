//! Counts and bytes of a checkpoint's tensors, each and by format.

use std::collections::BTreeMap;

use ucuz_formats::Checkpoint;
use ucuz_models::{ModelSpec, cache_spec};
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::{Backend, Format, KvDtype};

/// Sizes of some tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// How many tensors.
    pub tensors: u64,
    /// Their numbers.
    pub parameters: u64,
    /// Bytes in the file.
    pub stored_bytes: u64,
    /// Bytes in the layout that kernels read.
    pub resident_bytes: u64,
}

impl Total {
    fn add(&mut self, other: Self) {
        self.tensors += other.tensors;
        self.parameters += other.parameters;
        self.stored_bytes += other.stored_bytes;
        self.resident_bytes += other.resident_bytes;
    }

    /// Bits that one number takes in the file, bookkeeping counted.
    pub fn bits_per_weight(&self) -> f64 {
        self.stored_bytes as f64 * 8.0 / self.parameters.max(1) as f64
    }
}

/// One tensor.
#[derive(Debug)]
pub struct TensorSize<'a> {
    /// Name in the file.
    pub name: &'a str,
    /// Canonical name.
    pub role: &'a str,
    /// Name of the format.
    pub format: &'static str,
    /// Outermost dimension first.
    pub shape: &'a [usize],
    /// Its sizes.
    pub total: Total,
}

/// All sizes of a checkpoint.
#[derive(Debug)]
pub struct Sizes<'a> {
    /// Everything.
    pub total: Total,
    /// By name of the format.
    pub formats: BTreeMap<&'static str, Total>,
    /// In the order of the file.
    pub tensors: Vec<TensorSize<'a>>,
}

impl<'a> Sizes<'a> {
    /// Counts.
    pub fn of(checkpoint: &'a Checkpoint) -> Self {
        let mut sizes = Self {
            total: Total::default(),
            formats: BTreeMap::new(),
            tensors: Vec::new(),
        };
        for tensor in checkpoint.tensors() {
            let total = Total {
                tensors: 1,
                parameters: tensor.shape.iter().product::<usize>() as u64,
                stored_bytes: tensor.bytes.len() as u64,
                resident_bytes: resident_bytes(tensor.format, tensor.shape),
            };
            let format = tensor.format.info().name;
            sizes.total.add(total);
            sizes.formats.entry(format).or_default().add(total);
            sizes.tensors.push(TensorSize {
                name: tensor.stored_name,
                role: tensor.name,
                format,
                shape: tensor.shape,
                total,
            });
        }
        sizes
    }
}

/// Bytes of a tensor in memory: its compute layout, or f32 for vectors.
fn resident_bytes(format: Format, shape: &[usize]) -> u64 {
    let elements = shape.iter().product::<usize>();
    let layout = match shape {
        [rows, cols] => PanelLayout::new(format, *rows, *cols)
            .ok()
            .and_then(|l| l.checked_bytes()),
        _ => None,
    };
    layout.unwrap_or(elements.saturating_mul(4)) as u64
}

/// What `serve` takes beside the keys and values of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving {
    /// Requests that run at once.
    pub sequences: usize,
    /// Tokens computed in one step.
    pub step_tokens: usize,
    /// What steps work in.
    pub workspace_bytes: u64,
}

impl Serving {
    /// Counts, for the model's own context on `backend`.
    pub fn of(
        checkpoint: &Checkpoint,
        backend: &dyn Backend,
        sequences: usize,
        step_tokens: usize,
    ) -> Self {
        let config = &checkpoint.config;
        let spec = ModelSpec {
            config: config.clone(),
            cache: cache_spec(config, KvDtype::Bf16),
        };
        let limits = ucuz_llm::limits(&spec, (sequences, config.context), step_tokens);
        Self {
            sequences,
            step_tokens,
            workspace_bytes: ucuz_llm::workspace_bytes(config, backend, &limits) as u64,
        }
    }
}

/// Bytes that keys and values of one token take, by precision.
pub fn kv_bytes_per_token(checkpoint: &Checkpoint) -> Vec<(&'static str, usize)> {
    KvDtype::ALL
        .into_iter()
        .map(|dtype| {
            (
                dtype.name(),
                cache_spec(&checkpoint.config, dtype).token_bytes(),
            )
        })
        .collect()
}

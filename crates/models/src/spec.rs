//! What every architecture offers, and the memory a step works in.

use std::ops::Range;

use ucuz_formats::ModelConfig;
use ucuz_tensor::backend::{Limits, StepInputs};
use ucuz_tensor::cache::{LayerCache, PagedGroup};
use ucuz_tensor::{CacheSpec, KvDtype, KvPool, Queue, Tensor, TensorResult};

use crate::ModelResult;

/// Sizes of a model: what the engine and a plan need to know.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// The checkpoint's configuration.
    pub config: ModelConfig,
    /// What it caches.
    pub cache: CacheSpec,
}

impl ModelSpec {
    /// Widest input of any weight: the larger of hidden, heads and feed-forward width.
    pub fn cols_max(&self) -> usize {
        let config = &self.config;
        config
            .hidden
            .max(config.ffn)
            .max(config.heads * config.head_dim)
    }
}

/// The KV cache of a configuration: one group of layers that see everything, one of layers that slide.
pub fn cache_spec(config: &ModelConfig, dtype: KvDtype) -> CacheSpec {
    let mut groups: Vec<PagedGroup> = Vec::new();
    let mut layers = Vec::with_capacity(config.layers);
    for layer in 0..config.layers {
        let window = config.slides(layer).then_some(config.window).flatten();
        let group = groups
            .iter()
            .position(|group| group.window == window)
            .unwrap_or_else(|| {
                let (k_dim, v_dim) = (config.head_dim, config.head_dim);
                groups.push(PagedGroup {
                    layers: 0,
                    kv_heads: config.kv_heads,
                    k_dim,
                    v_dim,
                    dtype,
                    window,
                });
                groups.len() - 1
            });
        layers.push(LayerCache {
            group,
            index: groups[group].layers,
        });
        groups[group].layers += 1;
    }
    CacheSpec { groups, layers }
}

/// A model: mathematics only.
pub trait Model: Send {
    /// Sizes.
    fn spec(&self) -> &ModelSpec;

    /// Token ids to the residual stream `workspace.x`.
    ///
    /// # Errors
    /// What the queue reports.
    fn embed(&self, step: &mut Forward<'_>) -> TensorResult<()>;

    /// Layers `range` over `workspace.x`, in place; the last one leaves only the rows whose logits are wanted.
    ///
    /// # Errors
    /// What the queue reports.
    fn layers(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()>;

    /// The last norm of the wanted rows `range` (a range of `batch.logit_rows`) into the first rows of `workspace.normed`.
    ///
    /// # Errors
    /// What the queue reports.
    fn hidden(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()>;

    /// Logits of the wanted rows `range` (a range of `batch.logit_rows`) into the first rows of `workspace.logits`.
    ///
    /// # Errors
    /// What the queue reports.
    fn head(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()>;

    /// Resident bytes of all weights.
    fn weight_bytes(&self) -> usize;
}

/// One step under way.
pub struct Forward<'a> {
    /// Where operations go.
    pub queue: &'a mut dyn Queue,
    /// The cache.
    pub pool: &'a mut KvPool,
    /// Intermediate matrices.
    pub workspace: &'a mut Workspace,
    /// The step.
    pub inputs: StepInputs<'a>,
    /// Rows of the residual stream that are still computed.
    pub(crate) live_rows: usize,
}

impl Forward<'_> {
    /// Rows of the residual stream.
    pub fn rows(&self) -> usize {
        self.live_rows
    }

    /// Rows whose logits are wanted.
    pub fn wanted_rows(&self) -> usize {
        self.inputs.batch.logit_rows.len()
    }

    /// Leaves only the wanted rows in `workspace.x` and `workspace.heads`: nothing after the last attention reads another.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn keep_wanted_rows(&mut self) -> TensorResult<()> {
        let (rows, wanted) = (self.rows(), self.wanted_rows());
        if wanted == rows {
            return Ok(());
        }
        let ws = &mut self.workspace;
        let pairs = [
            (&mut ws.delta, &mut ws.x),
            (&mut ws.taken_heads, &mut ws.heads),
        ];
        for (taken, all) in pairs {
            let dst = taken.rows_mut(0..wanted);
            self.queue
                .take_rows(dst, all.rows(0..rows), 0..wanted, &self.inputs)?;
            std::mem::swap(taken, all);
        }
        self.live_rows = wanted;
        Ok(())
    }
}

/// Every intermediate matrix, made once for the largest step.
#[derive(Debug)]
pub struct Workspace {
    /// Residual stream: `[step_rows, hidden]`.
    pub x: Tensor,
    /// Normed input of a block: `[step_rows, hidden]`.
    pub normed: Tensor,
    /// A block's output before its own norm: `[step_rows, hidden]`.
    pub delta: Tensor,
    /// Packed queries, keys, values: `[step_rows, (heads + 2 kv_heads) head_dim]`.
    pub qkv: Tensor,
    /// Output of the heads: `[step_rows, heads head_dim]`.
    pub heads: Tensor,
    /// Room for gate and up projections of 64 rows at a time: `[min(step_rows, 64), 2 ffn]`.
    pub gate_up: Tensor,
    /// Their product: `[step_rows, ffn]`.
    pub activated: Tensor,
    /// Those of `heads` whose logits are wanted: `[step_rows, heads head_dim]`.
    pub taken_heads: Tensor,
    /// Logits: `[logit_rows, vocab]`.
    pub logits: Tensor,
}

impl Workspace {
    /// Allocates for `limits`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(config: &ModelConfig, limits: &Limits) -> ModelResult<Self> {
        let rows = limits.step_rows;
        let make = |rows, cols| Tensor::zeroed(rows, cols, "the workspace");
        Ok(Self {
            x: make(rows, config.hidden)?,
            normed: make(rows, config.hidden)?,
            delta: make(rows, config.hidden)?,
            qkv: make(rows, (config.heads + 2 * config.kv_heads) * config.head_dim)?,
            heads: make(rows, config.heads * config.head_dim)?,
            gate_up: make(gate_rows(limits), 2 * config.ffn)?,
            activated: make(rows, config.ffn)?,
            taken_heads: make(rows, config.heads * config.head_dim)?,
            logits: make(limits.logit_rows, config.vocab)?,
        })
    }

    /// Bytes of all matrices for `limits`, without allocating.
    pub fn bytes(config: &ModelConfig, limits: &Limits) -> usize {
        let qkv = (config.heads + 2 * config.kv_heads) * config.head_dim;
        let row = 3 * config.hidden + qkv + 2 * config.heads * config.head_dim + config.ffn;
        let gate_up = gate_rows(limits) * 2 * config.ffn;
        4 * (limits.step_rows * row + gate_up + limits.logit_rows * config.vocab)
    }
}

/// Rows of gate and up that are kept at once where a backend does not multiply and gate in one go: enough that a pass over
/// the weights is bound by arithmetic.
const GATE_ROWS: usize = 64;

fn gate_rows(limits: &Limits) -> usize {
    limits.step_rows.min(GATE_ROWS)
}

//! The parts that architectures are made of.

use std::ops::Range;
use std::sync::Arc;

use ucuz_tensor::backend::{AttentionCall, AttentionOptions, Gate, HeadShape, QkNorms, RopeTable};
use ucuz_tensor::cache::LayerCache;
use ucuz_tensor::{Queue, Tensor, TensorResult, View, ViewMut, Weight};

use crate::Forward;

/// A projection. Models call it, never the queue's `linear`, so that adapters and splits have one place to go.
#[derive(Debug)]
pub struct Linear {
    /// The weight, shared.
    pub weight: Arc<Weight>,
}

impl Linear {
    /// `dst = x wᵀ + bias`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn run(&self, queue: &mut dyn Queue, dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()> {
        queue.linear(dst, x, &self.weight)
    }

    /// `dst = (x wᵀ + bias) + dst`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn add(&self, queue: &mut dyn Queue, dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()> {
        queue.linear_add(dst, x, &self.weight)
    }

    /// `dst = gate(x wᵀ, first half) · (x wᵀ, second half)`; the second matrix of the pair is room to work in.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn gated(
        &self,
        queue: &mut dyn Queue,
        (dst, gate_up): (ViewMut<'_>, ViewMut<'_>),
        x: View<'_>,
        gate: Gate,
    ) -> TensorResult<()> {
        queue.linear_gated(dst, gate_up, x, &self.weight, gate)
    }
}

/// An RMS norm.
#[derive(Debug)]
pub struct Norm {
    /// `[1, n]`.
    pub weight: Tensor,
    /// Added to the mean square.
    pub eps: f32,
}

impl Norm {
    /// `dst = norm(x)`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn run(&self, queue: &mut dyn Queue, dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()> {
        queue.rms_norm(dst, x, &self.weight, self.eps)
    }

    /// `workspace.normed = norm(workspace.x)`: before a block.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn run_on_stream(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let workspace = &mut step.workspace;
        self.run(
            step.queue,
            workspace.normed.rows_mut(0..rows),
            workspace.x.rows(0..rows),
        )
    }
}

/// Norms of queries and keys before the rotation.
#[derive(Debug)]
pub struct HeadNorms {
    /// Query norm.
    pub q: Norm,
    /// Key norm.
    pub k: Norm,
}

/// Attention from the normed stream to the heads' output; the caller projects it back.
#[derive(Debug)]
pub struct Attention {
    /// Queries, keys, values.
    pub qkv: Linear,
    /// Back to the residual stream.
    pub out: Linear,
    /// Per-head norms, if the architecture has them.
    pub norms: Option<HeadNorms>,
    /// Heads.
    pub heads: HeadShape,
    /// Scale and window.
    pub options: AttentionOptions,
    /// Its place in the cache.
    pub cache: LayerCache,
    /// Rotation.
    pub rope: Arc<RopeTable>,
}

impl Attention {
    /// `workspace.normed` to `workspace.qkv`, its keys and values into the cache.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn store(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let Forward {
            queue,
            pool,
            workspace,
            inputs,
            ..
        } = step;
        self.qkv.run(
            *queue,
            workspace.qkv.rows_mut(0..rows),
            workspace.normed.rows(0..rows),
        )?;
        let norms = self.norms.as_ref().map(|n| QkNorms {
            q: &n.q.weight,
            k: &n.k.weight,
            eps: n.q.eps,
        });
        queue.qk_norm_rope(
            workspace.qkv.rows_mut(0..rows),
            &self.heads,
            norms,
            &self.rope,
            inputs,
        )?;
        queue.kv_store(
            pool,
            self.cache,
            workspace.qkv.rows(0..rows),
            &self.heads,
            inputs,
        )
    }

    /// The queries of `workspace.qkv` to `workspace.heads`, through the cache.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn attend(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let Forward {
            queue,
            pool,
            workspace,
            inputs,
            ..
        } = step;
        let call = AttentionCall {
            pool,
            layer: self.cache,
            heads: self.heads,
            options: self.options,
            inputs,
        };
        queue.attention(
            workspace.heads.rows_mut(0..rows),
            workspace.qkv.rows(0..rows),
            &call,
        )
    }
}

impl Attention {
    /// Resident bytes.
    pub fn len_bytes(&self) -> usize {
        let norms = self
            .norms
            .as_ref()
            .map_or(0, |n| n.q.weight.len_bytes() + n.k.weight.len_bytes());
        self.qkv.weight.len_bytes() + self.out.weight.len_bytes() + norms
    }
}

impl FeedForward {
    /// Resident bytes.
    pub fn len_bytes(&self) -> usize {
        self.gate_up.weight.len_bytes() + self.down.weight.len_bytes()
    }
}

/// Gated feed-forward from the normed stream to the activated product; the caller projects it back.
#[derive(Debug)]
pub struct FeedForward {
    /// Gate and up.
    pub gate_up: Linear,
    /// Back to the residual stream.
    pub down: Linear,
    /// The gate's function.
    pub gate: Gate,
}

impl FeedForward {
    /// `workspace.normed` to `workspace.activated`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn activate(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let Forward {
            queue, workspace, ..
        } = step;
        let room = rows.min(workspace.gate_up.num_rows());
        let (dst, gate_up) = (
            workspace.activated.rows_mut(0..rows),
            workspace.gate_up.rows_mut(0..room),
        );
        let x = workspace.normed.rows(0..rows);
        self.gate_up.gated(*queue, (dst, gate_up), x, self.gate)
    }
}

/// Token ids in, logits out: the same for every decoder.
#[derive(Debug)]
pub struct Ends {
    /// Embedding table.
    pub embedding: Arc<Weight>,
    /// Multiplies embeddings.
    pub embedding_scale: f32,
    /// Last norm.
    pub norm: Norm,
    /// Output projection; the embedding itself when tied.
    pub head: Linear,
}

impl Ends {
    /// Token ids to `workspace.x`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn embed(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let dst = step.workspace.x.rows_mut(0..rows);
        step.queue
            .embed(dst, &self.embedding, self.embedding_scale, &step.inputs)
    }

    /// Rows `range` of the wanted ones, which are all that the last layer left in `workspace.x`, normed for the last time
    /// into `workspace.normed`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn hidden(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        let workspace = &mut *step.workspace;
        let dst = workspace.normed.rows_mut(0..range.len());
        self.norm.run(step.queue, dst, workspace.x.rows(range))
    }

    /// [`Ends::hidden`] and their logits, in `workspace.logits`.
    ///
    /// # Errors
    /// What the queue reports.
    pub fn head(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        let n = range.len();
        self.hidden(step, range)?;
        let Forward {
            queue, workspace, ..
        } = step;
        self.head.run(
            *queue,
            workspace.logits.rows_mut(0..n),
            workspace.normed.rows(0..n),
        )
    }

    /// Resident bytes; a tied head counts once.
    pub fn len_bytes(&self) -> usize {
        let tied = Arc::ptr_eq(&self.embedding, &self.head.weight);
        self.embedding.len_bytes()
            + if tied {
                0
            } else {
                self.head.weight.len_bytes()
            }
            + self.norm.weight.len_bytes()
    }
}

//! What a device is: a [`Backend`] that lays out weights and memory, and a [`Queue`] of coarse operations in order.
//!
//! Operations take the destination first, never allocate, and check shapes once at their door. Row `i` of any output
//! depends only on row `i` of the input and on the weights, bit for bit, whatever else is in the batch.
//!
//! The packed projection `qkv` is `[rows, (heads + 2 kv_heads) head_dim]`: queries, then keys, then values.

use std::ops::Range;

use crate::batch::Batch;
use crate::cache::{CacheSpec, KvPool, LayerCache};
use crate::ceiling::{Ceiling, CeilingKind};
use crate::check;
use crate::error::TensorResult;
use crate::layout::PanelLayout;
use crate::sampling::{SampleRow, Sampled};
use crate::tensor::{Tensor, View, ViewMut};
use crate::weight::Weight;

/// Sizes known before the first step; every buffer of a queue is made from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most rows of one step.
    pub step_rows: usize,
    /// Most sequences of one step.
    pub sequences: usize,
    /// Most logit rows computed at once.
    pub logit_rows: usize,
    /// Longest sequence in tokens.
    pub context: usize,
    /// Widest input of any weight.
    pub cols_max: usize,
    /// Size of the vocabulary.
    pub vocab: usize,
}

/// Heads of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Numbers of one head.
    pub head_dim: usize,
}

impl HeadShape {
    /// Columns of the packed `qkv`.
    pub const fn qkv_cols(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }
}

/// Which two numbers a rotation pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(x[i], x[i + rotary_dim / 2])`, as Hugging Face checkpoints.
    Half,
    /// `(x[2i], x[2i + 1])`, as GGUF llama checkpoints.
    Interleaved,
}

/// Cosines and sines `[positions, rotary_dim / 2]` for every position that is served.
#[derive(Debug)]
pub struct RopeTable {
    /// Cosines, attention scaling included.
    pub cos: Tensor,
    /// Sines, attention scaling included.
    pub sin: Tensor,
    /// Pairing.
    pub style: RopeStyle,
}

/// RMS norms over each head before the rotation.
#[derive(Debug, Clone, Copy)]
pub struct QkNorms<'a> {
    /// Weight of the query norm, `[1, head_dim]`.
    pub q: &'a Tensor,
    /// Weight of the key norm, `[1, head_dim]`.
    pub k: &'a Tensor,
    /// Added to the mean square.
    pub eps: f32,
}

/// How scores become weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionOptions {
    /// Multiplies `q · k`.
    pub scale: f32,
    /// Tokens that a query sees, itself included; `None` sees all.
    pub window: Option<usize>,
}

/// The function of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `x · sigmoid(x)`.
    Silu,
    /// GELU in its tanh form.
    GeluTanh,
}

/// Proof that a batch was handed to the device; operations read it, never host slices.
#[derive(Debug, Clone, Copy)]
pub struct StepInputs<'a> {
    /// The step.
    pub batch: &'a Batch,
}

/// Sampling under way; ask for it with [`Queue::wait`].
#[derive(Debug, PartialEq, Eq, Clone, Copy, Hash)]
pub struct Ticket(pub u64);

/// What a (model, backend, options) keeps bit for bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exactness {
    /// Alone = in any batch.
    pub rows: bool,
    /// Whole = in chunks.
    pub chunks: bool,
    /// Undisturbed = preempted and resumed.
    pub resume: bool,
    /// The same tokens on every tier of this kind of device.
    pub tiers: bool,
}

/// One line of a backend's description: an operation, the kernel that serves it, and why not a faster one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelChoice {
    /// Operation and format, e.g. `linear Q4_1`.
    pub operation: String,
    /// Kernel or tier.
    pub kernel: String,
    /// Why a faster tier is not used; empty when the fastest is.
    pub why: String,
}

/// What a backend says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendInfo {
    /// `cpu`, `reference`, ...
    pub name: &'static str,
    /// The device in words, e.g. the tier and the processor.
    pub device: String,
    /// Threads that compute.
    pub threads: usize,
    /// What it keeps bit for bit.
    pub exactness: Exactness,
    /// The dispatch table.
    pub kernels: Vec<KernelChoice>,
}

/// A device: sizes, layouts, memory.
pub trait Backend: Send + Sync {
    /// What it is and which kernels it chose.
    fn describe(&self) -> BackendInfo;

    /// Names the bytes that [`Backend::repack`] writes: equal names and equal stored rows give equal bytes, on any machine
    /// of this kind. Prepared weights on disk are found by it.
    fn layout_id(&self) -> String;

    /// Bytes that a part with this layout takes here. Parts of whole panels add up: rows in pieces take what they take
    /// together.
    ///
    /// # Errors
    /// When the backend cannot compute this format or the size overflows.
    fn layout_bytes(&self, layout: &PanelLayout) -> TensorResult<usize>;

    /// Brings stored rows `rows` (a range that starts at a multiple of 16) into `data`, the part's whole buffer. The bytes
    /// of a part are those of its row ranges (multiples of 256), each repacked by itself, one after the other.
    ///
    /// `stored` holds just those rows, `layout.stored.row_bytes(layout.cols)` bytes each.
    ///
    /// # Errors
    /// When sizes disagree.
    fn repack(
        &self,
        data: &mut [u8],
        layout: &PanelLayout,
        stored: &[u8],
        rows: Range<usize>,
    ) -> TensorResult<()>;

    /// Reserves KV blocks, `blocks[group]` of each group.
    ///
    /// # Errors
    /// When the memory cannot be had, or the shape cannot be computed here.
    fn kv_pool(&self, spec: &CacheSpec, blocks: &[usize]) -> TensorResult<KvPool>;

    /// Bytes of scratch that a queue with these limits owns.
    fn scratch_bytes(&self, limits: &Limits) -> usize;

    /// A queue; it owns all scratch.
    ///
    /// # Errors
    /// When the scratch cannot be had.
    fn queue(&self, limits: &Limits) -> TensorResult<Box<dyn Queue>>;

    /// Measures what this device can do at most, with all its threads and the instructions its kernels use; takes from a
    /// tenth of a second to a few seconds, and nothing else may run meanwhile. `None` when it has no such measurement.
    ///
    /// # Errors
    /// When the memory to read cannot be had.
    fn ceiling(&self, kind: CeilingKind) -> TensorResult<Option<Ceiling>>;
}

/// Operations in order on one device.
pub trait Queue: Send {
    /// Hands the step to the device: the one upload.
    ///
    /// # Errors
    /// When the batch exceeds the queue's limits.
    fn begin<'a>(&mut self, batch: &'a Batch) -> TensorResult<StepInputs<'a>>;

    /// `dst[i] = scale · table[tokens[i]]`, for the step's tokens. `dst: [rows, hidden]`.
    ///
    /// # Errors
    /// Shapes that disagree, or a token outside of the table.
    fn embed(
        &mut self,
        dst: ViewMut<'_>,
        table: &Weight,
        scale: f32,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()>;

    /// `dst[i] = x[i] / sqrt(mean(x[i]²) + eps) · weight`. `dst, x: [rows, n]`, `weight: [1, n]`.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn rms_norm(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        weight: &Tensor,
        eps: f32,
    ) -> TensorResult<()>;

    /// `dst = x wᵀ + bias`. `dst: [rows, w.rows]`, `x: [rows, w.cols]`.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn linear(&mut self, dst: ViewMut<'_>, x: View<'_>, w: &Weight) -> TensorResult<()>;

    /// `dst = (x wᵀ + bias) + dst`: a projection back onto the residual, in place.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn linear_add(&mut self, dst: ViewMut<'_>, x: View<'_>, w: &Weight) -> TensorResult<()>;

    /// Norms (if any) and rotates the queries and keys of `qkv` in place, each row at its position.
    ///
    /// # Errors
    /// Shapes that disagree, or a position past the table.
    fn qk_norm_rope(
        &mut self,
        qkv: ViewMut<'_>,
        heads: &HeadShape,
        norms: Option<QkNorms<'_>>,
        rope: &RopeTable,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()>;

    /// Stores the keys and values of `qkv` at their rows' places in the pool, in the pool's precision.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn kv_store(
        &mut self,
        pool: &mut KvPool,
        layer: LayerCache,
        qkv: View<'_>,
        heads: &HeadShape,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()>;

    /// Causal attention of the queries in `qkv` over the pool, this step's keys included (read back from the pool).
    /// `dst: [rows, heads · head_dim]`. The score matrix never exists whole.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn attention(
        &mut self,
        dst: ViewMut<'_>,
        qkv: View<'_>,
        call: &AttentionCall<'_>,
    ) -> TensorResult<()>;

    /// `dst = silu(gate) · up` with `gate_up: [rows, 2n]` (gate first), `dst: [rows, n]`.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn silu_mul(&mut self, dst: ViewMut<'_>, gate_up: View<'_>) -> TensorResult<()>;

    /// `dst = gelu_tanh(gate) · up`, shapes as [`Queue::silu_mul`].
    ///
    /// # Errors
    /// Shapes that disagree.
    fn gelu_mul(&mut self, dst: ViewMut<'_>, gate_up: View<'_>) -> TensorResult<()>;

    /// `dst = activation(gate) · up` where `[gate, up] = x wᵀ + bias`. `dst: [rows, w.rows / 2]`, `x: [rows, w.cols]`.
    ///
    /// `gate_up: [at least 1 and at most rows, w.rows]` is room that an implementation may use; what it holds afterwards is
    /// not said. The bits are those of [`Queue::linear`] and [`Queue::silu_mul`] or [`Queue::gelu_mul`], one after the other.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn linear_gated(
        &mut self,
        dst: ViewMut<'_>,
        gate_up: ViewMut<'_>,
        x: View<'_>,
        w: &Weight,
        gate: Gate,
    ) -> TensorResult<()> {
        check::gated_room(&dst, &gate_up.view())?;
        gated_in_turns(self, (dst, gate_up), x, w, gate)
    }

    /// `dst = dst + x`, in place.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn add(&mut self, dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()>;

    /// `dst[i] = x[logit_rows[which][i]]`: the rows whose logits are wanted.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn take_rows(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        which: Range<usize>,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()>;

    /// Starts choosing (or scoring) a token for each row of `logits: [rows, vocab]`; `rows[i]` is about row `i`.
    ///
    /// # Errors
    /// Shapes that disagree.
    fn sample(&mut self, logits: View<'_>, rows: &[SampleRow<'_>]) -> TensorResult<Ticket>;

    /// Waits for a ticket.
    ///
    /// # Errors
    /// When the device failed. A bad row is not an error here: see [`Sampled::rows`].
    fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled>;
}

/// [`Queue::silu_mul`] or [`Queue::gelu_mul`], as `gate` says; shapes as there.
///
/// # Errors
/// As there.
pub fn gate_mul<Q: Queue + ?Sized>(
    queue: &mut Q,
    dst: ViewMut<'_>,
    gate_up: View<'_>,
    gate: Gate,
) -> TensorResult<()> {
    match gate {
        Gate::Silu => queue.silu_mul(dst, gate_up),
        Gate::GeluTanh => queue.gelu_mul(dst, gate_up),
    }
}

/// [`Queue::linear_gated`] by the product and then the gate, as many rows at a time as the room `gate_up` has.
///
/// # Errors
/// Shapes that disagree.
pub fn gated_in_turns<Q: Queue + ?Sized>(
    queue: &mut Q,
    (mut dst, mut gate_up): (ViewMut<'_>, ViewMut<'_>),
    x: View<'_>,
    w: &Weight,
    gate: Gate,
) -> TensorResult<()> {
    check::shape(
        "x of a gated product",
        (dst.num_rows(), w.cols),
        check::of(&x),
    )?;
    let room = gate_up.num_rows().max(1);
    for start in (0..x.num_rows()).step_by(room) {
        let rows = start..(start + room).min(x.num_rows());
        let mut both = gate_up.rows_mut(0..rows.len());
        queue.linear(both.reborrow(), x.rows(rows.clone()), w)?;
        gate_mul(queue, dst.rows_mut(rows), both.view(), gate)?;
    }
    Ok(())
}

/// Everything [`Queue::attention`] needs beside its matrices.
#[derive(Clone, Copy)]
pub struct AttentionCall<'a> {
    /// The cache.
    pub pool: &'a KvPool,
    /// Which layer of it.
    pub layer: LayerCache,
    /// Heads.
    pub heads: HeadShape,
    /// Scale and window.
    pub options: AttentionOptions,
    /// The step.
    pub inputs: &'a StepInputs<'a>,
}

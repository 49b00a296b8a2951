//! The CPU's queue: operations run at once, in order, in scratch that was made with the queue.
//!
//! Each operation checks its shapes and indices here and then calls `ops`, which relies on them.

use std::ops::Range;
use std::sync::Arc;

use ucuz_tensor::backend::{
    AttentionCall, Gate, HeadShape, Limits, QkNorms, RopeTable, StepInputs, Ticket, gated_in_turns,
};
use ucuz_tensor::cache::{KvPool, LayerCache};
use ucuz_tensor::sampling::{SampleRow, SampleScratch, Sampled};
use ucuz_tensor::tensor::{Tensor, View, ViewMut};
use ucuz_tensor::{Batch, Queue, TensorError, TensorResult, Weight, check};

use crate::arch;
use crate::backend::NAME;
use crate::ops::attention::{self, AttentionScratch};
use crate::ops::linear::{self, LinearCall, Output};
use crate::ops::packing::LinearScratch;
use crate::ops::rope::QkCall;
use crate::ops::{activation, elementwise, embed, kv, norm, rope, sample};
use crate::pool::ThreadPool;
use crate::table::Kernels;

/// Operations on the CPU.
#[derive(Debug)]
pub struct CpuQueue {
    pool: Arc<ThreadPool>,
    kernels: &'static Kernels,
    limits: Limits,
    linear: LinearScratch,
    attention: AttentionScratch,
    sampling: Vec<SampleScratch>,
    next_ticket: u64,
    sampled: Vec<(Ticket, Sampled)>,
}

impl CpuQueue {
    /// A queue with all the scratch that steps within `limits` need.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] when the scratch cannot be had.
    pub fn new(
        pool: Arc<ThreadPool>,
        kernels: &'static Kernels,
        limits: &Limits,
    ) -> TensorResult<Self> {
        let threads = pool.threads();
        Ok(Self {
            linear: LinearScratch::new(linear_rows(limits), limits.cols_max)?,
            attention: AttentionScratch::new(limits, threads)?,
            sampling: (0..threads)
                .map(|_| SampleScratch::new(limits.vocab))
                .collect(),
            pool,
            kernels,
            limits: *limits,
            next_ticket: 0,
            sampled: Vec::new(),
        })
    }

    /// Bytes of scratch that a queue with these limits owns.
    pub fn scratch_bytes(limits: &Limits, threads: usize) -> usize {
        LinearScratch::len_bytes(linear_rows(limits), limits.cols_max)
            .saturating_add(AttentionScratch::len_bytes(limits, threads))
            .saturating_add(threads.saturating_mul(sampling_bytes(limits.vocab)))
    }

    fn product(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        w: &Weight,
        output: Output,
    ) -> TensorResult<()> {
        let cols = match output {
            Output::Gated(_) => w.rows / 2,
            Output::Replace | Output::Add => w.rows,
        };
        check::shape("x of a product", (x.num_rows(), w.cols), check::of(&x))?;
        check::shape(
            "dst of a product",
            (x.num_rows(), cols),
            check::of_mut(&dst),
        )?;
        check::at_most("rows of a product", linear_rows(&self.limits), x.num_rows())?;
        check::at_most("columns of a product", self.limits.cols_max, w.cols)?;
        let call = LinearCall { dst, x, w, output };
        linear::linear(&self.pool, self.kernels, &mut self.linear, call);
        Ok(())
    }
}

/// Fewer rows than this are multiplied and gated one after the other: their results stay in the cache anyway, and weights
/// stream better from one place than from two.
const GATED_ROWS_MIN: usize = 8;

/// Bytes of one [`SampleScratch`]: logits, ids, and a histogram of fixed size.
fn sampling_bytes(vocab: usize) -> usize {
    vocab.saturating_mul(8).saturating_add(4096)
}

/// Most activation rows of one product.
fn linear_rows(limits: &Limits) -> usize {
    limits.step_rows.max(limits.logit_rows)
}

impl Queue for CpuQueue {
    fn begin<'a>(&mut self, batch: &'a Batch) -> TensorResult<StepInputs<'a>> {
        check::batch(batch, &self.limits)?;
        if !arch::float_modes_are_default() {
            return Err(TensorError::Device {
                backend: NAME,
                why: "this thread flushes denormals or rounds otherwise than to nearest even; \
                      some library changed MXCSR"
                    .to_owned(),
            });
        }
        self.pool.begin_step();
        Ok(StepInputs { batch })
    }

    fn embed(
        &mut self,
        dst: ViewMut<'_>,
        table: &Weight,
        scale: f32,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        let tokens = &inputs.batch.tokens;
        check::embed(&dst, table, tokens)?;
        embed::embed(&self.pool, dst, table, scale, tokens);
        Ok(())
    }

    fn rms_norm(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        weight: &Tensor,
        eps: f32,
    ) -> TensorResult<()> {
        check::rms_norm(&dst, &x, weight)?;
        norm::rms_norm(&self.pool, self.kernels, dst, x, weight.values(), eps);
        Ok(())
    }

    fn linear(&mut self, dst: ViewMut<'_>, x: View<'_>, w: &Weight) -> TensorResult<()> {
        self.product(dst, x, w, Output::Replace)
    }

    fn linear_add(&mut self, dst: ViewMut<'_>, x: View<'_>, w: &Weight) -> TensorResult<()> {
        self.product(dst, x, w, Output::Add)
    }

    fn linear_gated(
        &mut self,
        dst: ViewMut<'_>,
        gate_up: ViewMut<'_>,
        x: View<'_>,
        w: &Weight,
        gate: Gate,
    ) -> TensorResult<()> {
        check::gated_room(&dst, &gate_up.view())?;
        let kernel = match gate {
            Gate::Silu => self.kernels.silu_mul,
            Gate::GeluTanh => self.kernels.gelu_mul,
        };
        if x.num_rows() >= GATED_ROWS_MIN && linear::can_gate(w) {
            return self.product(dst, x, w, Output::Gated(kernel));
        }
        gated_in_turns(self, (dst, gate_up), x, w, gate)
    }

    fn qk_norm_rope(
        &mut self,
        qkv: ViewMut<'_>,
        heads: &HeadShape,
        norms: Option<QkNorms<'_>>,
        rope: &RopeTable,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        check::qk_norm_rope(&qkv, heads, norms.as_ref(), rope, inputs.batch)?;
        let call = QkCall {
            heads: *heads,
            norms,
            rope,
        };
        rope::qk_norm_rope(&self.pool, self.kernels, qkv, &call, inputs.batch);
        Ok(())
    }

    fn kv_store(
        &mut self,
        pool: &mut KvPool,
        layer: LayerCache,
        qkv: View<'_>,
        heads: &HeadShape,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        check::kv_store(pool, layer, &qkv, heads, inputs.batch)?;
        attention::check_cache(&pool.spec)?;
        kv::kv_store(&self.pool, pool, layer, qkv, heads, inputs.batch);
        Ok(())
    }

    fn attention(
        &mut self,
        dst: ViewMut<'_>,
        qkv: View<'_>,
        call: &AttentionCall<'_>,
    ) -> TensorResult<()> {
        check::attention(&dst, &qkv, call)?;
        attention::check_cache(&call.pool.spec)?;
        attention::attention(
            &self.pool,
            self.kernels,
            &mut self.attention,
            dst,
            qkv,
            call,
        );
        Ok(())
    }

    fn silu_mul(&mut self, dst: ViewMut<'_>, gate_up: View<'_>) -> TensorResult<()> {
        check::gated(&dst, &gate_up)?;
        activation::silu_mul(&self.pool, self.kernels, dst, gate_up);
        Ok(())
    }

    fn gelu_mul(&mut self, dst: ViewMut<'_>, gate_up: View<'_>) -> TensorResult<()> {
        check::gated(&dst, &gate_up)?;
        activation::gelu_mul(&self.pool, self.kernels, dst, gate_up);
        Ok(())
    }

    fn add(&mut self, dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()> {
        check::add(&dst, &x)?;
        elementwise::add(&self.pool, dst, x);
        Ok(())
    }

    fn take_rows(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        which: Range<usize>,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        let rows = check::take_rows(&dst, &x, which, inputs.batch)?;
        elementwise::take_rows(dst, x, rows);
        Ok(())
    }

    fn sample(&mut self, logits: View<'_>, rows: &[SampleRow<'_>]) -> TensorResult<Ticket> {
        check::shape(
            "logits",
            (rows.len(), self.limits.vocab),
            check::of(&logits),
        )?;
        let sampled = sample::sample(&self.pool, &mut self.sampling, logits, rows);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.sampled.push((ticket, sampled));
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled> {
        self.pool.end_step();
        let place = self.sampled.iter().position(|(held, _)| *held == ticket);
        place
            .map(|i| self.sampled.swap_remove(i).1)
            .ok_or_else(|| TensorError::Device {
                backend: NAME,
                why: format!("{ticket:?} was never given out, or was waited for before"),
            })
    }
}

//! The reference's operations in order; each checks its shapes and computes at once.

use std::ops::Range;

use super::attention::{self, Scratch};
use super::linear::{self, Write};
use super::{NAME, pointwise, rope};
use crate::backend::{
    AttentionCall, HeadShape, Limits, QkNorms, Queue, RopeTable, StepInputs, Ticket,
};
use crate::batch::Batch;
use crate::cache::{KvPool, LayerCache};
use crate::check;
use crate::error::{TensorError, TensorResult};
use crate::sampling::{SampleRow, SampleScratch, Sampled, sample_row};
use crate::tensor::{Tensor, View, ViewMut};
use crate::weight::Weight;

/// A queue of plain operations.
pub struct ReferenceQueue {
    limits: Limits,
    /// One a thread.
    attention: Vec<Scratch>,
    sampling: SampleScratch,
    next_ticket: u64,
    /// Sampled, and not yet asked for.
    results: Vec<(Ticket, Sampled)>,
}

impl ReferenceQueue {
    /// A queue that computes on `threads` threads.
    pub fn new(threads: usize, limits: &Limits) -> Self {
        let scratch = || Scratch {
            scores: Vec::with_capacity(limits.context),
            partial: Vec::new(),
        };
        Self {
            limits: *limits,
            attention: (0..threads).map(|_| scratch()).collect(),
            sampling: SampleScratch::new(limits.vocab),
            next_ticket: 0,
            results: Vec::new(),
        }
    }

    /// Bytes of scratch: scores of one row a thread, and one row of logits for the sampler.
    pub fn scratch_bytes(threads: usize, limits: &Limits) -> usize {
        threads * limits.context * 4 + limits.vocab * 8
    }

    fn threads(&self) -> usize {
        self.attention.len()
    }
}

impl Queue for ReferenceQueue {
    fn begin<'a>(&mut self, batch: &'a Batch) -> TensorResult<StepInputs<'a>> {
        check::batch(batch, &self.limits)?;
        Ok(StepInputs { batch })
    }

    fn embed(
        &mut self,
        dst: ViewMut<'_>,
        table: &Weight,
        scale: f32,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        linear::embed(dst, table, scale, &inputs.batch.tokens)
    }

    fn rms_norm(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        weight: &Tensor,
        eps: f32,
    ) -> TensorResult<()> {
        pointwise::rms_norm(dst, x, weight, eps)
    }

    fn linear(&mut self, dst: ViewMut<'_>, x: View<'_>, w: &Weight) -> TensorResult<()> {
        linear::linear(dst, x, w, Write::Set, self.threads())
    }

    fn linear_add(&mut self, dst: ViewMut<'_>, x: View<'_>, w: &Weight) -> TensorResult<()> {
        linear::linear(dst, x, w, Write::Add, self.threads())
    }

    fn qk_norm_rope(
        &mut self,
        qkv: ViewMut<'_>,
        heads: &HeadShape,
        norms: Option<QkNorms<'_>>,
        rope: &RopeTable,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        rope::qk_norm_rope(qkv, heads, norms, rope, inputs.batch)
    }

    fn kv_store(
        &mut self,
        pool: &mut KvPool,
        layer: LayerCache,
        qkv: View<'_>,
        heads: &HeadShape,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        attention::kv_store(pool, layer, qkv, heads, inputs.batch)
    }

    fn attention(
        &mut self,
        dst: ViewMut<'_>,
        qkv: View<'_>,
        call: &AttentionCall<'_>,
    ) -> TensorResult<()> {
        attention::attention(dst, qkv, call, &mut self.attention)
    }

    fn silu_mul(&mut self, dst: ViewMut<'_>, gate_up: View<'_>) -> TensorResult<()> {
        pointwise::gated(dst, gate_up, pointwise::silu)
    }

    fn gelu_mul(&mut self, dst: ViewMut<'_>, gate_up: View<'_>) -> TensorResult<()> {
        pointwise::gated(dst, gate_up, pointwise::gelu_tanh)
    }

    fn add(&mut self, dst: ViewMut<'_>, x: View<'_>) -> TensorResult<()> {
        pointwise::add(dst, x)
    }

    fn take_rows(
        &mut self,
        dst: ViewMut<'_>,
        x: View<'_>,
        which: Range<usize>,
        inputs: &StepInputs<'_>,
    ) -> TensorResult<()> {
        pointwise::take_rows(dst, x, which, inputs.batch)
    }

    fn sample(&mut self, logits: View<'_>, rows: &[SampleRow<'_>]) -> TensorResult<Ticket> {
        let expected = (rows.len(), self.limits.vocab);
        check::shape("logits", expected, check::of(&logits))?;
        let rows = rows
            .iter()
            .enumerate()
            .map(|(i, row)| sample_row(logits.row(i), row, &mut self.sampling))
            .collect();
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.results.push((ticket, Sampled { rows }));
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled> {
        let place = self.results.iter().position(|(held, _)| *held == ticket);
        place
            .map(|i| self.results.swap_remove(i).1)
            .ok_or_else(|| TensorError::Device {
                backend: NAME,
                why: format!("{ticket:?} was never given out, or was waited for before"),
            })
    }
}

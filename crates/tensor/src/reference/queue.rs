//! The reference's operations in order; each checks its shapes and computes at once.

use std::ops::Range;

use super::attention::{self, Scratch};
use super::linear::{self, Write};
use super::{NAME, check_size, pointwise, rope};
use crate::backend::{
    AttentionCall, HeadShape, Limits, QkNorms, Queue, RopeTable, StepInputs, Ticket,
};
use crate::batch::Batch;
use crate::cache::{BLOCK_TOKENS, KvPool, LayerCache};
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
        check_batch(batch, &self.limits)?;
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
        rope::qk_norm_rope(qkv, heads, norms, rope, &inputs.batch.positions)
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
        let rows = &inputs.batch.logit_rows;
        let Some(rows) = rows.get(which.clone()) else {
            return Err(TensorError::shape(
                "logit rows to take",
                0..rows.len(),
                which,
            ));
        };
        pointwise::take_rows(dst, x, rows)
    }

    fn sample(&mut self, logits: View<'_>, rows: &[SampleRow<'_>]) -> TensorResult<Ticket> {
        check_size("rows of logits", rows.len(), logits.num_rows())?;
        check_size("columns of logits", self.limits.vocab, logits.num_cols())?;
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

/// The step fits the limits and its arrays agree with each other, so that operations may index them.
fn check_batch(batch: &Batch, limits: &Limits) -> TensorResult<()> {
    let (rows, sequences) = (batch.num_rows(), batch.num_sequences());
    if rows > limits.step_rows {
        return Err(TensorError::shape(
            "rows of the step",
            0..=limits.step_rows,
            rows,
        ));
    }
    if sequences > limits.sequences {
        return Err(TensorError::shape(
            "sequences of the step",
            0..=limits.sequences,
            sequences,
        ));
    }
    check_size("positions of the step", rows, batch.positions.len())?;
    check_size("sequence starts", sequences + 1, batch.seq_starts.len())?;
    check_size("first sequence start", 0, batch.seq_starts[0] as usize)?;
    check_size(
        "last sequence start",
        rows,
        batch.seq_starts[sequences] as usize,
    )?;
    if !batch.seq_starts.is_sorted() {
        return Err(TensorError::shape(
            "sequence starts",
            "ascending",
            &batch.seq_starts,
        ));
    }
    for sequence in 0..sequences {
        check_sequence(batch, sequence)?;
    }
    Ok(())
}

fn check_sequence(batch: &Batch, sequence: usize) -> TensorResult<()> {
    let tokens = batch.kv_lens[sequence] as usize;
    let positions = &batch.positions[batch.sequence_rows(sequence)];
    if let Some(past) = positions.iter().find(|p| **p as usize >= tokens) {
        return Err(TensorError::shape(
            "position in its sequence",
            0..tokens,
            past,
        ));
    }
    for tables in &batch.groups {
        let bounds = tables
            .starts
            .get(sequence..sequence + 2)
            .map(|s| s[0] as usize..s[1] as usize);
        let table = bounds
            .and_then(|bounds| tables.blocks.get(bounds))
            .unwrap_or(&[]);
        let needed = tokens.div_ceil(BLOCK_TOKENS);
        if table.len() < needed {
            return Err(TensorError::shape(
                "blocks of a sequence",
                needed..,
                table.len(),
            ));
        }
    }
    Ok(())
}

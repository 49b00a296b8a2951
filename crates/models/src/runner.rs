//! A model with its queue, cache and workspace: one step in, one ticket out.

use std::collections::VecDeque;
use std::ops::Range;

use ucuz_tensor::backend::{Limits, Ticket};
use ucuz_tensor::sampling::{SampleRow, Sampled};
use ucuz_tensor::{Backend, Batch, CacheSpec, KvPool, Queue, TensorError, TensorResult};

use crate::{Forward, Model, ModelResult, Workspace};

/// Sizes of a runner.
#[derive(Debug, Clone)]
pub struct RunnerOptions {
    /// Limits of every step.
    pub limits: Limits,
    /// KV blocks of each cache group.
    pub blocks: Vec<usize>,
}

/// Owns everything a step touches.
pub struct ModelRunner {
    model: Box<dyn Model>,
    queue: Box<dyn Queue>,
    pool: KvPool,
    workspace: Workspace,
    limits: Limits,
    in_flight: VecDeque<(Ticket, Vec<Ticket>)>,
    next_ticket: u64,
}

impl ModelRunner {
    /// Allocates the queue, the pool and the workspace for `model`.
    ///
    /// # Errors
    /// Memory, or a cache shape that the backend refuses.
    pub fn new(
        backend: &dyn Backend,
        model: Box<dyn Model>,
        options: RunnerOptions,
    ) -> ModelResult<Self> {
        let spec = model.spec();
        let queue = backend.queue(&options.limits)?;
        let pool = backend.kv_pool(&spec.cache, &options.blocks)?;
        let workspace = Workspace::new(&spec.config, &options.limits)?;
        let limits = options.limits;
        Ok(Self {
            model,
            queue,
            pool,
            workspace,
            limits,
            in_flight: VecDeque::new(),
            next_ticket: 0,
        })
    }

    /// Limits of every step.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is cached.
    pub fn cache(&self) -> &CacheSpec {
        &self.pool.spec
    }

    /// KV blocks of each cache group.
    pub fn blocks(&self) -> &[usize] {
        &self.pool.blocks
    }

    /// The model.
    pub fn model(&self) -> &dyn Model {
        self.model.as_ref()
    }

    /// The cache memory.
    pub fn pool(&self) -> &KvPool {
        &self.pool
    }

    /// Runs one step; `rows[i]` says what is wanted of `batch.logit_rows[i]`.
    ///
    /// # Errors
    /// What the device reports; the cache then holds garbage for this step's positions only.
    pub fn launch(&mut self, batch: &Batch, rows: &[SampleRow<'_>]) -> TensorResult<Ticket> {
        if rows.len() != batch.logit_rows.len() {
            return Err(TensorError::shape(
                "sample rows",
                batch.logit_rows.len(),
                rows.len(),
            ));
        }
        let mut tickets = Vec::with_capacity(rows.len().div_ceil(self.limits.logit_rows));
        let outcome = self.forward(batch, &mut |step, range| {
            let logits = step.workspace.logits.rows(0..range.len());
            tickets.push(step.queue.sample(logits, &rows[range])?);
            Ok(())
        });
        if let Err(error) = outcome {
            // Nobody will ask for the slices that went well; the queue must not keep them.
            for ticket in tickets {
                let _ = self.queue.wait(ticket);
            }
            return Err(error);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.in_flight.push_back((ticket, tickets));
        Ok(ticket)
    }

    /// Runs one step and shows the logits `[vocab]` of each wanted row, in order: for comparing models, not for serving.
    ///
    /// # Errors
    /// As [`ModelRunner::launch`].
    pub fn logits(&mut self, batch: &Batch, visit: &mut dyn FnMut(&[f32])) -> TensorResult<()> {
        self.forward(batch, &mut |step, range| {
            let logits = step.workspace.logits.rows(0..range.len());
            (0..range.len()).for_each(|row| visit(logits.row(row)));
            Ok(())
        })
    }

    /// Embeds, runs all layers, and calls `take` with each slice of wanted rows once its logits are there.
    fn forward(
        &mut self,
        batch: &Batch,
        take: &mut dyn FnMut(&mut Forward<'_>, Range<usize>) -> TensorResult<()>,
    ) -> TensorResult<()> {
        let layers = self.model.spec().config.layers;
        let inputs = self.queue.begin(batch)?;
        let mut step = Forward {
            queue: self.queue.as_mut(),
            pool: &mut self.pool,
            workspace: &mut self.workspace,
            inputs,
            live_rows: batch.num_rows(),
        };
        self.model.embed(&mut step)?;
        self.model.layers(&mut step, 0..layers)?;
        let wanted = batch.logit_rows.len();
        for start in (0..wanted).step_by(self.limits.logit_rows) {
            let range = start..(start + self.limits.logit_rows).min(wanted);
            self.model.head(&mut step, range.clone())?;
            take(&mut step, range)?;
        }
        Ok(())
    }

    /// Waits for a step; tickets are waited for in the order they were launched.
    ///
    /// # Errors
    /// A ticket that is not the oldest in flight, or what the device reports.
    pub fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled> {
        let Some((_, parts)) = self.in_flight.pop_front_if(|(oldest, _)| *oldest == ticket) else {
            return Err(TensorError::shape("ticket", "the oldest in flight", ticket));
        };
        let mut sampled = Sampled::default();
        for part in parts {
            sampled.rows.extend(self.queue.wait(part)?.rows);
        }
        Ok(sampled)
    }
}

//! A model with its queue, cache and workspace: one step in, one ticket out.

use std::collections::VecDeque;
use std::ops::Range;

use ucuz_tensor::backend::{Limits, Ticket};
use ucuz_tensor::sampling::{RowFault, SampleRow, Sampled, SampledRow, Take};
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
    in_flight: VecDeque<(Ticket, Vec<Part>)>,
    next_ticket: u64,
}

/// Results of one slice of the wanted rows.
enum Part {
    /// The queue has them.
    Sampled(Ticket),
    /// They are here.
    Hidden(Vec<Result<SampledRow, RowFault>>),
}

/// Wanted rows that are taken together.
struct Slice {
    rows: Range<usize>,
    is_hidden: bool,
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
        let wants_hidden = |row: &SampleRow<'_>| row.take == Take::Hidden;
        let slices = slices(rows, wants_hidden, self.limits.logit_rows);
        let mut parts = Vec::with_capacity(slices.len());
        let outcome = self.forward(batch, &slices, &mut |step, slice| {
            let n = slice.rows.len();
            parts.push(match slice.is_hidden {
                true => {
                    let row =
                        |i| SampledRow::of_hidden(step.workspace.normed.rows(i..i + 1).row(0));
                    Part::Hidden((0..n).map(row).collect())
                }
                false => {
                    let logits = step.workspace.logits.rows(0..n);
                    Part::Sampled(step.queue.sample(logits, &rows[slice.rows.clone()])?)
                }
            });
            Ok(())
        });
        if let Err(error) = outcome {
            // Nobody will ask for the slices that went well; the queue must not keep them.
            for part in parts {
                if let Part::Sampled(ticket) = part {
                    let _ = self.queue.wait(ticket);
                }
            }
            return Err(error);
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.in_flight.push_back((ticket, parts));
        Ok(ticket)
    }

    /// Runs one step and shows the logits `[vocab]` of each wanted row, in order: for comparing models, not for serving.
    ///
    /// # Errors
    /// As [`ModelRunner::launch`].
    pub fn logits(&mut self, batch: &Batch, visit: &mut dyn FnMut(&[f32])) -> TensorResult<()> {
        let slices = slices(&batch.logit_rows, |_| false, self.limits.logit_rows);
        self.forward(batch, &slices, &mut |step, slice| {
            let logits = step.workspace.logits.rows(0..slice.rows.len());
            (0..slice.rows.len()).for_each(|row| visit(logits.row(row)));
            Ok(())
        })
    }

    /// Embeds, runs all layers, and calls `take` with each slice of wanted rows once its logits, or last norms, are there.
    fn forward(
        &mut self,
        batch: &Batch,
        slices: &[Slice],
        take: &mut dyn FnMut(&mut Forward<'_>, &Slice) -> TensorResult<()>,
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
        for slice in slices {
            match slice.is_hidden {
                true => self.model.hidden(&mut step, slice.rows.clone())?,
                false => self.model.head(&mut step, slice.rows.clone())?,
            }
            take(&mut step, slice)?;
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
            match part {
                Part::Sampled(ticket) => sampled.rows.extend(self.queue.wait(ticket)?.rows),
                Part::Hidden(rows) => sampled.rows.extend(rows),
            }
        }
        Ok(sampled)
    }
}

/// Cuts the wanted rows into slices of one kind, none longer than `most`.
fn slices<T>(rows: &[T], is_hidden: impl Fn(&T) -> bool, most: usize) -> Vec<Slice> {
    let mut slices = Vec::with_capacity(rows.len().div_ceil(most));
    let mut start = 0;
    for run in rows.chunk_by(|a, b| is_hidden(a) == is_hidden(b)) {
        for part in run.chunks(most) {
            slices.push(Slice {
                rows: start..start + part.len(),
                is_hidden: is_hidden(&part[0]),
            });
            start += part.len();
        }
    }
    slices
}

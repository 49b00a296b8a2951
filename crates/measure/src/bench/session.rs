//! Sequences fed straight to a [`ModelRunner`]: what a served request costs, less scheduling and HTTP.
//!
//! A sequence's blocks are taken in turn with its neighbours', as an engine hands them out when sequences grow together.

use anyhow::{Context, Result};
use ucuz_models::{Model, ModelRunner, RunnerOptions};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::sampling::{SampleRow, SamplingParams, Take};
use ucuz_tensor::{Batch, CacheSpec, SeqSlot};

use super::setup::Setup;
use super::work::Span;

/// How much a session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Tokens of the longest sequence.
    pub context: usize,
    /// Most sequences of one step.
    pub sequences: usize,
    /// Most tokens of one step.
    pub step_rows: usize,
    /// KV blocks of each cache group.
    pub blocks: usize,
}

impl Capacity {
    /// The limits of a runner of this capacity.
    pub fn limits(&self, setup: &Setup<'_>, cols_max: usize) -> Limits {
        Limits {
            step_rows: self.step_rows,
            sequences: self.sequences,
            logit_rows: setup.logit_rows.min(self.step_rows),
            context: self.context,
            cols_max,
            vocab: setup.checkpoint.config.vocab,
        }
    }

    /// Bytes of keys and values.
    pub fn kv_bytes(&self, cache: &CacheSpec) -> u64 {
        cache.bytes(&vec![self.blocks; cache.groups.len()]) as u64
    }
}

/// Tokens of one sequence that a step computes: `ids[start..]`, the rest being in the cache.
#[derive(Debug, Clone, Copy)]
pub struct Feed<'a> {
    /// Which sequence.
    pub sequence: usize,
    /// All its ids up to the end of the step.
    pub ids: &'a [u32],
    /// First one to compute.
    pub start: usize,
}

impl Feed<'_> {
    /// The positions that are computed.
    pub fn span(&self) -> Span {
        Span {
            start: self.start,
            end: self.ids.len(),
        }
    }
}

/// Whether a step ends with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The likeliest next token of each sequence.
    Next,
    /// Nothing: the middle of a prompt.
    Nothing,
}

/// A runner and the sequences in its cache.
pub struct Session {
    runner: ModelRunner,
    batch: Batch,
    greedy: SamplingParams,
    /// Sequences that take blocks in turn.
    stride: usize,
}

impl Session {
    /// A session for `model`.
    ///
    /// # Errors
    /// Memory.
    pub fn new(setup: &Setup<'_>, model: Box<dyn Model>, capacity: Capacity) -> Result<Self> {
        let groups = model.spec().cache.groups.len();
        let options = RunnerOptions {
            limits: capacity.limits(setup, model.spec().cols_max()),
            blocks: vec![capacity.blocks; groups],
        };
        Ok(Self {
            runner: ModelRunner::new(setup.backend, model, options)?,
            batch: Batch::default(),
            greedy: SamplingParams::greedy(),
            stride: 1,
        })
    }

    /// Forgets all sequences; from now on up to `sequences` of them share the blocks.
    pub fn share(&mut self, sequences: usize) {
        self.stride = sequences.max(1);
    }

    /// Computes `ids[start..]` of one sequence, `step_rows` at a time, and the token that follows.
    ///
    /// # Errors
    /// What the runner reports.
    pub fn prefill(&mut self, feed: Feed<'_>) -> Result<u32> {
        let rows = self.runner.limits().step_rows;
        let mut start = feed.start;
        while start + rows < feed.ids.len() {
            let ids = &feed.ids[..start + rows];
            self.step(&[Feed { ids, start, ..feed }], Wanted::Nothing)?;
            start += rows;
        }
        let tokens = self.step(&[Feed { start, ..feed }], Wanted::Next)?;
        tokens.first().copied().context("a step gave no token")
    }

    /// One step; the likeliest next token of each sequence.
    ///
    /// # Errors
    /// What the runner reports; a row that is not finite.
    pub fn next(&mut self, feeds: &[Feed<'_>]) -> Result<Vec<u32>> {
        self.step(feeds, Wanted::Next)
    }

    /// Runs one step and returns the logits that follow the last token.
    ///
    /// # Errors
    /// What the runner reports.
    pub fn logits(&mut self, feed: Feed<'_>) -> Result<Vec<f32>> {
        self.fill(&[feed], Wanted::Next);
        let mut row = Vec::new();
        let visit = &mut |logits: &[f32]| row = logits.to_vec();
        self.runner.logits(&self.batch, visit)?;
        Ok(row)
    }

    /// Ids that the model knows.
    pub fn vocab(&self) -> usize {
        self.runner.limits().vocab
    }

    fn step(&mut self, feeds: &[Feed<'_>], wanted: Wanted) -> Result<Vec<u32>> {
        self.fill(feeds, wanted);
        let row = |feed: &Feed<'_>| SampleRow {
            take: Take::Sample,
            params: &self.greedy,
            sample: 0,
            position: feed.ids.len() as u32,
            counts: &[],
            mask: None,
            forbidden: &[],
            logprobs: None,
        };
        let rows: Vec<SampleRow<'_>> = match wanted {
            Wanted::Next => feeds.iter().map(row).collect(),
            Wanted::Nothing => Vec::new(),
        };
        let ticket = self.runner.launch(&self.batch, &rows)?;
        let sampled = self.runner.wait(ticket)?;
        sampled.rows.into_iter().map(|row| Ok(row?.token)).collect()
    }

    fn fill(&mut self, feeds: &[Feed<'_>], wanted: Wanted) {
        let batch = &mut self.batch;
        batch.clear();
        batch.seq_starts.push(0);
        let mut table = GroupTables {
            blocks: Vec::new(),
            starts: vec![0],
        };
        for feed in feeds {
            batch.tokens.extend_from_slice(&feed.ids[feed.start..]);
            batch
                .positions
                .extend(feed.start as u32..feed.ids.len() as u32);
            batch.seq_starts.push(batch.tokens.len() as u32);
            batch.kv_lens.push(feed.ids.len() as u32);
            batch.slots.push(SeqSlot(feed.sequence as u32));
            if wanted == Wanted::Next {
                batch.logit_rows.push(batch.tokens.len() as u32 - 1);
            }
            let blocks = 0..feed.ids.len().div_ceil(BLOCK_TOKENS);
            table
                .blocks
                .extend(blocks.map(|i| (i * self.stride + feed.sequence) as u32));
            table.starts.push(table.blocks.len() as u32);
        }
        batch.groups = vec![table; self.runner.cache().groups.len()];
    }
}

//! How many users the same KV memory holds: naive reservation against paged blocks, computed and run for real.
//!
//! - **Naive**: each user reserves the blocks of `reserve` tokens when it comes, whatever it will need:
//!   `memory / Σ block bytes · blocks(reserve)` users.
//! - **Paged**: each holds blocks of 32 tokens for what is in its cache, taken one by one; a user is let in while its blocks,
//!   and a spare one for everybody inside, are free ([`ramp`]). In the mean a user wastes half a block to rounding and
//!   keeps one spare.
//!
//! Sizes are the engine's own: `PagedGroup::block_bytes`, `CacheSpec::bytes`, `sequence_blocks`, `plan_blocks`; windows count. The real
//! run loads the model with that memory, sends more users than fit, each with a past of its own length and much to say, and
//! reads from the engine how many run at once before anybody has to be thrown out.

mod live;
pub mod ramp;
mod report;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use ucuz_llm::{Llm, plan_blocks, sequence_blocks};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::{CacheSpec, cache::BLOCK_TOKENS};

use super::policy::{Workload, WorkloadFacts};
use super::{ModelFacts, Setup};
use crate::{Host, Provenance};

use ramp::{Full, Pool, fill};

/// Users of naive reservation that the default memory is made for.
pub const NAIVE_USERS: usize = 4;
/// Most users that are sent at once.
const USERS_MAX: usize = 4000;
/// Tokens that users have in the mean, in the table.
const MEANS: [usize; 4] = [64, 256, 1024, 4096];
/// Contexts that are reserved, in the table, beside the reservation that was asked for and the model's own context.
const CONTEXTS: [usize; 3] = [1024, 4096, 8192];

/// What to count.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What users have written and read: prompt and answer together are a user's past.
    pub workload: Workload,
    /// Tokens that naive reservation sets aside for each.
    pub reserve: usize,
    /// Bytes of keys and values; what [`NAIVE_USERS`] reservations take when absent.
    pub memory_bytes: Option<u64>,
}

/// One group of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GroupCount {
    /// Tokens that a query sees; absent where it sees all.
    pub window: Option<usize>,
    /// Bytes of a block of 32 tokens, all layers together.
    pub block_bytes: usize,
    /// Blocks in the pool.
    pub blocks: usize,
    /// Blocks that a reservation takes.
    pub reserved: usize,
    /// Blocks that users hold when the pool is full, as computed.
    pub used: usize,
    /// As the engine tells; absent when it was not run.
    pub used_real: Option<usize>,
}

/// Both ways with the same memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Tokens reserved for each user.
    pub reserve: usize,
    /// Tokens that each user has.
    pub tokens: usize,
    /// Users that fit with reservation.
    pub naive: usize,
    /// Users that fit paged.
    pub paged: usize,
}

/// What the engine did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RealCount {
    /// Users that ran at once, before anybody was thrown out.
    pub users: usize,
    /// Bytes of the blocks that they held.
    pub used_bytes: usize,
    /// Blocks that were used, of each group.
    pub used: Vec<usize>,
    /// Steps until then.
    pub steps: u64,
}

/// All that was counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryResult {
    /// `memory`.
    pub bench: &'static str,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// What was measured.
    pub model: ModelFacts,
    /// What users have: their pasts are prompt and answer together.
    pub workload: WorkloadFacts,
    /// Bytes that were given.
    pub memory_bytes: u64,
    /// Bytes of the pool's blocks.
    pub pool_bytes: u64,
    /// Tokens computed in one step at most.
    pub step_rows: usize,
    /// Tokens reserved for each user.
    pub reserve: usize,
    /// Bytes of one reservation.
    pub reservation_bytes: u64,
    /// Users that fit with reservation.
    pub naive: usize,
    /// Users that fit paged, as computed.
    pub paged: usize,
    /// Tokens that these have in the cache.
    pub paged_tokens: usize,
    /// As the engine did it; absent when it was not run.
    pub real: Option<RealCount>,
    /// By group of layers.
    pub groups: Vec<GroupCount>,
    /// Over reservations and what users have, with the same memory.
    pub points: Vec<Point>,
}

/// A count that is known to be possible.
#[derive(Debug, Clone)]
pub struct Plan {
    spec: CacheSpec,
    limits: Limits,
    context: usize,
    options: Options,
    blocks: Vec<usize>,
    memory_bytes: u64,
    full: Full,
}

impl Plan {
    /// Computes how many users fit.
    ///
    /// # Errors
    /// A reservation or users beyond the context, memory that holds nobody.
    pub fn new(setup: &Setup<'_>, options: &Options) -> Result<Self> {
        let (spec, context) = (setup.cache(), setup.context);
        let longest = options.workload.longest();
        ensure!(
            options.reserve <= context,
            "a reservation has {} tokens, the context {context}; lower --reserve",
            options.reserve
        );
        ensure!(
            longest <= options.reserve,
            "the longest user has {longest} tokens, a reservation {}; raise --reserve, or lower --prompt-tokens",
            options.reserve
        );
        let one = reservation(&spec, options.reserve, setup.step_rows).1;
        let memory_bytes = options.memory_bytes.unwrap_or(one * NAIVE_USERS as u64);
        ensure!(
            memory_bytes >= one,
            "KV memory of {memory_bytes} bytes holds no reservation of {one}; raise --kv-memory or lower --reserve"
        );
        let mut limits = Limits {
            step_rows: setup.step_rows,
            sequences: USERS_MAX,
            logit_rows: setup.logit_rows,
            context: options.reserve,
            cols_max: 1,
            vocab: setup.checkpoint.config.vocab,
        };
        let computed = |limits: &Limits| -> Result<(Vec<usize>, Full)> {
            let bytes = usize::try_from(memory_bytes).context("--kv-memory is too large")?;
            let blocks = plan_blocks(&spec, limits, bytes)?;
            let pool = Pool {
                spec: &spec,
                blocks: &blocks,
                step_rows: limits.step_rows,
                sequences: limits.sequences,
            };
            let full = fill(&pool, &pasts(&options.workload, limits.sequences));
            Ok((blocks, full))
        };
        // As many places as are needed, and some more: matrices of a step grow with them.
        limits.sequences = (computed(&limits)?.1.users * 5 / 4 + 8).min(USERS_MAX);
        let (blocks, full) = computed(&limits)?;
        Ok(Self {
            spec,
            limits,
            context,
            options: options.clone(),
            blocks,
            memory_bytes,
            full,
        })
    }

    /// Requests that the engine must be able to run at once.
    pub fn sequences(&self) -> usize {
        self.limits.sequences
    }

    /// Requests that are sent: some more than can run.
    pub fn users(&self) -> usize {
        self.limits.sequences + 8
    }

    /// Bytes of keys and values.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Tokens that the engine must be able to hold of one request.
    pub fn context(&self) -> usize {
        self.options.reserve
    }

    /// Counts, on `llm` too if there is one.
    ///
    /// # Errors
    /// A request that the engine refuses or fails.
    pub fn run(
        &self,
        llm: Option<&Llm>,
        about: (Provenance, ModelFacts),
        host: &mut dyn Host,
    ) -> Result<MemoryResult> {
        let pasts = pasts(&self.options.workload, self.users());
        let real = llm.map(|llm| live::count(llm, &pasts, self.full.users, host));
        let real = real.transpose()?;
        let (reserve, rows) = (self.options.reserve, self.limits.step_rows);
        let (_, reservation_bytes) = reservation(&self.spec, reserve, rows);
        let (provenance, model) = about;
        Ok(MemoryResult {
            bench: "memory",
            provenance,
            model,
            workload: self.options.workload.facts(),
            memory_bytes: self.memory_bytes,
            pool_bytes: self.spec.bytes(&self.blocks) as u64,
            step_rows: rows,
            reserve,
            reservation_bytes,
            naive: (self.memory_bytes / reservation_bytes) as usize,
            paged: self.full.users,
            paged_tokens: self.full.tokens,
            groups: self.groups(real.as_ref()),
            real,
            points: self.points()?,
        })
    }

    fn groups(&self, real: Option<&RealCount>) -> Vec<GroupCount> {
        let groups = self.spec.groups.iter().enumerate();
        let count = |(index, group): (usize, &ucuz_tensor::cache::PagedGroup)| GroupCount {
            window: group.window,
            block_bytes: group.block_bytes(),
            blocks: self.blocks[index],
            reserved: sequence_blocks(group, self.options.reserve, self.limits.step_rows),
            used: self.full.used[index],
            used_real: real.and_then(|real| real.used.get(index).copied()),
        };
        groups.map(count).collect()
    }

    /// Users of equal pasts, whose whole past comes in one step.
    fn points(&self) -> Result<Vec<Point>> {
        let mut contexts: Vec<usize> = CONTEXTS.to_vec();
        contexts.extend([self.options.reserve, self.context]);
        let contexts = super::ascending(contexts).into_iter();
        let mut points = Vec::new();
        for reserve in contexts.filter(|context| *context <= self.context) {
            for tokens in MEANS.into_iter().filter(|tokens| *tokens < reserve) {
                points.push(self.point(reserve, tokens)?);
            }
        }
        Ok(points)
    }

    fn point(&self, reserve: usize, tokens: usize) -> Result<Point> {
        let limits = Limits {
            context: reserve,
            sequences: USERS_MAX,
            ..self.limits
        };
        let bytes = usize::try_from(self.memory_bytes)?;
        // Memory that does not hold one user's windows holds nobody.
        let blocks = plan_blocks(&self.spec, &limits, bytes).unwrap_or_default();
        // A user and its spare block: `n · (blocks + 1) - 1` of them.
        let groups = self.spec.groups.iter().zip(&blocks);
        let fit = groups.map(|(group, blocks)| {
            (blocks + 1) / (sequence_blocks(group, tokens + 1, limits.step_rows) + 1)
        });
        let (_, one) = reservation(&self.spec, reserve, limits.step_rows);
        Ok(Point {
            reserve,
            tokens,
            naive: (self.memory_bytes / one) as usize,
            paged: fit.min().unwrap_or(0),
        })
    }
}

/// Blocks of each group, and bytes, of `tokens` tokens of one user.
fn reservation(spec: &CacheSpec, tokens: usize, step_rows: usize) -> (Vec<usize>, u64) {
    let groups = spec.groups.iter();
    let blocks: Vec<usize> = groups
        .map(|group| sequence_blocks(group, tokens, step_rows))
        .collect();
    let bytes = spec.bytes(&blocks) as u64;
    (blocks, bytes.max(BLOCK_TOKENS as u64))
}

/// What `users` users have said and heard, the workload's lengths again and again.
fn pasts(workload: &Workload, users: usize) -> Vec<usize> {
    let lengths = workload.lengths.iter().cycle().take(users);
    let past = |length: &u32| workload.prompt_tokens + *length as usize;
    lengths.map(past).collect()
}

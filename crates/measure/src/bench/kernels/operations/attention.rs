//! Attention over a cache of one precision, and storing into it.
//!
//! Cost of attention: the keys and values that a sequence's queries see, once, in stored precision; the queries and results
//! as activations; `4 · head_dim` operations a query head and visible key. Exponentials are not counted. Decode walks around
//! layers that together no cache holds; a prefill finds what it has just stored in the cache, so its bytes count as such.

use anyhow::Result;
use ucuz_tensor::backend::{AttentionCall, AttentionOptions, HeadShape};
use ucuz_tensor::cache::{BLOCK_TOKENS, LayerCache, PagedGroup};
use ucuz_tensor::{Backend, CacheSpec, CeilingKind, KvDtype, KvPool, Tensor, TensorError};

use super::super::case::{Case, Cost, Label};
use super::super::operation::Operation;
use super::super::{Options, data};

/// Sequences of the batched decode.
const BATCH: usize = 8;
/// Rows that fill a cache at a time, and most rows of a prefill step.
const STEP_ROWS: usize = 512;

/// Which part of a sequence's life a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// One token of each sequence, its past in memory.
    Decode,
    /// Many tokens of one sequence, its past just written.
    Prefill,
}

impl Phase {
    /// Name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }
}

/// A step of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it stands for.
    pub phase: Phase,
    /// Sequences in it.
    pub sequences: usize,
    /// Rows of each.
    pub rows: usize,
    /// Tokens of each, its rows included.
    pub context: usize,
}

/// The steps that are measured: decode alone and in a batch, and the last rows of a prefill.
pub fn steps(contexts: &[usize]) -> Vec<Step> {
    let step = |phase, sequences, rows, context| Step {
        phase,
        sequences,
        rows,
        context,
    };
    let mut steps = Vec::new();
    for &context in contexts {
        steps.push(step(Phase::Decode, 1, 1, context));
        steps.push(step(Phase::Decode, BATCH, 1, context));
        steps.push(step(Phase::Prefill, 1, context.min(STEP_ROWS), context));
    }
    steps
}

/// Attention of one step; none when the backend has no such cache.
///
/// # Errors
/// Memory.
pub fn attention(
    backend: &dyn Backend,
    options: &Options,
    dtype: KvDtype,
    step: Step,
) -> Result<Vec<Case>> {
    let heads = options.heads();
    let cold_bytes = match step.phase {
        Phase::Decode => options.cold_bytes,
        Phase::Prefill => 0,
    };
    let Some(cache) = Cache::filled(backend, &heads, dtype, step, cold_bytes)? else {
        return Ok(Vec::new());
    };
    let rows = step.sequences * step.rows;
    let qkv = data::activations(rows, heads.qkv_cols())?;
    let mut dst = Tensor::zeroed(rows, heads.heads * heads.head_dim, "attended")?;
    let kv_bytes = (step.sequences * step.context * cache.token_bytes()) as u64;
    let (memory_bytes, warm_bytes) = match step.phase {
        Phase::Decode => (kv_bytes, 0),
        Phase::Prefill => (0, kv_bytes),
    };
    let attention = AttentionOptions {
        scale: 1.0 / (heads.head_dim as f32).sqrt(),
        window: None,
    };
    let mut next = 0;
    let cost = Cost {
        memory_bytes,
        cache_bytes: warm_bytes + (rows * 2 * heads.heads * heads.head_dim * 4) as u64,
        operations: (4 * heads.head_dim * heads.heads * visible_pairs(step)) as u64,
        unit: match dtype {
            KvDtype::F32 => CeilingKind::Float32,
            KvDtype::Bf16 | KvDtype::Int8 => CeilingKind::Bf16,
        },
    };
    Ok(vec![Case {
        label: Label::new(
            Operation::Attention,
            format!("{} {}", dtype.name(), step.phase.name()),
            rows,
            format!("context {}, {}", step.context, heads_text(&heads)),
        ),
        cost,
        limits: data::limits(rows, step.sequences, step.context),
        batch: data::step(step.sequences, step.rows, step.context),
        body: Box::new(move |queue, inputs| {
            next = (next + 1) % cache.layers;
            let call = AttentionCall {
                pool: &cache.pool,
                layer: layer(next),
                heads,
                options: attention,
                inputs,
            };
            queue.attention(dst.view_mut(), qkv.view(), &call)
        }),
    }])
}

/// Pairs of a query and a key that it sees: a query at position `p` sees `p + 1`.
fn visible_pairs(step: Step) -> usize {
    let first = step.context - step.rows;
    step.sequences
        * (first..step.context)
            .map(|position| position + 1)
            .sum::<usize>()
}

/// Storing every number of rows: rows read, keys and values written, to a place that was not touched for long.
///
/// # Errors
/// Memory.
pub fn kv_store(backend: &dyn Backend, options: &Options, dtype: KvDtype) -> Result<Vec<Case>> {
    let heads = options.heads();
    let mut cases = Vec::new();
    for &rows in &options.rows {
        let step = Step {
            phase: Phase::Prefill,
            sequences: 1,
            rows,
            context: rows,
        };
        let Some(mut cache) = Cache::filled(backend, &heads, dtype, step, options.cold_bytes)?
        else {
            return Ok(Vec::new());
        };
        let qkv = data::activations(rows, heads.qkv_cols())?;
        let kv_cols = 2 * heads.kv_heads * heads.head_dim;
        let stored_bytes = (rows * cache.token_bytes()) as u64;
        let mut next = 0;
        cases.push(Case {
            label: Label::new(Operation::KvStore, dtype.name(), rows, heads_text(&heads)),
            cost: Cost {
                memory_bytes: stored_bytes,
                cache_bytes: (rows * kv_cols * 4) as u64,
                operations: 0,
                unit: CeilingKind::Float32,
            },
            limits: data::limits(rows, 1, rows),
            batch: data::step(1, rows, rows),
            body: Box::new(move |queue, inputs| {
                next = (next + 1) % cache.layers;
                queue.kv_store(&mut cache.pool, layer(next), qkv.view(), &heads, inputs)
            }),
        });
    }
    Ok(cases)
}

fn heads_text(heads: &HeadShape) -> String {
    format!(
        "{}/{} heads of {}",
        heads.heads, heads.kv_heads, heads.head_dim
    )
}

const fn layer(index: usize) -> LayerCache {
    LayerCache { group: 0, index }
}

/// Layers of keys and values, all written.
struct Cache {
    pool: KvPool,
    layers: usize,
}

impl Cache {
    /// Layers for `step` that together fill `bytes`, at least one; `None` when the backend has no cache of this precision.
    fn filled(
        backend: &dyn Backend,
        heads: &HeadShape,
        dtype: KvDtype,
        step: Step,
        bytes: usize,
    ) -> Result<Option<Self>> {
        let mut group = PagedGroup {
            layers: 1,
            kv_heads: heads.kv_heads,
            k_dim: heads.head_dim,
            v_dim: heads.head_dim,
            dtype,
            window: None,
        };
        let blocks = step.sequences * step.context.div_ceil(BLOCK_TOKENS);
        group.layers = bytes.div_ceil(blocks * group.layer_block_bytes()).max(1);
        let layers = group.layers;
        let spec = CacheSpec {
            groups: vec![group],
            layers: (0..layers).map(layer).collect(),
        };
        let mut pool = match backend.kv_pool(&spec, &[blocks]) {
            Err(TensorError::Unsupported { .. }) => return Ok(None),
            pool => pool?,
        };
        fill(backend, &mut pool, heads, blocks)?;
        Ok(Some(Self { pool, layers }))
    }

    /// Bytes of a token in one layer.
    fn token_bytes(&self) -> usize {
        self.pool.spec.groups[0].token_bytes() / self.layers
    }
}

/// Writes all blocks of all layers: what was never written would be read from the system's one page of zeros.
fn fill(backend: &dyn Backend, pool: &mut KvPool, heads: &HeadShape, blocks: usize) -> Result<()> {
    let tokens = blocks * BLOCK_TOKENS;
    let rows = tokens.min(STEP_ROWS);
    let qkv = data::activations(rows, heads.qkv_cols())?;
    let mut queue = backend.queue(&data::limits(rows, 1, tokens))?;
    let layers = pool.spec.layers.clone();
    for chunk in 1..=tokens.div_ceil(rows) {
        let end = tokens.min(chunk * rows);
        let batch = data::step(1, rows, end);
        let inputs = queue.begin(&batch)?;
        for layer in &layers {
            queue.kv_store(pool, *layer, qkv.view(), heads, &inputs)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_from_the_first_position() {
        let step = |sequences, rows, context| Step {
            phase: Phase::Decode,
            sequences,
            rows,
            context,
        };
        assert_eq!(visible_pairs(step(1, 1, 1024)), 1024);
        assert_eq!(visible_pairs(step(8, 1, 10)), 80);
        assert_eq!(visible_pairs(step(1, 4, 4)), 10);
        assert_eq!(visible_pairs(step(1, 2, 4)), 7);
    }
}

//! Checks at the queue's door: shapes and indices that the operations behind it then rely on.

use ucuz_tensor::backend::{HeadShape, Limits, QkNorms, RopeTable};
use ucuz_tensor::cache::{BLOCK_TOKENS, KvPool, LayerCache, NO_BLOCK};
use ucuz_tensor::tensor::{View, ViewMut};
use ucuz_tensor::{Batch, TensorError, TensorResult};

/// Two numbers that must be equal.
pub(crate) fn size(what: &str, expected: usize, got: usize) -> TensorResult<()> {
    if expected == got {
        Ok(())
    } else {
        Err(TensorError::shape(what, expected, got))
    }
}

/// A number that must not exceed a limit.
pub(crate) fn at_most(what: &str, limit: usize, got: usize) -> TensorResult<()> {
    if got <= limit {
        Ok(())
    } else {
        Err(TensorError::shape(what, 0..=limit, got))
    }
}

/// Rows and columns that must be equal.
pub(crate) fn shape(what: &str, expected: (usize, usize), got: (usize, usize)) -> TensorResult<()> {
    if expected == got {
        Ok(())
    } else {
        Err(TensorError::shape(what, expected, got))
    }
}

/// `(rows, cols)` of a view.
pub(crate) fn of(view: &View<'_>) -> (usize, usize) {
    (view.num_rows(), view.num_cols())
}

/// `(rows, cols)` of a writable view.
pub(crate) fn of_mut(view: &ViewMut<'_>) -> (usize, usize) {
    (view.num_rows(), view.num_cols())
}

/// An index that must lie below a length.
fn below(what: &str, length: usize, index: Option<usize>) -> TensorResult<()> {
    match index {
        Some(index) if index >= length => Err(TensorError::shape(what, 0..length, index)),
        _ => Ok(()),
    }
}

fn largest(indices: &[u32]) -> Option<usize> {
    indices.iter().max().map(|index| *index as usize)
}

/// The step fits the limits and its arrays agree with each other, so that operations may index them.
pub(crate) fn batch(batch: &Batch, limits: &Limits) -> TensorResult<()> {
    let (rows, sequences) = (batch.num_rows(), batch.num_sequences());
    at_most("rows of the step", limits.step_rows, rows)?;
    at_most("sequences of the step", limits.sequences, sequences)?;
    size("positions of the step", rows, batch.positions.len())?;
    size("sequence starts", sequences + 1, batch.seq_starts.len())?;
    size("first sequence start", 0, batch.seq_starts[0] as usize)?;
    size(
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
    (0..sequences).try_for_each(|sequence| sequence_of(batch, sequence, limits))
}

fn sequence_of(batch: &Batch, sequence: usize, limits: &Limits) -> TensorResult<()> {
    let tokens = batch.kv_lens[sequence] as usize;
    at_most("tokens of a sequence", limits.context, tokens)?;
    let positions = &batch.positions[batch.sequence_rows(sequence)];
    below("position in its sequence", tokens, largest(positions))?;
    for tables in &batch.groups {
        let starts = tables.starts.get(sequence..sequence + 2);
        let table = starts.and_then(|s| tables.blocks.get(s[0] as usize..s[1] as usize));
        let (needed, got) = (tokens.div_ceil(BLOCK_TOKENS), table.unwrap_or(&[]).len());
        if got < needed {
            return Err(TensorError::shape("blocks of a sequence", needed.., got));
        }
    }
    Ok(())
}

/// Tokens are rows of the table.
pub(crate) fn tokens(tokens: &[u32], rows: usize) -> TensorResult<()> {
    below("token of the embedding table", rows, largest(tokens))
}

/// Row numbers are rows of a matrix.
pub(crate) fn rows(which: &[u32], rows: usize) -> TensorResult<()> {
    below("row to take", rows, largest(which))
}

/// `qkv` holds the step's rows of these heads.
pub(crate) fn qkv(got: (usize, usize), heads: &HeadShape, batch: &Batch) -> TensorResult<()> {
    if heads.kv_heads == 0 || !heads.heads.is_multiple_of(heads.kv_heads) {
        let rule = format!("a divisor of {}", heads.heads);
        return Err(TensorError::shape(
            "key and value heads",
            rule,
            heads.kv_heads,
        ));
    }
    shape("qkv", (batch.num_rows(), heads.qkv_cols()), got)
}

/// Norms and rotation fit the heads and reach the step's positions.
pub(crate) fn rope(
    heads: &HeadShape,
    norms: Option<&QkNorms<'_>>,
    rope: &RopeTable,
    batch: &Batch,
) -> TensorResult<()> {
    let cos = of(&rope.cos.view());
    shape("rope sines", cos, of(&rope.sin.view()))?;
    at_most("rope columns", heads.head_dim / 2, cos.1)?;
    if let Some(norms) = norms {
        size(
            "weights of the query norm",
            heads.head_dim,
            norms.q.values().len(),
        )?;
        size(
            "weights of the key norm",
            heads.head_dim,
            norms.k.values().len(),
        )?;
    }
    below(
        "position of the rope table",
        cos.0,
        largest(&batch.positions),
    )
}

/// The pool holds heads of this shape, and every block that the step names.
pub(crate) fn pool(
    pool: &KvPool,
    layer: LayerCache,
    heads: &HeadShape,
    batch: &Batch,
) -> TensorResult<()> {
    let groups = pool.spec.groups.len().min(batch.groups.len());
    below("cache group", groups, Some(layer.group))?;
    let group = &pool.spec.groups[layer.group];
    below("layer of the cache group", group.layers, Some(layer.index))?;
    let expected = (heads.kv_heads, heads.head_dim, heads.head_dim);
    let got = (group.kv_heads, group.k_dim, group.v_dim);
    if expected != got {
        return Err(TensorError::shape(
            "(kv_heads, k_dim, v_dim) of the KV pool",
            expected,
            got,
        ));
    }
    let named = batch.groups[layer.group]
        .blocks
        .iter()
        .filter(|block| **block != NO_BLOCK);
    below(
        "KV block",
        pool.blocks[layer.group],
        named.max().map(|block| *block as usize),
    )
}

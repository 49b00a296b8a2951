//! The door checks that every host queue shares: shapes and indices that the operations behind them then rely on.
//!
//! One function an operation, named after it, and the small rules they are made of for what a backend adds. Every error
//! here is a [`TensorError::Shape`] that names the rule and both values. Deliberately not here: what only some backends
//! refuse, such as formats and head sizes.

use std::ops::Range;

use crate::backend::{AttentionCall, HeadShape, Limits, QkNorms, RopeTable};
use crate::batch::Batch;
use crate::cache::{BLOCK_TOKENS, KvPool, LayerCache, NO_BLOCK};
use crate::error::{TensorError, TensorResult};
use crate::tensor::{Tensor, View, ViewMut};
use crate::weight::Weight;

/// Two numbers that must be equal.
///
/// # Errors
/// They differ.
pub fn size(what: &str, expected: usize, got: usize) -> TensorResult<()> {
    if expected == got {
        Ok(())
    } else {
        Err(TensorError::shape(what, expected, got))
    }
}

/// A number that must not exceed a limit.
///
/// # Errors
/// It does.
pub fn at_most(what: &str, limit: usize, got: usize) -> TensorResult<()> {
    if got <= limit {
        Ok(())
    } else {
        Err(TensorError::shape(what, 0..=limit, got))
    }
}

/// Rows and columns that must be equal.
///
/// # Errors
/// They differ.
pub fn shape(what: &str, expected: (usize, usize), got: (usize, usize)) -> TensorResult<()> {
    if expected == got {
        Ok(())
    } else {
        Err(TensorError::shape(what, expected, got))
    }
}

/// `(rows, cols)` of a view.
pub fn of(view: &View<'_>) -> (usize, usize) {
    (view.num_rows(), view.num_cols())
}

/// `(rows, cols)` of a writable view.
pub fn of_mut(view: &ViewMut<'_>) -> (usize, usize) {
    (view.num_rows(), view.num_cols())
}

/// The step fits the limits and its arrays agree with each other, so that operations may index them.
///
/// # Errors
/// A limit exceeded, or arrays that disagree.
pub fn batch(batch: &Batch, limits: &Limits) -> TensorResult<()> {
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
    if !batch.logit_rows.is_sorted_by(|a, b| a < b) {
        return Err(TensorError::shape(
            "rows whose logits are wanted",
            "each once, ascending",
            &batch.logit_rows,
        ));
    }
    below(
        "row whose logits are wanted",
        rows,
        largest(&batch.logit_rows),
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

/// Rows of a table by token.
///
/// # Errors
/// `dst` is not `[tokens, table.cols]`, or a token lies outside of the table.
pub fn embed(dst: &ViewMut<'_>, table: &Weight, tokens: &[u32]) -> TensorResult<()> {
    shape("dst of embed", (tokens.len(), table.cols), of_mut(dst))?;
    below("token of the embedding table", table.rows, largest(tokens))
}

/// A norm of rows.
///
/// # Errors
/// `dst` is not as `x`, or `weight` is not as long as a row.
pub fn rms_norm(dst: &ViewMut<'_>, x: &View<'_>, weight: &Tensor) -> TensorResult<()> {
    shape("dst of a norm", of(x), of_mut(dst))?;
    size("weights of a norm", x.num_cols(), weight.values().len())
}

/// Norms and rotation fit the heads and reach the step's positions.
///
/// # Errors
/// Shapes that disagree, or a position past the table.
pub fn qk_norm_rope(
    qkv: &ViewMut<'_>,
    heads: &HeadShape,
    norms: Option<&QkNorms<'_>>,
    rope: &RopeTable,
    batch: &Batch,
) -> TensorResult<()> {
    head_rows(of_mut(qkv), heads, batch)?;
    let cos = of(&rope.cos.view());
    shape("rope sines", cos, of(&rope.sin.view()))?;
    at_most("rope columns", heads.head_dim / 2, cos.1)?;
    if let Some(norms) = norms {
        let (q, k) = (norms.q.values().len(), norms.k.values().len());
        size("weights of the query norm", heads.head_dim, q)?;
        size("weights of the key norm", heads.head_dim, k)?;
    }
    let position = largest(&batch.positions);
    below("position of the rope table", cos.0, position)
}

/// The pool has room for the step's keys and values where the step says.
///
/// # Errors
/// Shapes that disagree, or a block outside of the pool.
pub fn kv_store(
    pool: &KvPool,
    layer: LayerCache,
    qkv: &View<'_>,
    heads: &HeadShape,
    batch: &Batch,
) -> TensorResult<()> {
    head_rows(of(qkv), heads, batch)?;
    blocks(pool, layer, heads, batch)
}

/// The pool holds what the step's queries look at.
///
/// # Errors
/// Shapes that disagree, or a block outside of the pool.
pub fn attention(dst: &ViewMut<'_>, qkv: &View<'_>, call: &AttentionCall<'_>) -> TensorResult<()> {
    let (heads, batch) = (&call.heads, call.inputs.batch);
    head_rows(of(qkv), heads, batch)?;
    blocks(call.pool, call.layer, heads, batch)?;
    let expected = (qkv.num_rows(), heads.heads * heads.head_dim);
    shape("dst of attention", expected, of_mut(dst))
}

/// A gate and what it multiplies, side by side.
///
/// # Errors
/// `gate_up` is not as `dst` with twice the columns.
pub fn gated(dst: &ViewMut<'_>, gate_up: &View<'_>) -> TensorResult<()> {
    let (rows, cols) = of_mut(dst);
    shape("gate and up", (rows, 2 * cols), of(gate_up))
}

/// A gated product with room for some rows of gate and up.
///
/// # Errors
/// `gate_up` is not as wide as twice `dst`, has no row, or more than `dst`.
pub fn gated_room(dst: &ViewMut<'_>, gate_up: &View<'_>) -> TensorResult<()> {
    let (rows, cols) = of_mut(dst);
    let room = gate_up.num_rows().clamp(rows.min(1), rows);
    shape("room for gate and up", (room, 2 * cols), of(gate_up))
}

/// A sum in place.
///
/// # Errors
/// `dst` is not as `x`.
pub fn add(dst: &ViewMut<'_>, x: &View<'_>) -> TensorResult<()> {
    shape("dst of add", of(x), of_mut(dst))
}

/// The rows of `x` that range `which` of the step's `logit_rows` names.
///
/// # Errors
/// A range or a row that is not there, or `dst` is not `[rows, x.cols]`.
pub fn take_rows<'a>(
    dst: &ViewMut<'_>,
    x: &View<'_>,
    which: Range<usize>,
    batch: &'a Batch,
) -> TensorResult<&'a [u32]> {
    let wanted = batch.logit_rows.len();
    let Some(rows) = batch.logit_rows.get(which.clone()) else {
        return Err(TensorError::shape("logit rows to take", 0..wanted, which));
    };
    below("row to take", x.num_rows(), largest(rows))?;
    let expected = (rows.len(), x.num_cols());
    shape("dst of take_rows", expected, of_mut(dst))?;
    Ok(rows)
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

/// `qkv` holds the step's rows of these heads.
fn head_rows(got: (usize, usize), heads: &HeadShape, batch: &Batch) -> TensorResult<()> {
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

/// The pool holds heads of this shape, and every block that the step names.
fn blocks(pool: &KvPool, layer: LayerCache, heads: &HeadShape, batch: &Batch) -> TensorResult<()> {
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
    let all = batch.groups[layer.group].blocks.iter();
    let named = all.filter(|block| **block != NO_BLOCK).max();
    below(
        "KV block",
        pool.blocks[layer.group],
        named.map(|block| *block as usize),
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::batch::{GroupTables, SeqSlot};
    use crate::reference::ReferenceBackend;

    const LIMITS: Limits = Limits {
        step_rows: 4,
        sequences: 2,
        logit_rows: 2,
        context: 40,
        cols_max: 32,
        vocab: 32,
    };

    /// Two sequences: the last two of 40 tokens, and the only two.
    fn step() -> Batch {
        Batch {
            tokens: vec![0; 4],
            positions: vec![38, 39, 0, 1],
            seq_starts: vec![0, 2, 4],
            kv_lens: vec![40, 2],
            slots: vec![SeqSlot(0), SeqSlot(1)],
            groups: vec![GroupTables {
                blocks: vec![0, 1, 2],
                starts: vec![0, 2, 3],
            }],
            logit_rows: vec![1, 3],
        }
    }

    #[test]
    fn steps_that_break_a_limit_or_disagree_are_refused_at_the_door() {
        type Damage = fn(&mut Batch);
        let cases: [(Damage, &str); 11] = [
            (
                |step| step.tokens.push(0),
                "rows of the step: expected 0..=4, got 5",
            ),
            (
                |step| step.kv_lens.push(1),
                "sequences of the step: expected 0..=2, got 3",
            ),
            (
                |step| step.positions.truncate(3),
                "positions of the step: expected 4, got 3",
            ),
            (
                |step| step.seq_starts.truncate(2),
                "sequence starts: expected 3, got 2",
            ),
            (
                |step| step.seq_starts[0] = 1,
                "first sequence start: expected 0, got 1",
            ),
            (
                |step| step.seq_starts[1] = 5,
                "sequence starts: expected \"ascending\", got [0, 5, 4]",
            ),
            (
                |step| step.logit_rows = vec![3, 3],
                "rows whose logits are wanted: expected \"each once, ascending\", got [3, 3]",
            ),
            (
                |step| step.logit_rows = vec![1, 4],
                "row whose logits are wanted: expected 0..4, got 4",
            ),
            (
                |step| step.kv_lens[0] = 41,
                "tokens of a sequence: expected 0..=40, got 41",
            ),
            (
                |step| step.positions[3] = 2,
                "position in its sequence: expected 0..2, got 2",
            ),
            (
                |step| step.groups[0].starts[1] = 1,
                "blocks of a sequence: expected 2.., got 1",
            ),
        ];
        let mut queue = ReferenceBackend::new(1).queue(&LIMITS).unwrap();
        assert!(queue.begin(&step()).is_ok(), "undamaged");
        for (damage, expected) in cases {
            let mut step = step();
            damage(&mut step);
            let error = queue.begin(&step).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}

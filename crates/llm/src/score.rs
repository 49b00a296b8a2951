//! Comparing two models over a text, in lock step: divergence, agreement, perplexity.

use ucuz_models::ModelRunner;
use ucuz_report::{Divergence, TokenDivergence};
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::{Batch, SeqSlot, TensorResult};

/// A batch that feeds `ids[range]` of one sequence whose blocks are `0, 1, 2, ...`, logits wanted of every row.
///
/// For runners that hold one sequence only; the engine makes its own batches.
pub fn single_sequence_batch(ids: &[u32], range: std::ops::Range<usize>, groups: usize) -> Batch {
    let blocks: Vec<u32> = (0..range.end.div_ceil(BLOCK_TOKENS) as u32).collect();
    let table = GroupTables {
        starts: vec![0, blocks.len() as u32],
        blocks,
    };
    let rows = range.len() as u32;
    Batch {
        tokens: ids[range.clone()].to_vec(),
        positions: (range.start as u32..range.end as u32).collect(),
        seq_starts: vec![0, rows],
        kv_lens: vec![range.end as u32],
        slots: vec![SeqSlot(0)],
        groups: vec![table; groups],
        logit_rows: (0..rows).collect(),
    }
}

/// Runs `ids` through both models, `chunk` tokens at a time, and compares every position's distribution.
///
/// Logits are held for one chunk only: `chunk · vocab` numbers.
///
/// # Errors
/// What the runners report.
pub fn lockstep(
    reference: &mut ModelRunner,
    other: &mut ModelRunner,
    ids: &[u32],
    chunk: usize,
) -> TensorResult<Divergence> {
    let mut divergence = Divergence::default();
    for start in (0..ids.len()).step_by(chunk.max(1)) {
        let range = start..(start + chunk.max(1)).min(ids.len());
        let mut rows: Vec<Vec<f32>> = Vec::with_capacity(range.len());
        let batch = single_sequence_batch(ids, range.clone(), reference.cache().groups.len());
        reference.logits(&batch, &mut |logits| rows.push(logits.to_vec()))?;
        let mut position = start;
        let batch = single_sequence_batch(ids, range, other.cache().groups.len());
        other.logits(&batch, &mut |logits| {
            let next = ids.get(position + 1).copied();
            divergence.push(TokenDivergence::new(&rows[position - start], logits, next));
            position += 1;
        })?;
    }
    Ok(divergence)
}

//! Choosing tokens: the row sampler of `tensor`, rows in parallel.

use ucuz_tensor::sampling::{RowFault, SampleRow, SampleScratch, Sampled, SampledRow, sample_row};
use ucuz_tensor::tensor::View;

use crate::pool::{Disjoint, ThreadPool};

type Outcome = Result<SampledRow, RowFault>;

/// One outcome a row of `logits: [rows, vocab]`; `scratch` holds one entry a thread.
///
/// The outcomes are the result's own memory; nothing else is allocated.
pub fn sample(
    pool: &ThreadPool,
    scratch: &mut [SampleScratch],
    logits: View<'_>,
    rows: &[SampleRow<'_>],
) -> Sampled {
    let mut outcomes: Vec<Outcome> = vec![Err(RowFault::EmptyMask); rows.len()];
    let (scratch, slots) = (Disjoint::new(scratch), Disjoint::new(&mut outcomes));
    pool.run(rows.len(), &|row, worker| {
        // SAFETY: no two tasks run at once on one worker, and each task has its own row.
        let (scratch, slots) =
            unsafe { (scratch.range(worker..worker + 1), slots.range(row..row + 1)) };
        slots[0] = sample_row(logits.row(row), &rows[row], &mut scratch[0]);
    });
    Sampled { rows: outcomes }
}

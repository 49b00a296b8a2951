//! Two steps before the first request, so that what steps cost is known: for the first forecast, the first budget of a step
//! and the watchdog. They write into blocks that nobody holds and that no name leads to.

use ucuz_tensor::TensorError;
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::sampling::{SampleRow, Take};
use ucuz_tensor::{Batch, SeqSlot};

use crate::cost::StepShape;
use crate::engine::Engine;

/// Rows of the larger step: enough for a price of rows, few enough to take 30 ms where a row takes half a millisecond.
const ROWS: usize = 2 * BLOCK_TOKENS;

impl Engine {
    /// Runs a step of many rows and one of a single row, as far as the pool has room for them.
    ///
    /// # Errors
    /// `TensorError::Device`: the runner is lost. Other errors of these steps are left to the first request.
    pub(crate) fn warm_up(&mut self) -> Result<(), TensorError> {
        let has_blocks = (0..self.scheduler.groups.len())
            .all(|group| self.scheduler.pool.num_available(group) * BLOCK_TOKENS >= ROWS);
        let limits = &self.scheduler.limits;
        let rows = ROWS.min(limits.step_rows).min(limits.context);
        if !has_blocks || rows < 2 {
            return Ok(());
        }
        for (start, end) in [(0, rows - 1), (rows - 1, rows)] {
            match self.probe(start, end) {
                Err(error @ TensorError::Device { .. }) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a step before the first request failed");
                    return Ok(());
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Runs and times one step over positions `start..end` of a sequence of zeros.
    fn probe(&mut self, start: usize, end: usize) -> Result<(), TensorError> {
        let blocks = end.div_ceil(BLOCK_TOKENS) as u32;
        let tables = GroupTables {
            starts: vec![0, blocks],
            blocks: (0..blocks).collect(),
        };
        let batch = Batch {
            tokens: vec![0; end - start],
            positions: (start as u32..end as u32).collect(),
            seq_starts: vec![0, (end - start) as u32],
            kv_lens: vec![end as u32],
            slots: vec![SeqSlot(0)],
            logit_rows: vec![(end - start - 1) as u32],
            groups: vec![tables; self.scheduler.groups.len()],
        };
        let row = SampleRow {
            take: Take::Sample,
            params: &self.greedy,
            sample: 0,
            position: end as u32,
            counts: &[],
            mask: None,
            forbidden: &[],
            logprobs: None,
        };
        let began = self.shared.clock.now();
        let ticket = self.runner.launch(&batch, &[row])?;
        self.runner.wait(ticket)?;
        let shape = StepShape {
            rows: end - start,
            reads: 1,
            attended: (start + 1..=end).sum(),
        };
        self.measure(shape, began);
        Ok(())
    }
}

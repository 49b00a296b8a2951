//! One step as plain data, and the flat arrays made from it.

use ucuz_tensor::backend::Limits;
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::sampling::{SampleRow, SamplingParams, Take};
use ucuz_tensor::{Batch, SeqSlot};

use crate::constraint::Masking;
use crate::cost::StepShape;
use crate::sequence::Sequence;
use crate::sequences::Sequences;

/// Rows of one sequence in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedSequence {
    /// Which sequence.
    pub seniority: u64,
    /// Its epoch; results of another epoch are void.
    pub epoch: u32,
    /// Its device state.
    pub slot: SeqSlot,
    /// First position computed.
    pub start: usize,
    /// Number of positions computed.
    pub rows: usize,
    /// First position whose logits are read; `start + rows` when none is.
    pub read_from: usize,
    /// Whether what is read goes through the head; rows that are pooled do not.
    pub has_logits: bool,
}

impl PlannedSequence {
    /// One past the last position computed.
    pub fn end(&self) -> usize {
        self.start + self.rows
    }

    /// Positions whose logits are read.
    pub fn reads(&self) -> std::ops::Range<usize> {
        self.read_from..self.end()
    }
}

/// The scheduler's decision about one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepPlan {
    /// Number of the step, from 1.
    pub step: u64,
    /// Who computes what, each sequence at most once.
    pub entries: Vec<PlannedSequence>,
}

impl StepPlan {
    /// Rows of the step.
    pub fn rows(&self) -> usize {
        self.entries.iter().map(|entry| entry.rows).sum()
    }

    /// What the step costs by.
    pub fn shape(&self) -> StepShape {
        let attended = |entry: &PlannedSequence| {
            let (first, last) = (entry.start + 1, entry.end());
            entry.rows * (first + last) / 2
        };
        let heads = self.entries.iter().filter(|entry| entry.has_logits);
        StepShape {
            rows: self.rows(),
            reads: heads.map(|entry| entry.reads().len()).sum(),
            attended: self.entries.iter().map(attended).sum(),
        }
    }

    /// Writes the step's arrays into `batch`.
    pub(crate) fn fill(&self, batch: &mut Batch, sequences: &Sequences, groups: usize) {
        batch.clear();
        batch.groups.resize_with(groups, GroupTables::default);
        for entry in &self.entries {
            let sequence = planned(sequences, entry);
            batch.seq_starts.push(batch.tokens.len() as u32);
            let first_row = batch.tokens.len();
            batch
                .tokens
                .extend_from_slice(&sequence.tokens[entry.start..entry.end()]);
            batch
                .positions
                .extend(entry.start as u32..entry.end() as u32);
            batch.kv_lens.push(entry.end() as u32);
            batch.slots.push(entry.slot);
            let reads = entry
                .reads()
                .map(|position| (first_row + position - entry.start) as u32);
            batch.logit_rows.extend(reads);
            for (tables, table) in batch.groups.iter_mut().zip(&sequence.tables) {
                tables.starts.push(tables.blocks.len() as u32);
                tables.blocks.extend_from_slice(table);
            }
        }
        batch.seq_starts.push(batch.tokens.len() as u32);
        for tables in &mut batch.groups {
            tables.starts.push(tables.blocks.len() as u32);
        }
    }

    /// What is wanted of each logit row, in the batch's order.
    pub(crate) fn sample_rows<'a>(
        &self,
        sequences: &'a Sequences,
        greedy: &'a SamplingParams,
    ) -> Vec<SampleRow<'a>> {
        let rows = self.entries.iter().flat_map(|entry| {
            let sequence = planned(sequences, entry);
            entry
                .reads()
                .map(move |position| sample_row(sequence, position, greedy))
        });
        rows.collect()
    }

    /// Asserts that the step respects the limits.
    ///
    /// # Panics
    /// When it does not.
    pub(crate) fn check(&self, limits: &Limits) {
        assert!(self.rows() <= limits.step_rows, "{} rows", self.rows());
        assert!(
            self.entries.len() <= limits.sequences,
            "{} sequences",
            self.entries.len()
        );
        assert!(
            self.entries.iter().all(|entry| entry.rows > 0),
            "an entry computes something"
        );
    }
}

fn planned<'a>(sequences: &'a Sequences, entry: &PlannedSequence) -> &'a Sequence {
    let index = sequences.find_running(entry.seniority);
    assert!(index.is_some(), "a planned sequence runs");
    &sequences.running[index.unwrap_or_default()]
}

fn sample_row<'a>(
    sequence: &'a Sequence,
    position: usize,
    greedy: &'a SamplingParams,
) -> SampleRow<'a> {
    let request = &sequence.request;
    let row = SampleRow {
        take: Take::Sample,
        params: &request.params,
        sample: request.sample,
        position: position as u32 + 1,
        counts: &sequence.counts,
        mask: None,
        forbidden: &[],
        logprobs: request.logprobs,
    };
    if request.pool.is_some() {
        return SampleRow {
            take: Take::Hidden,
            params: greedy,
            counts: &[],
            logprobs: None,
            ..row
        };
    }
    if sequence.is_score(position) {
        return SampleRow {
            take: Take::Score(sequence.tokens[position + 1]),
            params: greedy,
            counts: &[],
            logprobs: request.prompt_logprobs,
            ..row
        };
    }
    assert_eq!(
        position + 1,
        sequence.tokens.len(),
        "only the last token is followed by a choice"
    );
    let masking = sequence.masking.as_ref();
    assert_eq!(
        masking.is_some(),
        request.constraint.is_some(),
        "a constrained sequence that runs has masks"
    );
    let is_early = sequence.output_len() < request.min_tokens as usize;
    SampleRow {
        mask: masking.map(Masking::row),
        forbidden: if is_early { &request.stop_ids } else { &[] },
        ..row
    }
}

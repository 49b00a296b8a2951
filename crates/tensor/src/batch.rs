//! One step's input as flat arrays: which tokens run, where they stand, and which blocks hold their past.

use std::ops::Range;

use crate::cache::{BLOCK_TOKENS, NO_BLOCK};

/// Index of all per-sequence device state; stable while the sequence runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeqSlot(pub u32);

/// Block tables of one cache group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupTables {
    /// Tables of all sequences, one after the other: entry `i` holds positions `32 i ..`; [`NO_BLOCK`] behind a window.
    pub blocks: Vec<u32>,
    /// Start of each sequence's table, and the end: `[sequences + 1]`.
    pub starts: Vec<u32>,
}

/// One step. Rows are tokens; a sequence's tokens are consecutive, at consecutive positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Token ids: `[rows]`.
    pub tokens: Vec<u32>,
    /// Position of each token in its sequence: `[rows]`.
    pub positions: Vec<u32>,
    /// First row of each sequence, and the end: `[sequences + 1]`.
    pub seq_starts: Vec<u32>,
    /// Tokens in the cache once this step's are stored: `[sequences]`.
    pub kv_lens: Vec<u32>,
    /// Device state of each sequence: `[sequences]`.
    pub slots: Vec<SeqSlot>,
    /// One entry a cache group.
    pub groups: Vec<GroupTables>,
    /// Rows whose logits are wanted, each once, ascending.
    pub logit_rows: Vec<u32>,
}

impl Batch {
    /// Number of tokens.
    pub fn num_rows(&self) -> usize {
        self.tokens.len()
    }

    /// Number of sequences.
    pub fn num_sequences(&self) -> usize {
        self.kv_lens.len()
    }

    /// Rows of one sequence.
    pub fn sequence_rows(&self, sequence: usize) -> Range<usize> {
        self.seq_starts[sequence] as usize..self.seq_starts[sequence + 1] as usize
    }

    /// Block table of one sequence in one group.
    pub fn table(&self, group: usize, sequence: usize) -> &[u32] {
        let tables = &self.groups[group];
        &tables.blocks[tables.starts[sequence] as usize..tables.starts[sequence + 1] as usize]
    }

    /// Block and offset of `position` of `sequence` in `group`; `None` behind the window.
    pub fn slot_of(
        &self,
        group: usize,
        sequence: usize,
        position: usize,
    ) -> Option<(usize, usize)> {
        let block = self.table(group, sequence)[position / BLOCK_TOKENS];
        (block != NO_BLOCK).then_some((block as usize, position % BLOCK_TOKENS))
    }

    /// Empties all arrays and keeps their memory.
    pub fn clear(&mut self) {
        self.tokens.clear();
        self.positions.clear();
        self.seq_starts.clear();
        self.kv_lens.clear();
        self.slots.clear();
        self.logit_rows.clear();
        for group in &mut self.groups {
            group.blocks.clear();
            group.starts.clear();
        }
    }
}

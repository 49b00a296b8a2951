//! What somebody who looks at the engine sees: plain data of the last steps, the requests inside and the blocks.
//!
//! Here: the data and how it is bounded. In `watch.rs`: who looks, and when the engine makes it. Everything is a number:
//! no token, no text, no name of a tenant.

use std::sync::Arc;
use std::time::Duration;

use crate::stats::Stats;

/// Steps that a view remembers: more than two seconds of steps of 16 ms, or what a reader at 10 Hz needs up to 1,280
/// steps a second.
pub const STEPS_MAX: usize = 128;

/// Sequences that a step, or the list of those that run, names; the others are only counted.
pub const ENTRIES_MAX: usize = 128;

/// Waiting requests that are named; the others are only counted.
pub const WAITING_MAX: usize = 16;

/// Cells of one group's map; larger groups have cells of several blocks.
pub const CELLS_MAX: usize = 4096;

/// The engine at the end of a turn, for who looks.
#[derive(Debug, Clone)]
pub struct EngineView {
    /// When it was made, since the clock's start.
    pub at: Duration,
    /// The last steps, oldest first, at most [`STEPS_MAX`].
    pub steps: Vec<Arc<StepView>>,
    /// Requests that hold a slot, oldest first, at most [`ENTRIES_MAX`].
    pub running: Vec<RunningView>,
    /// Requests that wait, oldest first, at most [`WAITING_MAX`].
    pub waiting: Vec<WaitingView>,
    /// One map a cache group.
    pub groups: Vec<BlockMap>,
    /// Requests that can hold a slot at once.
    pub slots: usize,
    /// The counts of the same moment.
    pub stats: Arc<Stats>,
}

/// One step that ended well.
#[derive(Debug, Clone, PartialEq)]
pub struct StepView {
    /// Number of the step, from 1.
    pub step: u64,
    /// When it ended, since the clock's start.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// Rows computed.
    pub rows: usize,
    /// Rows that it could hold.
    pub budget: usize,
    /// Requests that ran after it.
    pub running: usize,
    /// Requests that waited after it.
    pub waiting: usize,
    /// Requests that gave up their slot since the step before, and that slot; at most [`ENTRIES_MAX`].
    pub preempted: Vec<(u64, u32)>,
    /// Who computed what, at most [`ENTRIES_MAX`].
    pub entries: Vec<StepEntry>,
}

/// One sequence's part in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEntry {
    /// Number of the request.
    pub request: u64,
    /// The slot it holds.
    pub slot: u32,
    /// First position computed.
    pub start: usize,
    /// Positions computed.
    pub rows: usize,
    /// Whether it read what was known or went on writing.
    pub phase: Phase,
    /// The token that came of it, if one did.
    pub token: Option<TokenTime>,
}

/// What the rows of a sequence are to whoever looks; the scheduler knows no such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Rows of tokens that were known: a prompt, or an answer that is computed again after a preemption.
    Prefill,
    /// The row of the token that was generated last.
    Decode,
}

/// How long a token took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenTime {
    /// The first of its request, since that was submitted.
    First(Duration),
    /// Another one, since the one before.
    Next(Duration),
}

/// A request that holds a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningView {
    /// Number of the request.
    pub request: u64,
    /// Its slot.
    pub slot: u32,
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Tokens of prompt and answer so far.
    pub known: usize,
    /// Tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Prompt tokens that were found in the cache.
    pub cached: usize,
    /// How often it gave up its slot.
    pub preemptions: u32,
}

/// A request that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingView {
    /// Number of the request.
    pub request: u64,
    /// Tokens to be computed, unless they are found in the cache.
    pub tokens: usize,
    /// Since it was submitted.
    pub waited: Duration,
    /// How often it gave up a slot.
    pub preemptions: u32,
}

/// What one block, or a cell of several, is; of several the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockMark {
    /// Nobody's, without content.
    Free,
    /// Nobody's, with content that can be found.
    Cached,
    /// Given back, and free when the steps in flight have ended.
    Leaving,
    /// Held by the request in this slot.
    Held(u32),
    /// Held by several requests.
    Shared,
}

/// Blocks by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockCounts {
    /// See [`BlockMark::Free`].
    pub free: usize,
    /// See [`BlockMark::Cached`].
    pub cached: usize,
    /// See [`BlockMark::Leaving`].
    pub leaving: usize,
    /// See [`BlockMark::Held`].
    pub held: usize,
    /// See [`BlockMark::Shared`].
    pub shared: usize,
}

/// The blocks of one cache group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockMap {
    /// Blocks of the group.
    pub total: usize,
    /// How many are what.
    pub counts: BlockCounts,
    /// Tokens that a query looks back, if not all.
    pub window: Option<usize>,
    /// Blocks of one cell.
    pub cell_blocks: usize,
    /// From block 0 to the last one that is not free, at most [`CELLS_MAX`] cells.
    pub cells: Vec<BlockMark>,
}

impl BlockMap {
    /// Counts `marks`, one a block, and draws them together where they are too many.
    pub(crate) fn new(mut marks: Vec<BlockMark>, window: Option<usize>) -> Self {
        let (total, mut counts) = (marks.len(), BlockCounts::default());
        for mark in &marks {
            *match mark {
                BlockMark::Free => &mut counts.free,
                BlockMark::Cached => &mut counts.cached,
                BlockMark::Leaving => &mut counts.leaving,
                BlockMark::Held(_) => &mut counts.held,
                BlockMark::Shared => &mut counts.shared,
            } += 1;
        }
        let last = marks.iter().rposition(|&mark| mark != BlockMark::Free);
        marks.truncate(last.map_or(0, |last| last + 1));
        let cell_blocks = marks.len().div_ceil(CELLS_MAX).max(1);
        let liveliest = |cell: &[BlockMark]| cell.iter().copied().max().unwrap_or(BlockMark::Free);
        Self {
            total,
            counts,
            window,
            cell_blocks,
            cells: marks.chunks(cell_blocks).map(liveliest).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_ends_at_the_last_block_in_use_and_is_bounded() {
        use BlockMark::{Cached, Free, Held, Shared};
        let map = BlockMap::new(vec![Held(2), Free, Shared, Cached, Free, Free], None);
        assert_eq!(map.cells, [Held(2), Free, Shared, Cached]);
        assert_eq!((map.total, map.cell_blocks, map.counts.free), (6, 1, 3));
        assert!(BlockMap::new(vec![Free; 9], None).cells.is_empty());

        let mut marks = vec![Free; 3 * CELLS_MAX];
        marks[5] = Held(7);
        marks[2 * CELLS_MAX] = Cached;
        let map = BlockMap::new(marks, Some(40));
        assert_eq!(
            (map.cell_blocks, map.cells.len()),
            (3, 2 * CELLS_MAX / 3 + 1)
        );
        assert_eq!((map.cells[0], map.cells[1]), (Free, Held(7)));
        assert_eq!(map.cells.last(), Some(&Cached));
        let counts = (map.counts.free, map.counts.held, map.counts.cached);
        assert_eq!(counts, (3 * CELLS_MAX - 2, 1, 1));
    }
}

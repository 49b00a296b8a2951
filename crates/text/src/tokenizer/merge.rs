//! The merge loop that byte-pair and SentencePiece tokenizers share: take the best neighbouring
//! pair, join it, look at its new neighbours, until no pair joins.
//!
//! Work: n symbols, at most 3n queue entries, n log n steps whatever the text, so a megabyte of
//! one letter takes a fraction of a second. Knows nothing of vocabularies: the rule is passed in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocab::NONE;

/// A span of the text and the token it stands for so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    /// First byte.
    pub(super) start: u32,
    /// Past the last byte; equal to `start` once merged away.
    pub(super) end: u32,
    /// Token, or [`NONE`].
    pub(super) id: u32,
    prev: u32,
    next: u32,
}

/// What a pair becomes: a lower `rank` joins first, equal ranks from the left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Join {
    /// Order of joining.
    pub(super) rank: u32,
    /// The token of the joined span.
    pub(super) id: u32,
}

/// `(rank, left symbol, right symbol, bytes of both, token)`.
type Candidate = Reverse<(u32, u32, u32, u32, u32)>;

/// Reusable work space of the merge loop.
#[derive(Debug, Default)]
pub(super) struct Merger {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Candidate>,
}

impl Merger {
    /// Forgets the last piece.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    /// Appends a symbol that ends at `end`, of at least one byte.
    pub(super) fn push(&mut self, end: u32, id: u32) {
        let index = self.symbols.len() as u32;
        let start = self.symbols.last().map_or(0, |last| last.end);
        if let Some(last) = self.symbols.last_mut() {
            last.next = index;
        }
        let prev = index.checked_sub(1).unwrap_or(NONE);
        self.symbols.push(Symbol {
            start,
            end,
            id,
            prev,
            next: NONE,
        });
    }

    /// Joins until no pair has a rule.
    pub(super) fn run(&mut self, rule: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        for right in 1..self.symbols.len() as u32 {
            self.propose(right - 1, right, &rule);
        }
        while let Some(Reverse((_, left, right, len, id))) = self.queue.pop() {
            if !self.is_current(left, right, len) {
                continue;
            }
            let (end, next) = {
                let gone = &mut self.symbols[right as usize];
                let span = (gone.end, gone.next);
                gone.end = gone.start;
                span
            };
            let kept = &mut self.symbols[left as usize];
            (kept.end, kept.id, kept.next) = (end, id, next);
            let prev = kept.prev;
            if next != NONE {
                self.symbols[next as usize].prev = left;
                self.propose(left, next, &rule);
            }
            if prev != NONE {
                self.propose(prev, left, &rule);
            }
        }
    }

    /// The symbols that are left, in order.
    pub(super) fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols
            .iter()
            .filter(|symbol| symbol.end > symbol.start)
    }

    fn propose(&mut self, left: u32, right: u32, rule: impl Fn(&Symbol, &Symbol) -> Option<Join>) {
        let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        if let Some(join) = rule(a, b) {
            self.queue
                .push(Reverse((join.rank, left, right, b.end - a.start, join.id)));
        }
    }

    /// A candidate is stale when one of its symbols was joined to another since.
    fn is_current(&self, left: u32, right: u32, len: u32) -> bool {
        let (a, b) = (&self.symbols[left as usize], &self.symbols[right as usize]);
        a.end > a.start && b.end > b.start && a.next == right && b.end - a.start == len
    }
}

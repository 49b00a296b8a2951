//! All requests inside the engine: those that hold blocks and those that wait for some.

use std::collections::VecDeque;

use crate::handle::RequestId;
use crate::sequence::Sequence;

/// Running and waiting sequences, both ascending by seniority.
#[derive(Default)]
pub(crate) struct Sequences {
    /// They have a slot and may hold blocks.
    pub running: Vec<Sequence>,
    /// They hold nothing.
    pub waiting: VecDeque<Sequence>,
    next_seniority: u64,
}

impl Sequences {
    /// Lines up a new sequence behind all others.
    pub(crate) fn accept(&mut self, mut sequence: Sequence) {
        sequence.seniority = self.next_seniority;
        self.next_seniority += 1;
        self.waiting.push_back(sequence);
    }

    /// Index among the running of the sequence with this seniority.
    pub(crate) fn find_running(&self, seniority: u64) -> Option<usize> {
        self.running
            .binary_search_by_key(&seniority, |s| s.seniority)
            .ok()
    }

    /// Puts a sequence among the running, at its rank.
    pub(crate) fn run(&mut self, sequence: Sequence) -> usize {
        assert!(sequence.slot.is_some(), "a running sequence has a slot");
        let index = self
            .running
            .partition_point(|s| s.seniority < sequence.seniority);
        self.running.insert(index, sequence);
        index
    }

    /// Puts a sequence that gave up its blocks among the waiting, at its rank.
    pub(crate) fn wait(&mut self, sequence: Sequence) {
        assert!(sequence.slot.is_none(), "a waiting sequence has no slot");
        assert_eq!(
            sequence.progress.scheduled, 0,
            "a waiting sequence holds nothing"
        );
        let index = self
            .waiting
            .partition_point(|s| s.seniority < sequence.seniority);
        self.waiting.insert(index, sequence);
    }

    /// Seniority of a request.
    pub(crate) fn find(&self, id: RequestId) -> Option<u64> {
        let mut all = self.running.iter().chain(&self.waiting);
        all.find(|s| s.id == id).map(|s| s.seniority)
    }

    /// Takes out the waiting sequence with this seniority.
    pub(crate) fn take_waiting(&mut self, seniority: u64) -> Option<Sequence> {
        let index = self
            .waiting
            .binary_search_by_key(&seniority, |s| s.seniority)
            .ok()?;
        self.waiting.remove(index)
    }

    /// Whether there is nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Seniorities of those whose receiver is gone.
    pub(crate) fn closed(&self) -> Vec<u64> {
        let all = self.running.iter().chain(&self.waiting);
        all.filter(|s| s.sink.is_closed())
            .map(|s| s.seniority)
            .collect()
    }

    /// Seniorities of everybody.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.running
            .iter()
            .chain(&self.waiting)
            .map(|s| s.seniority)
            .collect()
    }
}

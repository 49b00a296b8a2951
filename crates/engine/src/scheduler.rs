//! Who computes what in the next step.
//!
//! Here: planning, admission, preemption. In `commit.rs`: what happens with a step's results. Rules:
//! - Every running sequence with one token to compute goes first, oldest first; then longer stretches, in chunks up to the
//!   step's row budget; then waiting sequences are admitted while their known tokens fit.
//! - Blocks are taken for the rows of this step only; nothing is reserved for `max_tokens`.
//! - Who lacks a block takes it from the youngest, which gives up everything and recomputes later. The youngest itself
//!   waits with what it has. The oldest always fits alone (`Handle::submit` sees to it), so the oldest always moves on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use ucuz_tensor::SeqSlot;
use ucuz_tensor::backend::Limits;
use ucuz_tensor::cache::PagedGroup;

use crate::blocks::{BlockPool, Room};
use crate::event::{Event, EventSink};
use crate::memory::sequence_blocks;
use crate::plan::{PlannedSequence, StepPlan};
use crate::sequence::Sequence;
use crate::sequences::Sequences;
use crate::stats::Totals;

/// Blocks, slots and sums; the sequences themselves are passed in.
pub(crate) struct Scheduler {
    pub limits: Limits,
    pub groups: Vec<PagedGroup>,
    pub pool: BlockPool,
    pub totals: Totals,
    /// Mean of tokens generated a request, smoothed.
    pub mean_completion: f64,
    /// Time of this turn.
    pub now: Duration,
    /// Requests inside; handles add, the end of a request takes away.
    pub inside: Arc<AtomicUsize>,
    /// Last events to be sent at the end of this turn.
    pub endings: VecDeque<(Box<dyn EventSink>, Event)>,
    free_slots: Vec<SeqSlot>,
    next_step: u64,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits, groups: Vec<PagedGroup>, blocks: &[usize]) -> Self {
        Self {
            limits,
            groups,
            pool: BlockPool::new(blocks),
            totals: Totals::default(),
            mean_completion: 0.0,
            now: Duration::ZERO,
            inside: Arc::default(),
            endings: VecDeque::new(),
            free_slots: (0..limits.sequences as u32).rev().map(SeqSlot).collect(),
            next_step: 1,
        }
    }

    /// Decides the next step; `None` when nothing can be computed before a step in flight retires.
    pub(crate) fn plan(&mut self, sequences: &mut Sequences) -> Option<StepPlan> {
        let mut plan = StepPlan {
            step: self.next_step,
            entries: Vec::new(),
        };
        let preemptions = self.totals.preemptions;
        for is_single in [true, false] {
            let wanted = |s: &&Sequence| {
                let pending = s.progress.pending();
                pending > 0 && (pending == 1) == is_single
            };
            let ids: Vec<u64> = sequences
                .running
                .iter()
                .filter(wanted)
                .map(|s| s.seniority)
                .collect();
            for seniority in ids {
                self.schedule(sequences, seniority, &mut plan);
            }
        }
        if self.totals.preemptions == preemptions {
            self.admit(sequences, &mut plan);
        }
        if plan.entries.is_empty() {
            return None;
        }
        plan.check(&self.limits);
        self.next_step += 1;
        self.pool.launched(plan.step);
        Some(plan)
    }

    /// Gives one running sequence as many rows as budget and blocks allow.
    fn schedule(&mut self, sequences: &mut Sequences, seniority: u64, plan: &mut StepPlan) {
        // Preempted for an older one meanwhile?
        while let Some(index) = sequences.find_running(seniority) {
            let budget = self.limits.step_rows - plan.rows();
            let rows = sequences.running[index].progress.pending().min(budget);
            if rows == 0 {
                return;
            }
            match self.take_blocks(&mut sequences.running[index], rows) {
                Room::Now => {
                    plan.entries
                        .push(entry(&mut sequences.running[index], rows));
                    return;
                }
                Room::Soon => return,
                Room::None if index + 1 == sequences.running.len() => return,
                Room::None => {
                    let youngest = sequences.running.len() - 1;
                    let victim = sequences.running[youngest].seniority;
                    plan.entries.retain(|entry| entry.seniority != victim);
                    self.totals.preemptions += 1;
                    sequences.running[youngest].usage.preemptions += 1;
                    self.requeue(sequences, youngest);
                }
            }
        }
    }

    /// Frees what fell behind the windows, then takes blocks for `rows` more tokens, in all groups or in none.
    fn take_blocks(&mut self, sequence: &mut Sequence, rows: usize) -> Room {
        let start = sequence.progress.scheduled;
        let mut room = Room::Now;
        for (index, group) in self.groups.iter().enumerate() {
            if let Some(window) = group.window {
                for block in sequence.pass_window(index, window, start) {
                    self.pool.release(index, block);
                }
            }
            match self
                .pool
                .room(index, sequence.missing_blocks(index, start + rows))
            {
                Room::Now => {}
                Room::Soon if room != Room::None => room = Room::Soon,
                Room::Soon => {}
                Room::None => room = Room::None,
            }
        }
        if room != Room::Now {
            return room;
        }
        for index in 0..self.groups.len() {
            for _ in 0..sequence.missing_blocks(index, start + rows) {
                let block = self.pool.allocate(index);
                assert!(block.is_some(), "room was checked");
                sequence.tables[index].extend(block);
            }
        }
        Room::Now
    }

    /// Lets waiting sequences run, strictly in order of arrival, while rows, slots and blocks suffice.
    fn admit(&mut self, sequences: &mut Sequences, plan: &mut StepPlan) {
        while plan.rows() < self.limits.step_rows
            && let Some(next) = sequences.waiting.front()
            && (sequences.running.is_empty() || self.has_room(sequences, next))
            && let Some(&slot) = self.free_slots.last()
            && let Some(mut sequence) = sequences.waiting.pop_front()
        {
            self.free_slots.pop();
            sequence.slot = Some(slot);
            if sequence.admitted_at.is_none() {
                sequence.admitted_at = Some(self.now);
                let queued = self.now.saturating_sub(sequence.submitted_at);
                sequence.usage.queue_ms = queued.as_millis() as u64;
            }
            let seniority = sequence.seniority;
            sequences.run(sequence);
            let entries = plan.entries.len();
            self.schedule(sequences, seniority, plan);
            if plan.entries.len() <= entries {
                return;
            }
        }
    }

    /// Whether all known tokens of `next`, one more token of everybody and what the running still lack fit together.
    ///
    /// Without the spare block for everybody, the newcomer would be thrown out again at the next block border.
    fn has_room(&self, sequences: &Sequences, next: &Sequence) -> bool {
        let groups = self.groups.iter().enumerate();
        groups.into_iter().all(|(index, group)| {
            let need = |s: &Sequence| {
                let whole = sequence_blocks(group, s.progress.known + 1, self.limits.step_rows);
                whole.saturating_sub(s.tables[index].len() - s.behind[index])
            };
            let running: usize = sequences.running.iter().map(|s| need(s) + 1).sum();
            running + need(next) <= self.pool.num_free(index)
        })
    }

    /// Sends a running sequence back to the queue: all its blocks are given up, all its tokens kept.
    pub(crate) fn requeue(&mut self, sequences: &mut Sequences, index: usize) {
        let mut sequence = sequences.running.remove(index);
        self.strip(&mut sequence);
        sequences.wait(sequence);
    }

    /// Takes blocks and slot from a sequence.
    pub(crate) fn strip(&mut self, sequence: &mut Sequence) {
        for (group, table) in sequence.restart().into_iter().enumerate() {
            for block in table {
                self.pool.release(group, block);
            }
        }
        self.free_slots.extend(sequence.slot.take());
    }

    /// Checks counts against holders.
    ///
    /// # Panics
    /// When they disagree.
    pub(crate) fn check_integrity(&self, sequences: &Sequences) {
        let running = sequences.running.iter();
        let tables = running.flat_map(|s| s.tables.iter().map(Vec::as_slice).enumerate());
        self.pool.check_integrity(tables);
        assert_eq!(
            self.free_slots.len() + sequences.running.len(),
            self.limits.sequences
        );
        for sequence in &sequences.running {
            sequence.progress.check();
            for (table, &behind) in sequence.tables.iter().zip(&sequence.behind) {
                let freed = table
                    .iter()
                    .take_while(|&&block| block == ucuz_tensor::cache::NO_BLOCK);
                assert_eq!(
                    freed.count(),
                    behind,
                    "only blocks behind the window are missing"
                );
            }
        }
        for waiting in &sequences.waiting {
            assert!(
                waiting.tables.iter().all(Vec::is_empty),
                "waiting sequences hold nothing"
            );
        }
    }
}

fn entry(sequence: &mut Sequence, rows: usize) -> PlannedSequence {
    let progress = &mut sequence.progress;
    let start = progress.scheduled;
    progress.scheduled += rows;
    progress.check();
    let read_from = progress.read_until.clamp(start, progress.scheduled);
    assert!(sequence.slot.is_some(), "a running sequence has a slot");
    PlannedSequence {
        seniority: sequence.seniority,
        epoch: sequence.epoch,
        slot: sequence.slot.unwrap_or(SeqSlot(0)),
        start,
        rows,
        read_from,
    }
}

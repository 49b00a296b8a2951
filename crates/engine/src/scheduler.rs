//! Who computes what in the next step.
//!
//! Here: planning and preemption. In `admit.rs`: who of the waiting may run, and with which cached prefix. In `commit.rs`:
//! what happens with a step's results. In `sequences.rs`: the order. Rules:
//! - Every running sequence with one token to compute goes first, oldest first; then longer stretches in order of rank, in
//!   chunks up to the step's row budget; then waiting sequences are admitted while their known tokens fit.
//! - While somebody generates, the budget is what the step's target time allows, so a long prompt stalls no answer.
//! - Blocks are taken for the rows of this step only; nothing is reserved for `max_tokens`.
//! - Who lacks a block takes it from the victim ([`Sequences::victim`]), which gives up everything and recomputes later
//!   what is no longer cached. The victim itself waits with what it has. The oldest is never a victim and always fits alone
//!   (`Handle::submit` sees to it), so the oldest always moves on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ucuz_tensor::SeqSlot;
use ucuz_tensor::backend::Limits;
use ucuz_tensor::cache::{BLOCK_TOKENS, NO_BLOCK, PagedGroup};

use crate::blocks::{BlockPool, Room};
use crate::constraint::MaskWorkers;
use crate::cost::StepCost;
use crate::door::Door;
use crate::event::{Event, EventSink};
use crate::histogram::Latencies;
use crate::plan::{PlannedSequence, StepPlan};
use crate::prefix::PrefixHasher;
use crate::sequence::Sequence;
use crate::sequences::Sequences;
use crate::stats::Totals;
use crate::watch::StepLog;

/// Rows of a prompt that move on in each step, however slow steps are.
const LEAST_CHUNK: usize = 32;

/// Blocks, slots and sums; the sequences themselves are passed in.
pub(crate) struct Scheduler {
    pub limits: Limits,
    pub groups: Vec<PagedGroup>,
    pub pool: BlockPool,
    pub totals: Totals,
    /// Mean of tokens generated a request, smoothed; 0 before the first has ended.
    pub mean_completion: f64,
    /// Time of this turn.
    pub now: Duration,
    /// Prices of steps, from those that were run.
    pub cost: StepCost,
    /// Rows that the last step could hold.
    pub last_budget: usize,
    /// How long requests and tokens took.
    pub latencies: Arc<Latencies>,
    /// Time that a step should not exceed while somebody generates; `None` fills every step.
    pub step_target: Option<Duration>,
    /// Names cached prefixes; `None` shares none.
    pub hasher: Option<PrefixHasher>,
    /// Share of a prompt that is found in the prefix cache, smoothed.
    pub cached_share: f64,
    /// Requests and prompt tokens inside; handles add, the end of a request takes away.
    pub door: Arc<Door>,
    /// Makes the masks of constrained sequences.
    pub masks: MaskWorkers,
    /// Last events to be sent at the end of this turn.
    pub endings: VecDeque<(Box<dyn EventSink>, Event)>,
    /// What the step is noted in for who looks; `None` when nobody does.
    pub log: Option<StepLog>,
    pub(crate) free_slots: Vec<SeqSlot>,
    next_step: u64,
}

impl Scheduler {
    pub(crate) fn new(limits: Limits, groups: Vec<PagedGroup>, blocks: &[usize]) -> Self {
        Self {
            limits,
            pool: BlockPool::new(groups.clone(), blocks),
            groups,
            totals: Totals::default(),
            mean_completion: 0.0,
            cached_share: 0.0,
            now: Duration::ZERO,
            cost: StepCost::default(),
            last_budget: limits.step_rows,
            latencies: Arc::default(),
            step_target: None,
            hasher: None,
            door: Arc::default(),
            masks: MaskWorkers::new(1),
            endings: VecDeque::new(),
            log: None,
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
        for seniority in generating(sequences) {
            self.schedule(sequences, seniority, self.limits.step_rows, &mut plan);
        }
        let budget = self.budget(sequences, &plan);
        self.last_budget = budget;
        for seniority in self.in_stretches(sequences) {
            self.schedule(sequences, seniority, budget, &mut plan);
        }
        if self.totals.preemptions == preemptions {
            self.admit(sequences, budget, &mut plan);
        }
        if plan.entries.is_empty() {
            return None;
        }
        plan.check(&self.limits);
        self.next_step += 1;
        self.pool.launched(plan.step);
        Some(plan)
    }

    /// Requests that can run at once when each comes to hold `tokens` tokens.
    pub(crate) fn slots_for(&self, tokens: f64) -> usize {
        // Saturates; one block more than its tokens fill is kept free for each.
        let each = (tokens / BLOCK_TOKENS as f64).ceil() as usize + 1;
        let stats = self.pool.stats();
        let whole = self.groups.iter().zip(&stats);
        let whole = whole.filter(|(group, _)| group.window.is_none());
        let fit = whole.map(|(_, stats)| stats.total / each).min();
        self.limits.sequences.min(fit.unwrap_or(usize::MAX).max(1))
    }

    /// Running sequences with more than one token to compute, in order of rank.
    fn in_stretches(&self, sequences: &Sequences) -> Vec<u64> {
        let running = sequences.running.iter();
        let mut wanted: Vec<_> = running.filter(|s| s.progress.pending() > 1).collect();
        wanted.sort_by_cached_key(|s| sequences.rank(s, self.now));
        wanted.into_iter().map(|s| s.seniority).collect()
    }

    /// Rows of a step that begins with the generated tokens of `plan`.
    fn budget(&self, sequences: &Sequences, plan: &StepPlan) -> usize {
        let most = self.limits.step_rows;
        let generated = plan.rows();
        let Some(target) = self.step_target.filter(|_| generated > 0) else {
            return most;
        };
        // A row costs more the further it looks back.
        let running = sequences.running.iter();
        let stretches = running.filter(|s| s.progress.pending() > 1);
        let position = stretches.map(|s| s.progress.scheduled).max().unwrap_or(0);
        let within = self
            .cost
            .rows_within(target.as_secs_f64(), plan.shape(), position);
        most.min(within.max(generated + LEAST_CHUNK))
    }

    /// Gives one running sequence as many rows as budget and blocks allow.
    pub(crate) fn schedule(
        &mut self,
        sequences: &mut Sequences,
        seniority: u64,
        budget: usize,
        plan: &mut StepPlan,
    ) {
        // Preempted for an older one meanwhile?
        while let Some(index) = sequences.find_running(seniority) {
            let budget = budget.saturating_sub(plan.rows());
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
                Room::None => match sequences.victim() {
                    Some(victim) if victim != index => self.preempt(sequences, victim, plan),
                    _ => return,
                },
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

    /// Takes a running sequence out of the step and sends it back to the queue.
    pub(crate) fn preempt(&mut self, sequences: &mut Sequences, index: usize, plan: &mut StepPlan) {
        assert!(index > 0, "the oldest is never preempted");
        let victim = &mut sequences.running[index];
        plan.entries
            .retain(|entry| entry.seniority != victim.seniority);
        victim.usage.preemptions += 1;
        if let (Some(log), Some(slot)) = (&mut self.log, victim.slot) {
            log.preempted.push((victim.id.0, slot.0));
        }
        self.totals.preemptions += 1;
        self.requeue(sequences, index);
    }

    /// Sends a running sequence back to the queue: all its blocks are given up, all its tokens kept.
    pub(crate) fn requeue(&mut self, sequences: &mut Sequences, index: usize) {
        let mut sequence = sequences.take_to_wait(index);
        self.strip(&mut sequence);
        sequences.wait(sequence);
    }

    /// Takes blocks and slot from a sequence.
    pub(crate) fn strip(&mut self, sequence: &mut Sequence) {
        for (group, table) in sequence.restart().into_iter().enumerate() {
            // Last first: what a name builds on is evicted after it.
            for block in table.into_iter().rev() {
                self.pool.release(group, block);
            }
        }
        self.free_slots.extend(sequence.slot.take());
    }

    /// Asserts that whole, published blocks can be found and blocks that are still written cannot.
    fn check_visible(&self, sequence: &Sequence) {
        let published = sequence.progress.published / BLOCK_TOKENS;
        for (group, table) in sequence.tables.iter().enumerate() {
            for (index, &block) in table.iter().enumerate() {
                if block != NO_BLOCK && !sequence.is_name_taken {
                    let is_visible = self.pool.is_visible(group, block);
                    assert_eq!(is_visible, index < published, "block {index} of a sequence");
                }
            }
        }
    }

    /// Checks counts against holders.
    ///
    /// # Panics
    /// When they disagree.
    pub(crate) fn check_integrity(&self, sequences: &Sequences) {
        let running = sequences.running.iter();
        let tables = running.flat_map(|s| s.tables.iter().map(Vec::as_slice).enumerate());
        self.pool.check_integrity(tables);
        sequences.check_integrity();
        assert_eq!(
            self.free_slots.len() + sequences.running.len(),
            self.limits.sequences
        );
        for sequence in &sequences.running {
            sequence.progress.check();
            self.check_visible(sequence);
            for (table, &behind) in sequence.tables.iter().zip(&sequence.behind) {
                let freed = table.iter().take_while(|&&block| block == NO_BLOCK);
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

/// Running sequences with one token to compute, oldest first.
fn generating(sequences: &Sequences) -> Vec<u64> {
    let running = sequences.running.iter();
    let generating = running.filter(|s| s.progress.pending() == 1);
    generating.map(|s| s.seniority).collect()
}

fn entry(sequence: &mut Sequence, rows: usize) -> PlannedSequence {
    let progress = &mut sequence.progress;
    let start = progress.scheduled;
    assert!(
        start >= progress.published,
        "visible blocks are not written"
    );
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
        has_logits: sequence.request.pool.is_none(),
    }
}

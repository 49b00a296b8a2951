//! Who of the waiting may run, and with which cached prefix.
//!
//! In order of rank, while rows, slots and blocks suffice. Who is next and finds no place takes it from a tenant that runs
//! more ([`Sequences::fair_victim`]). Who would compute what somebody computes just now waits for it: of equal prompts that
//! come together, one is computed.

use ucuz_tensor::cache::BLOCK_TOKENS;

use crate::blocks::Prefix;
use crate::memory::sequence_blocks;
use crate::plan::StepPlan;
use crate::prefix::BlockHash;
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use crate::sequences::Sequences;

/// Most sequences that are passed over in one step because their prefix is being computed.
const PASSED_MAX: usize = 64;

/// Weight of one more request in the share of prompts that is found cached.
const SHARE_WEIGHT: f64 = 0.1;

/// What may be done with the next waiting sequence.
enum Verdict {
    /// Run it with this many whole blocks from the cache.
    Run(usize),
    /// Its next block is being computed.
    Pass,
    /// There is no place.
    Stop,
}

impl Scheduler {
    /// Lets waiting sequences run in a step of at most `budget` rows.
    pub(crate) fn admit(&mut self, sequences: &mut Sequences, budget: usize, plan: &mut StepPlan) {
        let mut passed = Vec::new();
        while plan.rows() < budget
            && passed.len() < PASSED_MAX
            && let Some(next) = sequences.next_waiting(self.now, &passed)
        {
            match self.judge(sequences, next, plan) {
                Verdict::Pass => passed.push(next),
                Verdict::Stop => return,
                Verdict::Run(blocks) => {
                    let entries = plan.entries.len();
                    self.start(sequences, next, blocks);
                    self.schedule(sequences, next, budget, plan);
                    if plan.entries.len() <= entries {
                        return;
                    }
                }
            }
        }
    }

    /// Whether a waiting sequence may run, after making a place for it where fairness allows.
    fn judge(&mut self, sequences: &mut Sequences, next: u64, plan: &mut StepPlan) -> Verdict {
        let Some(index) = sequences.find_waiting(next) else {
            return Verdict::Stop;
        };
        self.name(&mut sequences.waiting[index]);
        loop {
            let Some(index) = sequences.find_waiting(next) else {
                return Verdict::Stop;
            };
            let candidate = &sequences.waiting[index];
            let blocks = self.cached_blocks(candidate);
            if self.is_being_computed(sequences, candidate, blocks) {
                return Verdict::Pass;
            }
            let has_slot = !self.free_slots.is_empty();
            if has_slot
                && (sequences.running.is_empty() || self.has_room(sequences, candidate, blocks))
            {
                return Verdict::Run(blocks);
            }
            let would_help = self.could_fit(sequences, candidate, blocks);
            match sequences.fair_victim(candidate.tenant()) {
                Some(victim) if would_help => self.preempt(sequences, victim, plan),
                _ => return Verdict::Stop,
            }
        }
    }

    /// Gives a waiting sequence a slot and the first `blocks` blocks of its prefix.
    fn start(&mut self, sequences: &mut Sequences, next: u64, blocks: usize) {
        let (taken, slot) = (sequences.take_to_run(next), self.free_slots.pop());
        assert!(
            taken.is_some() && slot.is_some(),
            "both were there when judged"
        );
        let (Some(mut sequence), Some(slot)) = (taken, slot) else {
            return;
        };
        sequence.slot = Some(slot);
        self.adopt(&mut sequence, blocks);
        if sequence.admitted_at.is_none() {
            self.admitted_first(&mut sequence, blocks);
            let constraint = sequence.request.constraint.clone();
            sequence.masking = constraint.map(|constraint| self.masks.open(constraint));
        }
        sequences.run(sequence);
    }

    fn admitted_first(&mut self, sequence: &mut Sequence, blocks: usize) {
        sequence.admitted_at = Some(self.now);
        let queued = self.now.saturating_sub(sequence.submitted_at);
        sequence.usage.queue_ms = queued.as_millis() as u64;
        self.latencies.queue.observe(queued);
        let cached = blocks * BLOCK_TOKENS;
        sequence.usage.cached_tokens = cached as u32;
        if self.hasher.is_some() {
            self.totals.prefix_queries += sequence.prompt_len() as u64;
            self.totals.prefix_hits += cached as u64;
            let share = cached as f64 / sequence.prompt_len() as f64;
            self.cached_share += SHARE_WEIGHT * (share - self.cached_share);
        }
    }

    fn adopt(&mut self, sequence: &mut Sequence, blocks: usize) {
        if blocks == 0 {
            return;
        }
        let prefix = self.prefix(sequence, blocks);
        let tables = (0..self.groups.len())
            .map(|group| self.pool.adopt(group, &prefix, blocks))
            .collect();
        sequence.resume_at(blocks, tables);
    }

    /// Names all whole blocks of a sequence's tokens.
    pub(crate) fn name(&self, sequence: &mut Sequence) {
        if let Some(hasher) = &self.hasher {
            let scope = sequence.request.class.scope;
            hasher.extend(scope, &mut sequence.chain, &sequence.tokens);
        }
    }

    /// The first `blocks` whole blocks of a sequence, which are named.
    pub(crate) fn prefix<'a>(&self, sequence: &'a Sequence, blocks: usize) -> Prefix<'a> {
        let scope = sequence.request.class.scope;
        let root = self.hasher.map(|hasher| hasher.root(scope));
        Prefix {
            scope,
            root: root.unwrap_or(BlockHash(0)),
            chain: &sequence.chain[..blocks],
            tokens: &sequence.tokens,
        }
    }

    /// Whole blocks of the sequence that are cached and need not be computed.
    fn cached_blocks(&self, sequence: &Sequence) -> usize {
        let most = (sequence.reusable() / BLOCK_TOKENS).min(sequence.chain.len());
        match most {
            0 => 0,
            _ => self.pool.longest(&self.prefix(sequence, most)),
        }
    }

    /// Whether a running sequence will soon make the block after the first `blocks` visible.
    ///
    /// One of another tenant or of less priority may be in no hurry; nobody waits for those.
    fn is_being_computed(
        &self,
        sequences: &Sequences,
        candidate: &Sequence,
        blocks: usize,
    ) -> bool {
        let end = (blocks + 1) * BLOCK_TOKENS;
        let Some(wanted) = candidate.chain.get(blocks) else {
            return false;
        };
        end <= candidate.reusable()
            && sequences.running.iter().any(|s| {
                s.chain.get(blocks) == Some(wanted)
                    && s.tenant() == candidate.tenant()
                    && s.request.class.priority <= candidate.request.class.priority
                    && !s.is_name_taken
                    && s.progress.published < end
                    && end <= s.progress.known
            })
    }

    /// Whether `next` would fit if all others but the oldest and those of its own tenant gave up their blocks.
    fn could_fit(&self, sequences: &Sequences, next: &Sequence, cached: usize) -> bool {
        let victims = sequences.running.iter().skip(1);
        let victims = victims.filter(|s| s.tenant() != next.tenant());
        let mut groups = self.groups.iter().enumerate();
        groups.all(|(index, group)| {
            let holds = |s: &Sequence| s.tables[index].len() - s.behind[index];
            let held: usize = victims.clone().map(holds).sum();
            let whole = sequence_blocks(group, next.progress.known + 1, self.limits.step_rows);
            whole.saturating_sub(cached) <= self.pool.num_available(index) + held
        })
    }

    /// Whether all known tokens of `next` beyond its first `cached` blocks, one more block of everybody and what the running
    /// still lack fit together.
    ///
    /// Without the spare block for everybody, the newcomer would be thrown out again at the next block border.
    fn has_room(&self, sequences: &Sequences, next: &Sequence, cached: usize) -> bool {
        let prefix = self.prefix(next, cached);
        let groups = self.groups.iter().enumerate();
        groups.into_iter().all(|(index, group)| {
            let whole =
                |s: &Sequence| sequence_blocks(group, s.progress.known + 1, self.limits.step_rows);
            let lacks =
                |s: &Sequence| whole(s).saturating_sub(s.tables[index].len() - s.behind[index]);
            let running: usize = sequences.running.iter().map(|s| lacks(s) + 1).sum();
            let (idle, adopted) = self.pool.adoptable(index, &prefix, cached);
            let needs = whole(next).saturating_sub(adopted);
            running + needs + idle <= self.pool.num_available(index)
        })
    }
}

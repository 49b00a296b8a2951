//! What the engine tells of itself after each turn, and how it dies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::cost::StepShape;
use crate::engine::Engine;
use crate::error::FailureKind;
use crate::event::Event;
use crate::forecast::Load;
use crate::handle::{Life, Message};
use crate::sequence::Sequence;
use crate::stats::Stats;

/// Weight of one more step in the measured speed.
const SPEED_WEIGHT: f64 = 0.1;

/// A step that takes this many times what it may take has stalled.
const BOUND_FACTOR: u32 = 3;

/// What any step may take: a busy machine stops a process for such a while.
const LEAST_STEP: Duration = Duration::from_secs(1);

/// Longest that a step may take, and what it may take as long as none has been measured: pages may still come from a slow
/// disk.
pub(crate) const FIRST_BOUND: Duration = Duration::from_secs(600);

/// How much of the slowest step is remembered at the next one: half after 70.
const SLOW_MEMORY: f64 = 0.99;

impl Engine {
    /// Notes how long a step took.
    pub(crate) fn measure(&mut self, shape: StepShape, started: Duration) {
        self.scheduler.now = self.shared.clock.now();
        self.last_step = self.scheduler.now.saturating_sub(started);
        self.slow_step = self.slow_step.mul_f64(SLOW_MEMORY).max(self.last_step);
        if self.last_step > Duration::ZERO {
            self.fit.observe(shape, self.last_step.as_secs_f64());
            self.scheduler.cost = self.fit.cost();
            let speed = shape.rows as f64 / self.last_step.as_secs_f64();
            let weight = if self.rows_per_second > 0.0 {
                SPEED_WEIGHT
            } else {
                1.0
            };
            self.rows_per_second += weight * (speed - self.rows_per_second);
        }
    }

    /// Makes the numbers of this turn readable through the handle.
    pub(crate) fn publish(&mut self) {
        self.published.stats = Arc::new(self.stats());
        self.published.is_busy = !self.sequences.is_empty();
        self.published.turn_at = self.shared.clock.now();
        self.shared
            .published
            .store(Arc::new(self.published.clone()));
    }

    /// Makes a step readable before it is launched: it may take long, and before the first one the
    /// engine's last turn lies as far back as its last request.
    pub(crate) fn publish_launch(&mut self, shape: StepShape) {
        let mut stats = Stats::clone(&self.published.stats);
        stats.rows_in_flight = self.rows_in_flight() + shape.rows;
        self.published.stats = Arc::new(stats);
        self.published.step_bound = self.step_bound(shape);
        self.published.is_busy = true;
        self.published.turn_at = self.shared.clock.now();
        self.shared
            .published
            .store(Arc::new(self.published.clone()));
    }

    /// How long the loop may take for a step before it counts as stalled.
    fn step_bound(&self, shape: StepShape) -> Duration {
        if self.scheduler.cost.is_unknown() {
            return FIRST_BOUND;
        }
        let expected_s = self.scheduler.cost.seconds(shape);
        // A speed next to 0 leaves the range of a duration, and tells as little as none.
        let expected = Duration::try_from_secs_f64(expected_s).unwrap_or(FIRST_BOUND);
        let bound = BOUND_FACTOR * expected.max(self.slow_step).max(LEAST_STEP);
        bound.min(FIRST_BOUND)
    }

    fn rows_in_flight(&self) -> usize {
        self.in_flight.iter().map(|(plan, _)| plan.rows()).sum()
    }

    fn stats(&self) -> Stats {
        let (scheduler, sequences) = (&self.scheduler, &self.sequences);
        let groups = scheduler.pool.stats();
        let all = sequences.running.iter().chain(&sequences.waiting);
        let waiting = sequences.waiting.iter();
        Stats {
            kv_bytes_total: groups.iter().map(|g| g.total * g.block_bytes).sum(),
            kv_bytes_used: groups.iter().map(|g| g.used * g.block_bytes).sum(),
            groups,
            token_bytes: all.map(|s| s.tokens.len() * size_of::<u32>()).sum(),
            running: sequences.running.len(),
            waiting: sequences.waiting.len(),
            queued_tokens: waiting.map(|s| s.progress.known).sum(),
            rows_in_flight: self.rows_in_flight(),
            rows_per_second: self.rows_per_second,
            last_step_ms: self.last_step.as_secs_f64() * 1e3,
            tenants: sequences.tenants.stats(),
            load: self.load(),
            totals: scheduler.totals,
        }
    }

    fn load(&self) -> Load {
        let (scheduler, sequences) = (&self.scheduler, &self.sequences);
        let mean = scheduler.mean_completion;
        let cached_share = scheduler.cached_share;
        let generating = sequences.running.iter();
        let generating = generating.filter(|s| s.progress.pending() <= 1).count();
        let known = |s: &Sequence| s.progress.known;
        let waiting_rows: usize = sequences.waiting.iter().map(known).sum();
        let all = sequences.running.iter().chain(&sequences.waiting);
        let contexts: usize = all.clone().map(known).sum();
        let to_generate: f64 = all.map(|s| s.expected_tokens(mean)).sum();
        let tokens_each = (contexts as f64 + to_generate) / sequences.len().max(1) as f64;
        Load {
            cost: scheduler.cost,
            slots: scheduler.slots_for(tokens_each),
            running: sequences.running.len(),
            generating,
            waiting: sequences.waiting.len(),
            running_rows: sequences.running.iter().map(|s| s.progress.pending()).sum(),
            waiting_rows: (waiting_rows as f64 * (1.0 - cached_share)) as usize,
            to_generate,
            mean_generated: mean,
            mean_context: contexts as f64 / (sequences.len().max(1)) as f64,
            cached_share,
            budget: match generating {
                0 => scheduler.limits.step_rows,
                _ => scheduler.last_budget,
            },
        }
    }

    /// Tells everybody inside that it is over. The scheduler may be mid-change, so it is only emptied.
    pub(crate) fn die(&mut self, kind: FailureKind, why: &str) {
        tracing::error!(why, "the engine is dead");
        self.published.life = Life::Dead(why.to_owned());
        // First of all: whatever follows reads what may be broken.
        self.shared
            .published
            .store(Arc::new(self.published.clone()));
        let mut lost: Vec<_> = self.sequences.running.drain(..).collect();
        lost.extend(self.sequences.waiting.drain(..));
        while let Ok(message) = self.inbox.try_recv() {
            if let Message::Submit(sequence) = message {
                self.shared.door.seen(sequence.prompt_len());
                lost.push(*sequence);
            }
        }
        for sequence in lost {
            self.scheduler.totals.failed += 1;
            self.shared.door.leave(sequence.prompt_len());
            let text = format!("the engine stopped after a fault: {why}");
            self.scheduler
                .endings
                .push_back((sequence.sink, Event::Failed { kind, text }));
        }
        self.publish();
        // One receiver's panic must not keep the others from their answer.
        while catch_unwind(AssertUnwindSafe(|| self.scheduler.deliver_endings())).is_err() {}
    }
}

/// What a caught panic said.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

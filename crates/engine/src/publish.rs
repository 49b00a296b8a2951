//! What the engine tells of itself after each turn, and how it dies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cost::StepShape;
use crate::engine::Engine;
use crate::error::FailureKind;
use crate::event::Event;
use crate::handle::{Life, Message, lock};
use crate::stats::Stats;

/// Weight of one more step in the measured speed.
const SPEED_WEIGHT: f64 = 0.1;

impl Engine {
    /// Notes how long a step took.
    pub(crate) fn measure(&mut self, shape: StepShape, started: Duration) {
        self.scheduler.now = self.shared.clock.now();
        self.last_step = self.scheduler.now.saturating_sub(started);
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
    pub(crate) fn publish(&self) {
        let stats = self.stats();
        let is_busy = !self.sequences.is_empty();
        let turn_at = self.shared.clock.now();
        let mut published = lock(&self.shared.published);
        (published.stats, published.is_busy, published.turn_at) = (stats, is_busy, turn_at);
    }

    /// Makes a step readable before it is launched: it may take long, and before the first one the
    /// engine's last turn lies as far back as its last request.
    pub(crate) fn publish_launch(&self, rows: usize) {
        let rows_in_flight = self.rows_in_flight() + rows;
        let now = self.shared.clock.now();
        let mut published = lock(&self.shared.published);
        published.stats.rows_in_flight = rows_in_flight;
        (published.is_busy, published.turn_at) = (true, now);
    }

    fn rows_in_flight(&self) -> usize {
        self.in_flight.iter().map(|(plan, _)| plan.rows()).sum()
    }

    fn stats(&self) -> Stats {
        let (scheduler, sequences) = (&self.scheduler, &self.sequences);
        let groups = scheduler.pool.stats();
        let all = sequences.running.iter().chain(&sequences.waiting);
        Stats {
            kv_bytes_total: groups.iter().map(|g| g.total * g.block_bytes).sum(),
            kv_bytes_used: groups.iter().map(|g| g.used * g.block_bytes).sum(),
            groups,
            token_bytes: all.map(|s| s.tokens.len() * size_of::<u32>()).sum(),
            running: sequences.running.len(),
            waiting: sequences.waiting.len(),
            queued_tokens: sequences.waiting.iter().map(|s| s.progress.known).sum(),
            rows_in_flight: self.rows_in_flight(),
            rows_per_second: self.rows_per_second,
            last_step_ms: self.last_step.as_secs_f64() * 1e3,
            mean_completion_tokens: scheduler.mean_completion,
            totals: scheduler.totals,
        }
    }

    /// Tells everybody inside that it is over. The scheduler may be mid-change, so it is only emptied.
    pub(crate) fn die(&mut self, kind: FailureKind, why: &str) {
        tracing::error!(why, "the engine is dead");
        lock(&self.shared.published).life = Life::Dead(why.to_owned());
        let mut lost: Vec<_> = self.sequences.running.drain(..).collect();
        lost.extend(self.sequences.waiting.drain(..));
        while let Ok(message) = self.inbox.try_recv() {
            if let Message::Submit(sequence) = message {
                lost.push(*sequence);
            }
        }
        for sequence in lost {
            self.scheduler.totals.failed += 1;
            self.shared.inside.fetch_sub(1, Ordering::AcqRel);
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

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

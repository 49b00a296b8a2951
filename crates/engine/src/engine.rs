//! The loop: receive, plan, launch, wait, commit, publish. One thread owns all of it.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ucuz_tensor::backend::Ticket;
use ucuz_tensor::sampling::SamplingParams;
use ucuz_tensor::{Batch, TensorError};

use crate::clock::Clock;
use crate::error::FailureKind;
use crate::event::Event;
use crate::handle::{Handle, Life, Message, Published, Shared, lock};
use crate::plan::StepPlan;
use crate::runner::Runner;
use crate::scheduler::Scheduler;
use crate::sequences::Sequences;
use crate::stats::Stats;

/// Weight of one more step in the measured speed.
const SPEED_WEIGHT: f64 = 0.1;

/// Choices beside the runner's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Requests taken in beyond `Limits::sequences`; more are refused with a time to retry.
    pub max_waiting: usize,
    /// Steps in flight: 1 where the runner computes on the engine's own thread.
    pub depth: usize,
}

/// What one turn of the loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Something was computed or is in flight.
    Worked,
    /// There is nothing to do until a message comes.
    Idle,
    /// Drained.
    Ended,
}

/// Owns sequences, blocks and runner.
pub struct Engine {
    runner: Box<dyn Runner>,
    scheduler: Scheduler,
    sequences: Sequences,
    inbox: Receiver<Message>,
    shared: Arc<Shared>,
    in_flight: VecDeque<(StepPlan, Ticket)>,
    depth: usize,
    batch: Batch,
    greedy: SamplingParams,
    rows_per_second: f64,
    last_step: Duration,
    is_draining: bool,
}

impl Engine {
    /// Starts the engine on its own thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        runner: Box<dyn Runner>,
        config: EngineConfig,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Handle> {
        let (engine, handle) = Self::new(runner, config, clock);
        let thread = std::thread::Builder::new().name("ucuz-engine".to_owned());
        *lock(&handle.shared.thread) = Some(thread.spawn(move || engine.run())?);
        Ok(handle)
    }

    /// An engine that the caller turns, and its handle.
    pub fn new(
        runner: Box<dyn Runner>,
        config: EngineConfig,
        clock: Arc<dyn Clock>,
    ) -> (Self, Handle) {
        let (limits, cache) = (*runner.limits(), runner.cache().clone());
        let scheduler = Scheduler::new(limits, cache.groups.clone(), runner.blocks());
        let published = Published {
            stats: Stats::default(),
            life: Life::Serving,
            turn_at: clock.now(),
            is_busy: false,
        };
        let shared = Arc::new(Shared {
            clock,
            limits,
            cache,
            blocks: runner.blocks().to_vec(),
            places: limits.sequences + config.max_waiting,
            inside: Arc::clone(&scheduler.inside),
            is_draining: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            published: Mutex::new(published),
            thread: Mutex::new(None),
        });
        let (sender, inbox) = channel();
        let engine = Self {
            runner,
            scheduler,
            sequences: Sequences::default(),
            inbox,
            shared: Arc::clone(&shared),
            in_flight: VecDeque::new(),
            depth: config.depth.max(1),
            batch: Batch::default(),
            greedy: SamplingParams::greedy(),
            rows_per_second: 0.0,
            last_step: Duration::ZERO,
            is_draining: false,
        };
        engine.publish();
        (engine, Handle { shared, inbox: sender })
    }

    /// Turns until drained or dead; sleeps while there is nothing to do.
    pub fn run(mut self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.turn_until_ended()));
        match outcome {
            Ok(Ok(())) => lock(&self.shared.published).life = Life::Stopped,
            Ok(Err(error)) => self.die(FailureKind::Device, &error.to_string()),
            Err(panic) => self.die(FailureKind::Engine, &panic_text(panic.as_ref())),
        }
    }

    fn turn_until_ended(&mut self) -> Result<(), TensorError> {
        loop {
            match self.turn()? {
                Turn::Worked => {}
                Turn::Ended => return Ok(()),
                Turn::Idle => match self.inbox.recv() {
                    Ok(message) => self.take(message),
                    Err(_) => self.is_draining = true,
                },
            }
        }
    }

    /// One turn: messages, closed receivers, one step, the published numbers.
    ///
    /// # Errors
    /// `TensorError::Device`: the runner is lost.
    pub fn turn(&mut self) -> Result<Turn, TensorError> {
        self.scheduler.now = self.shared.clock.now();
        while let Ok(message) = self.inbox.try_recv() {
            self.take(message);
        }
        self.scheduler.drop_closed(&mut self.sequences);
        self.step()?;
        self.publish();
        let is_idle = self.sequences.is_empty() && self.in_flight.is_empty();
        Ok(match (is_idle, self.is_draining) {
            (false, _) => Turn::Worked,
            (true, false) => Turn::Idle,
            (true, true) => Turn::Ended,
        })
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Submit(sequence) => self.scheduler.accept(&mut self.sequences, *sequence),
            Message::Close(id, reason) => self.scheduler.close(&mut self.sequences, id, reason),
            Message::Drain => self.is_draining = true,
            Message::Shutdown => {
                self.is_draining = true;
                self.scheduler.cancel_all(&mut self.sequences);
            }
        }
    }

    fn step(&mut self) -> Result<(), TensorError> {
        let started = self.shared.clock.now();
        if let Some(plan) = self.scheduler.plan(&mut self.sequences) {
            plan.fill(&mut self.batch, &self.sequences, self.scheduler.groups.len());
            let rows = plan.sample_rows(&self.sequences, &self.greedy);
            match self.runner.launch(&self.batch, &rows) {
                Ok(ticket) => self.in_flight.push_back((plan, ticket)),
                Err(error) => {
                    while self.retire(started)? {}
                    return self.fail(&plan, error);
                }
            }
            if self.in_flight.len() < self.depth {
                return Ok(());
            }
        }
        let has_retired = self.retire(started)?;
        let is_stuck = !has_retired && !self.sequences.is_empty();
        assert!(!is_stuck, "with nothing in flight, somebody can always run");
        Ok(())
    }

    /// Waits for the oldest step in flight and takes its results.
    fn retire(&mut self, started: Duration) -> Result<bool, TensorError> {
        let Some((plan, ticket)) = self.in_flight.pop_front() else {
            return Ok(false);
        };
        match self.runner.wait(ticket) {
            Ok(sampled) => {
                self.measure(plan.rows(), started);
                self.scheduler.commit(&mut self.sequences, &plan, sampled);
            }
            Err(error) => self.fail(&plan, error)?,
        }
        Ok(true)
    }

    fn fail(&mut self, plan: &StepPlan, error: TensorError) -> Result<(), TensorError> {
        tracing::warn!(step = plan.step, %error, "step failed");
        if matches!(error, TensorError::Device { .. }) {
            return Err(error);
        }
        self.scheduler.fail_step(&mut self.sequences, plan, &error.to_string());
        Ok(())
    }

    fn measure(&mut self, rows: usize, started: Duration) {
        self.scheduler.now = self.shared.clock.now();
        self.last_step = self.scheduler.now.saturating_sub(started);
        if self.last_step > Duration::ZERO {
            let speed = rows as f64 / self.last_step.as_secs_f64();
            let weight = if self.rows_per_second > 0.0 { SPEED_WEIGHT } else { 1.0 };
            self.rows_per_second += weight * (speed - self.rows_per_second);
        }
    }

    fn publish(&self) {
        let stats = self.stats();
        let is_busy = !self.sequences.is_empty();
        let turn_at = self.shared.clock.now();
        let mut published = lock(&self.shared.published);
        (published.stats, published.is_busy, published.turn_at) = (stats, is_busy, turn_at);
    }

    fn stats(&self) -> Stats {
        let (scheduler, sequences) = (&self.scheduler, &self.sequences);
        let groups = scheduler.pool.stats(scheduler.groups.iter().map(|g| g.block_bytes()));
        let all = sequences.running.iter().chain(&sequences.waiting);
        Stats {
            kv_bytes_total: groups.iter().map(|g| g.total * g.block_bytes).sum(),
            kv_bytes_used: groups.iter().map(|g| g.used * g.block_bytes).sum(),
            groups,
            token_bytes: all.map(|s| s.tokens.len() * size_of::<u32>()).sum(),
            running: sequences.running.len(),
            waiting: sequences.waiting.len(),
            queued_tokens: sequences.waiting.iter().map(|s| s.progress.known).sum(),
            rows_per_second: self.rows_per_second,
            last_step_ms: self.last_step.as_secs_f64() * 1e3,
            mean_completion_tokens: scheduler.mean_completion,
            totals: scheduler.totals,
        }
    }

    /// Tells everybody inside that it is over. The scheduler may be mid-change, so it is only emptied.
    fn die(&mut self, kind: FailureKind, why: &str) {
        tracing::error!(why, "the engine is dead");
        lock(&self.shared.published).life = Life::Dead(why.to_owned());
        let mut lost: Vec<_> = self.sequences.running.drain(..).collect();
        lost.extend(self.sequences.waiting.drain(..));
        while let Ok(message) = self.inbox.try_recv() {
            if let Message::Submit(sequence) = message {
                lost.push(*sequence);
            }
        }
        for mut sequence in lost {
            self.scheduler.totals.failed += 1;
            self.shared.inside.fetch_sub(1, Ordering::AcqRel);
            let text = format!("the engine stopped after a fault: {why}");
            let send = || sequence.sink.send(Event::Failed { kind, text });
            // One receiver's panic must not keep the others from their answer.
            let _ = catch_unwind(AssertUnwindSafe(send));
        }
        self.publish();
    }

    /// Checks blocks, tables and slots against each other.
    ///
    /// # Panics
    /// When they disagree.
    pub fn check_integrity(&self) {
        self.scheduler.check_integrity(&self.sequences);
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

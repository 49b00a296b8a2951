//! The loop: receive, plan, launch, wait, commit, publish. One thread owns all of it.
//!
//! In `start.rs`: how it begins. In `publish.rs`: what it tells of itself, and how it dies. In `watch.rs`: what it shows to
//! who looks.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use ucuz_tensor::backend::Ticket;
use ucuz_tensor::sampling::SamplingParams;
use ucuz_tensor::{Batch, TensorError};

use crate::cache_event::CacheListener;
use crate::cost::CostFit;
use crate::error::FailureKind;
use crate::handle::{Life, Message, Published, Shared};
use crate::plan::StepPlan;
use crate::publish::panic_text;
use crate::runner::Runner;
use crate::scheduler::Scheduler;
use crate::sequences::Sequences;
use crate::watch::Recorder;

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
    pub(crate) runner: Box<dyn Runner>,
    pub(crate) scheduler: Scheduler,
    pub(crate) sequences: Sequences,
    pub(crate) inbox: Receiver<Message>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) in_flight: VecDeque<(StepPlan, Ticket)>,
    pub(crate) depth: usize,
    pub(crate) batch: Batch,
    pub(crate) greedy: SamplingParams,
    pub(crate) fit: CostFit,
    pub(crate) rows_per_second: f64,
    pub(crate) last_step: Duration,
    /// The slowest step, less and less remembered.
    pub(crate) slow_step: Duration,
    pub(crate) published: Published,
    pub(crate) listener: Option<Box<dyn CacheListener>>,
    /// What watchers see; `None` when nobody looks.
    pub(crate) recorder: Option<Recorder>,
    /// Dropped when the engine has warmed up; `None` when it does not.
    pub(crate) warming_up: Option<Sender<Infallible>>,
    pub(crate) is_draining: bool,
}

impl Engine {
    /// Turns until drained or dead; sleeps while there is nothing to do.
    pub fn run(mut self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.turn_until_ended()));
        match outcome {
            Ok(Ok(())) => {
                self.published.life = Life::Stopped;
                self.publish();
            }
            Ok(Err(error)) => self.die(FailureKind::Device, &error.to_string()),
            Err(panic) => self.die(FailureKind::Engine, &panic_text(panic.as_ref())),
        }
    }

    fn turn_until_ended(&mut self) -> Result<(), TensorError> {
        if let Some(warming_up) = self.warming_up.take() {
            self.warm_up()?;
            self.publish();
            drop(warming_up);
        }
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
        self.scheduler.end_decided(&mut self.sequences);
        self.step()?;
        self.publish();
        self.publish_view();
        self.scheduler.deliver_endings();
        self.tell_cache_events();
        let is_idle = self.sequences.is_empty() && self.in_flight.is_empty();
        Ok(match (is_idle, self.is_draining) {
            (false, _) => Turn::Worked,
            (true, false) => Turn::Idle,
            (true, true) => Turn::Ended,
        })
    }

    fn tell_cache_events(&mut self) {
        let events = self.scheduler.pool.take_events();
        if let Some(listener) = &mut self.listener
            && !events.is_empty()
        {
            listener.changed(events);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Submit(sequence) => {
                self.shared.door.seen(sequence.prompt_len());
                self.scheduler.accept(&mut self.sequences, *sequence);
            }
            Message::Close(id, reason) => self.scheduler.close(&mut self.sequences, id, reason),
            Message::Look => {
                self.looked_at();
            }
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
            plan.fill(
                &mut self.batch,
                &self.sequences,
                self.scheduler.groups.len(),
            );
            self.publish_launch(plan.shape());
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
                self.measure(plan.shape(), started);
                self.scheduler.latencies.step.observe(self.last_step);
                let seen = self.step_view(&plan);
                self.scheduler.commit(&mut self.sequences, &plan, sampled);
                self.keep_step(seen);
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
        self.scheduler
            .fail_step(&mut self.sequences, plan, &error.to_string());
        Ok(())
    }

    /// Cuts the names of cached blocks to `bits`, so that different blocks come to share them.
    #[cfg(test)]
    pub(crate) fn weaken_names(&mut self, bits: u32) {
        let hasher = &mut self.scheduler.hasher;
        *hasher = hasher.map(|hasher| hasher.weak(bits));
    }

    /// Checks blocks, tables and slots against each other.
    ///
    /// # Panics
    /// When they disagree.
    pub fn check_integrity(&self) {
        self.scheduler.check_integrity(&self.sequences);
    }
}

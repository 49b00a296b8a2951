//! The policies on the real engine.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use ucuz_llm::{
    Clock, Closed, Event, EventSink, GenerateRequest, Generation, Input, Llm, SamplingOptions,
    Usage,
};

use super::dispatch::{Dispatcher, Order};
use super::outcome::{Outcome, Policy, Request, Served};
use super::workload::Workload;
use crate::bench::ids::ids;

/// What the engine's thread tells of one request.
enum What {
    Token,
    Done(Usage),
    Failed(String),
}

struct Note {
    request: usize,
    at: Duration,
    what: What,
}

/// Stamps events on the engine's own thread, so that a busy machine does not delay the stamp.
struct Stamp {
    request: usize,
    clock: Arc<dyn Clock>,
    notes: Sender<Note>,
}

impl EventSink for Stamp {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        let what = match event {
            Event::Token(_) => What::Token,
            Event::Done { usage, .. } => What::Done(usage),
            Event::Failed { text, .. } => What::Failed(text),
            Event::PromptScored(_) | Event::Pooled(_) => return Ok(()),
        };
        let (request, at) = (self.request, self.clock.now());
        self.notes
            .send(Note { request, at, what })
            .map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// An engine to run policies on. Nobody else may use it meanwhile.
pub struct Live<'a> {
    llm: &'a Llm,
    clock: Arc<dyn Clock>,
    workload: &'a Workload,
    slots: usize,
    /// Requests handed over so far: each gets a prompt that no other has.
    prompts: u64,
}

/// One run under way.
struct Running<'a> {
    dispatcher: Dispatcher<'a>,
    requests: &'a [Request],
    started: Duration,
    lives: Vec<Life>,
    /// Kept to the end: one that is dropped closes its request.
    generations: Vec<Generation>,
}

/// Times since the start of the run.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    produced: u32,
    submitted_s: f64,
    queued_s: f64,
    first_token_s: f64,
    last_token_s: f64,
    /// When the engine was through with it.
    ended_s: f64,
    /// Which batch it was handed over with.
    batch: usize,
}

impl<'a> Live<'a> {
    /// An engine for `workload`; `clock` stamps the events.
    pub fn new(llm: &'a Llm, clock: Arc<dyn Clock>, workload: &'a Workload, slots: usize) -> Self {
        Self {
            llm,
            clock,
            workload,
            slots,
            prompts: 0,
        }
    }

    /// Serves `requests` under `policy`, in real time.
    ///
    /// # Errors
    /// A request that the engine refuses or fails.
    pub fn run(&mut self, policy: Policy, requests: &[Request]) -> Result<Outcome> {
        let (sender, notes) = channel();
        let steps = self.llm.stats().totals.steps;
        let mut running = Running {
            dispatcher: Dispatcher::new(policy, requests, self.slots),
            requests,
            started: self.clock.now(),
            lives: vec![Life::default(); requests.len()],
            generations: Vec::with_capacity(requests.len()),
        };
        let mut batch = 0;
        while !running.dispatcher.is_done() {
            let now = self.since(&running);
            for order in running.dispatcher.due(now) {
                running.lives[order.request].batch = batch;
                self.submit(&mut running, order, &sender)?;
            }
            batch += 1;
            self.listen(&mut running, &notes)?;
        }
        let steps = self.llm.stats().totals.steps - steps;
        Ok(running.outcome(policy, self.slots, steps))
    }

    fn since(&self, running: &Running<'_>) -> f64 {
        (self.clock.now() - running.started).as_secs_f64()
    }

    fn submit(
        &mut self,
        running: &mut Running<'_>,
        order: Order,
        notes: &Sender<Note>,
    ) -> Result<()> {
        let vocab = self.llm.info().vocab;
        let prompt = ids(self.prompts, self.workload.prompt_tokens, vocab);
        self.prompts += 1;
        let request = GenerateRequest {
            max_tokens: Some(order.max_tokens),
            ignore_eos: true,
            sampling: SamplingOptions {
                temperature: Some(0.0),
                ..SamplingOptions::default()
            },
            ..GenerateRequest::new(Input::Tokens(prompt))
        };
        let prepared = self.llm.prepare(&request, 0, SystemTime::UNIX_EPOCH)?;
        let stamp = Stamp {
            request: order.request,
            clock: Arc::clone(&self.clock),
            notes: notes.clone(),
        };
        running.lives[order.request].submitted_s = self.since(running);
        let generation = self.llm.start(&prepared, 0, Box::new(stamp))?;
        running.generations.push(generation);
        Ok(())
    }

    /// Waits for an event or for the next arrival, then takes all events that are there.
    fn listen(&self, running: &mut Running<'_>, notes: &Receiver<Note>) -> Result<()> {
        let gone = "the engine ended before its requests did";
        let first = match running.dispatcher.next_arrival() {
            None => Some(notes.recv().context(gone)?),
            Some(arrival) => {
                let wait = Duration::from_secs_f64((arrival - self.since(running)).max(0.0));
                match notes.recv_timeout(wait) {
                    Ok(note) => Some(note),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => bail!(gone),
                }
            }
        };
        first
            .into_iter()
            .chain(notes.try_iter())
            .try_for_each(|note| running.take(note))
    }
}

impl Running<'_> {
    fn take(&mut self, note: Note) -> Result<()> {
        let at = (note.at - self.started).as_secs_f64();
        let life = &mut self.lives[note.request];
        match note.what {
            What::Token => {
                life.produced += 1;
                if life.produced == 1 {
                    life.first_token_s = at;
                }
                if life.produced == self.requests[note.request].tokens {
                    life.last_token_s = at;
                }
            }
            What::Done(usage) => {
                life.ended_s = at;
                life.queued_s = f64::from(usage.queue_ms as u32) / 1e3;
                self.dispatcher.ended();
            }
            What::Failed(text) => bail!("request {} failed: {text}", note.request),
        }
        Ok(())
    }

    /// What became of everybody; slots are given as they became free.
    fn outcome(&self, policy: Policy, slots: usize, steps: u64) -> Outcome {
        let mut free_s = vec![0.0_f64; slots];
        let served = self.lives.iter().zip(self.requests).map(|(life, request)| {
            let released_s = match policy {
                Policy::Continuous => life.last_token_s,
                _ => self.batch_end(life.batch),
            };
            let order = |a: &usize, b: &usize| free_s[*a].total_cmp(&free_s[*b]);
            let slot = (0..slots).min_by(order).unwrap_or(0);
            // The engine tells how long it queued in whole milliseconds.
            let admitted = (life.submitted_s + life.queued_s).max(free_s[slot]);
            free_s[slot] = released_s;
            Served {
                arrival_s: request.arrival,
                started_s: admitted.min(life.first_token_s),
                first_token_s: life.first_token_s,
                last_token_s: life.last_token_s,
                released_s,
                slot,
                tokens: request.tokens,
            }
        });
        Outcome {
            served: served.collect(),
            steps,
        }
    }

    fn batch_end(&self, batch: usize) -> f64 {
        let members = self.lives.iter().filter(|life| life.batch == batch);
        members.map(|life| life.ended_s).fold(0.0, f64::max)
    }
}

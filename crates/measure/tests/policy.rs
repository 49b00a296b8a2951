//! The engine's scheduler against the simulation: on a runner whose clock moves by the step's cost both must give the same times.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use ucuz_engine::sim::{ManualClock, SimOptions, SimRunner};
use ucuz_engine::{
    Clock, Closed, Engine, EngineConfig, Event, EventSink, Handle, Request, RequestClass, Turn,
};
use ucuz_measure::bench::policy::{
    Arrivals, Dispatcher, Grid, Heard, LENGTHS, Order, Outcome, Policy, Request as Asked, StepCost,
    Study, Workload, simulate,
};
use ucuz_tensor::sampling::SamplingParams;

const SLOTS: usize = 8;
const PROMPT: usize = 5;

/// Request, time, whether it was the last event.
type Note = (usize, f64, bool);

struct Sink {
    request: usize,
    clock: ManualClock,
    notes: Sender<Note>,
}

impl EventSink for Sink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        let is_end = !matches!(event, Event::Token(_));
        let note = (self.request, self.clock.now().as_secs_f64(), is_end);
        self.notes.send(note).map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// An engine turned by hand, whose steps take `seconds(rows)`.
fn engine(seconds: Pace) -> (Engine, Handle, ManualClock) {
    let clock = ManualClock::default();
    let mut options = SimOptions::new(512, SLOTS, 512, SLOTS * 16);
    let pace = clock.clone();
    options.pace = Some(Box::new(move |rows| {
        pace.advance(Duration::from_secs_f64(seconds(rows)));
    }));
    let (runner, _) = SimRunner::new(options);
    let config = EngineConfig::plain(1024);
    let (engine, handle) = Engine::new(Box::new(runner), config, Arc::new(clock.clone()));
    (engine, handle, clock)
}

fn request(order: Order) -> Request {
    let id = |i: usize| ((order.request * 31 + i * 7) % 97) as u32;
    Request {
        prompt: (0..PROMPT).map(id).collect(),
        params: SamplingParams::greedy(),
        sample: 0,
        max_tokens: order.max_tokens,
        min_tokens: 0,
        stop_ids: Vec::new(),
        logprobs: None,
        prompt_logprobs: None,
        pool: None,
        constraint: None,
        class: RequestClass::default(),
    }
}

/// Times of all tokens of each request.
fn run(policy: Policy, requests: &[Asked], seconds: Pace) -> Vec<Vec<f64>> {
    let (mut engine, handle, clock) = engine(seconds);
    let mut dispatcher = Dispatcher::new(policy, requests, SLOTS);
    let (sender, notes) = channel();
    let mut tokens = vec![Vec::new(); requests.len()];
    while !dispatcher.is_done() {
        // The clock counts nanoseconds: an arrival may lie less than one behind it.
        let now = clock.now().as_secs_f64() + 1e-9;
        for order in dispatcher.due(now) {
            let sink = Sink {
                request: order.request,
                clock: clock.clone(),
                notes: sender.clone(),
            };
            handle.submit(request(order), Box::new(sink)).unwrap();
        }
        let turn = engine.turn().unwrap();
        engine.check_integrity();
        for (request, at, is_end) in notes.try_iter() {
            match is_end {
                true => dispatcher.ended(),
                false => tokens[request].push(at),
            }
        }
        if let (Turn::Idle, Some(next)) = (turn, dispatcher.next_arrival()) {
            let wait = next - clock.now().as_secs_f64();
            clock.advance(Duration::from_secs_f64(wait.max(0.0)));
        }
    }
    tokens
}

/// Asserts that both differ by less than a hundredth.
fn close(found: f64, expected: f64, what: &str) {
    let ratio = found / expected;
    assert!(
        (ratio - 1.0).abs() < 0.01,
        "{what}: {found} against {expected}"
    );
}

fn compare(tokens: &[Vec<f64>], requests: &[Asked], outcome: &Outcome, what: &str) {
    let mean = |time: &dyn Fn(usize) -> f64| {
        let waits = (0..requests.len()).map(|i| time(i) - requests[i].arrival);
        waits.sum::<f64>() / requests.len() as f64
    };
    let first = mean(&|i| tokens[i][0]);
    let last = mean(&|i| tokens[i][requests[i].tokens as usize - 1]);
    let all = tokens.iter().flatten().copied();
    let end = all.clone().fold(0.0, f64::max);
    close(end, outcome.makespan_s(), &format!("{what}, makespan"));
    close(
        first,
        outcome.latency_s(Heard::FirstToken),
        &format!("{what}, first token"),
    );
    close(
        last,
        outcome.latency_s(Heard::LastToken),
        &format!("{what}, last token"),
    );
    let steps: BTreeSet<u64> = all.map(|at| (at * 1e6).round() as u64).collect();
    assert_eq!(
        steps.len() as u64,
        outcome.steps,
        "{what}: every step gives a token"
    );
}

/// Seconds of a step by its rows.
type Pace = fn(usize) -> f64;

fn constant(_: usize) -> f64 {
    1.0
}

/// As on a machine that pays for reading the weights and for every row.
fn by_rows(rows: usize) -> f64 {
    0.3 + 0.1 * rows as f64
}

#[test]
fn the_engine_serves_as_simulated() {
    let grid = Grid::of(Grid::axis(SLOTS), |decoding, starting| {
        Ok::<_, ()>(by_rows(decoding + starting * PROMPT))
    });
    let costs: [(Pace, StepCost); 2] = [
        (constant, StepCost::Constant(1.0)),
        (by_rows, StepCost::Measured(grid.unwrap())),
    ];
    let workload = Workload::new(LENGTHS.to_vec(), PROMPT).unwrap();
    for (seconds, cost) in costs {
        let study = Study::new(&workload, SLOTS, cost);
        let poisson = [0.5, 0.7, 0.9].map(|load| Arrivals::Poisson { load });
        for arrivals in std::iter::once(Arrivals::AllAtOnce).chain(poisson) {
            let requests = study.requests(arrivals, 1);
            for policy in Policy::ALL {
                let outcome = simulate(policy, &requests, SLOTS, &study.cost);
                let tokens = run(policy, &requests, seconds);
                let what = format!("{}, {}", arrivals.name(), policy.name());
                compare(&tokens, &requests, &outcome, &what);
            }
        }
    }
}

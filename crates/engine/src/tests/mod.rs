//! The engine on the simulated runner, turned by hand: no thread, no time, every interleaving repeatable.

mod constraint;
mod ends;
mod exact;
mod fair;
mod faults;
mod machine;
mod prefix;
mod threads;
mod watch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ucuz_tensor::TensorError;
use ucuz_tensor::sampling::SamplingParams;

use crate::sim::{ManualClock, SimControl, SimOptions, SimRunner};
use crate::*;

/// Whether the long form of random tests is asked for: `scripts/accept.sh 3`.
pub(crate) fn is_long() -> bool {
    std::env::var_os("UCUZ_ACCEPT").is_some()
}

/// What a request's receiver saw, and whether it still listens.
#[derive(Clone, Default)]
struct Receiver {
    events: Arc<Mutex<Vec<Event>>>,
    is_gone: Arc<AtomicBool>,
}

struct Sink(Receiver);

impl EventSink for Sink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        if self.is_closed() {
            return Err(Closed);
        }
        self.0.events.lock().unwrap().push(event);
        Ok(())
    }

    fn is_closed(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }
}

impl Receiver {
    fn sink(&self) -> Box<dyn EventSink> {
        Box::new(Sink(self.clone()))
    }

    fn hang_up(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    fn tokens(&self) -> Vec<u32> {
        let token = |event: &Event| match event {
            Event::Token(token) => Some(token.id),
            _ => None,
        };
        self.events().iter().filter_map(token).collect()
    }

    fn done(&self) -> Option<(FinishReason, Usage)> {
        match self.events().last() {
            Some(Event::Done { reason, usage }) => Some((*reason, *usage)),
            _ => None,
        }
    }

    fn failure(&self) -> Option<FailureKind> {
        match self.events().last() {
            Some(Event::Failed { kind, .. }) => Some(*kind),
            _ => None,
        }
    }

    fn num_ends(&self) -> usize {
        let is_end = |event: &&Event| matches!(event, Event::Done { .. } | Event::Failed { .. });
        self.events().iter().filter(is_end).count()
    }
}

fn config(max_waiting: usize, depth: usize) -> EngineConfig {
    EngineConfig {
        depth,
        prefix_key: Some([5; 16]),
        ..EngineConfig::plain(max_waiting)
    }
}

/// An engine turned by hand, its integrity checked after each turn.
struct Bench {
    engine: Engine,
    handle: Handle,
    control: SimControl,
    clock: ManualClock,
}

impl Bench {
    fn new(options: SimOptions, max_waiting: usize, depth: usize) -> Self {
        Self::with(options, config(max_waiting, depth))
    }

    fn with(mut options: SimOptions, config: EngineConfig) -> Self {
        let clock = ManualClock::default();
        let pace = clock.clone();
        options.pace = Some(Box::new(move |rows| {
            pace.advance(Duration::from_millis(rows as u64))
        }));
        let (runner, control) = SimRunner::new(options);
        let (engine, handle) = Engine::new(Box::new(runner), config, Arc::new(clock.clone()));
        Self {
            engine,
            handle,
            control,
            clock,
        }
    }

    fn submit(&self, request: Request) -> (RequestId, Receiver) {
        let receiver = Receiver::default();
        let id = self.handle.submit(request, receiver.sink()).unwrap();
        (id, receiver)
    }

    fn turn(&mut self) -> Result<Turn, TensorError> {
        let turn = self.engine.turn();
        self.engine.check_integrity();
        let stats = self.handle.stats();
        assert!(
            stats.groups.iter().all(|g| g.free + g.used == g.total),
            "{stats:?}"
        );
        turn
    }

    fn turns(&mut self, n: usize) {
        for _ in 0..n {
            self.turn().unwrap();
        }
    }

    /// Turns until there is nothing to do; asserts that everything came back.
    fn run(&mut self) {
        let mut turns = 0;
        while self.turn().unwrap() == Turn::Worked {
            turns += 1;
            assert!(turns < 100_000, "the engine makes progress");
        }
        self.assert_empty();
    }

    fn assert_empty(&self) {
        let stats = self.handle.stats();
        assert_eq!(
            (stats.running, stats.waiting, stats.queued_tokens),
            (0, 0, 0)
        );
        assert_eq!((stats.kv_bytes_used, stats.token_bytes), (0, 0));
        assert!(stats.groups.iter().all(|g| g.free == g.total));
        assert_eq!(stats.totals.ended(), stats.totals.requests);
    }
}

fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| (seed.wrapping_mul(7919) ^ i.wrapping_mul(104_729)) % 97)
        .collect()
}

fn request(seed: u32, len: usize, max_tokens: u32) -> Request {
    Request {
        prompt: prompt(seed, len),
        params: SamplingParams::greedy(),
        sample: 0,
        max_tokens,
        min_tokens: 0,
        stop_ids: Vec::new(),
        constraint: None,
        logprobs: None,
        prompt_logprobs: None,
        pool: None,
        class: RequestClass::default(),
    }
}

/// A request with everything on.
fn busy_request(seed: u32, len: usize, max_tokens: u32) -> Request {
    Request {
        params: SamplingParams {
            temperature: 0.9,
            top_k: 50,
            top_p: 0.95,
            min_p: 0.001,
            repetition_penalty: 1.1,
            presence_penalty: 0.3,
            frequency_penalty: 0.2,
            logit_bias: vec![(3, 1.0), (5, -2.0)],
            seed: u64::from(seed),
        },
        sample: seed % 3,
        logprobs: Some(3),
        prompt_logprobs: Some(2),
        ..request(seed, len, max_tokens)
    }
}

/// The events of a request run alone, in a large pool, in large chunks, but for the last one's times.
fn solo(request: &Request, windows: &[Option<usize>]) -> Vec<Event> {
    let mut options = SimOptions::new(4096, 1, 8192, 512);
    options.windows = windows.to_vec();
    options.blocks = vec![512; windows.len()];
    let mut bench = Bench::new(options, 0, 1);
    let (_, receiver) = bench.submit(request.clone());
    bench.run();
    results(&receiver)
}

/// All events but the last one.
fn results(receiver: &Receiver) -> Vec<Event> {
    let mut events = receiver.events();
    assert!(
        matches!(events.pop(), Some(Event::Done { .. })),
        "it ended well"
    );
    events
}

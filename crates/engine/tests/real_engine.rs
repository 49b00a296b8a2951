//! Whole requests on real mathematics: every tiny checkpoint on every tier, and SmolLM2 where it is at hand.
//!
//! The same tokens alone, among seven others, in chunks, preempted and resumed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use ucuz_cpu::{CpuBackend, CpuOptions, Tier, detect};
use ucuz_engine::{
    Closed, Engine, EngineConfig, Event, EventSink, Handle, Request, RequestClass, SystemClock,
};
use ucuz_formats::Checkpoint;
use ucuz_models::registry::LoadOptions;
use ucuz_models::{ModelRunner, RunnerOptions, cache_spec};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::sampling::SamplingParams;
use ucuz_tensor::{KvDtype, WeightOptions};

const CONTEXT: usize = 160;
const SEQUENCES: usize = 8;
const TOKENS: u32 = 48;

/// A model to run, and how.
#[derive(Clone)]
struct World {
    path: PathBuf,
    tier: Tier,
    threads: usize,
    step_rows: usize,
    /// Key of the names of cached prefixes.
    prefix_key: Option<[u8; 16]>,
    /// Blocks of each cache group that sees everything; window groups beside it get what all sequences need.
    blocks: usize,
}

struct Sink(mpsc::SyncSender<Event>);

impl EventSink for Sink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        self.0.try_send(event).map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

impl World {
    fn engine(&self) -> Handle {
        let checkpoint = Checkpoint::open(&self.path).unwrap();
        let (tier, threads) = (Some(self.tier), Some(self.threads));
        let backend = CpuBackend::new(CpuOptions {
            tier,
            threads,
            pin: false,
            spin: false,
        })
        .unwrap();
        let cache = cache_spec(&checkpoint.config, KvDtype::Bf16);
        let all = CONTEXT.div_ceil(BLOCK_TOKENS) * SEQUENCES;
        let every_layer_slides = cache.groups.iter().all(|group| group.window.is_some());
        let blocks_of = |slides: bool| {
            if slides && !every_layer_slides {
                all
            } else {
                self.blocks
            }
        };
        let blocks = cache
            .groups
            .iter()
            .map(|group| blocks_of(group.window.is_some()))
            .collect();
        let load = LoadOptions {
            backend: &backend,
            cache,
            context: CONTEXT,
            weights: WeightOptions::default(),
            progress: Box::new(|_| {}),
        };
        let model = ucuz_models::load(&checkpoint, load).unwrap();
        let limits = Limits {
            step_rows: self.step_rows,
            sequences: SEQUENCES,
            logit_rows: 8,
            context: CONTEXT,
            cols_max: model.spec().cols_max(),
            vocab: model.spec().config.vocab,
        };
        let runner = ModelRunner::new(&backend, model, RunnerOptions { limits, blocks }).unwrap();
        let config = EngineConfig {
            prefix_key: self.prefix_key,
            ..EngineConfig::plain(64)
        };
        Engine::spawn(Box::new(runner), config, Arc::new(SystemClock::start())).unwrap()
    }

    /// Tokens of each request, one after the other.
    fn alone(&self) -> Vec<Vec<u32>> {
        let handle = self.engine();
        (0..SEQUENCES as u32)
            .map(|k| finish(&start(&handle, k)).0)
            .collect()
    }

    /// Tokens of each request when all were answered before, all at once; every prompt of a whole block is found.
    fn warm(&self) -> Vec<Vec<u32>> {
        let handle = self.engine();
        for k in 0..SEQUENCES as u32 {
            finish(&start(&handle, k));
        }
        let before = handle.stats().totals.prefix_hits;
        let started: Vec<_> = (0..SEQUENCES as u32).map(|k| start(&handle, k)).collect();
        let tokens = started.iter().map(|events| finish(events).0).collect();
        assert!(
            handle.stats().totals.prefix_hits > before,
            "nothing was found"
        );
        tokens
    }

    /// Tokens of each request, all at once, and how often any was preempted.
    fn together(&self) -> (Vec<Vec<u32>>, u32) {
        let handle = self.engine();
        let started: Vec<_> = (0..SEQUENCES as u32).map(|k| start(&handle, k)).collect();
        let ended: Vec<_> = started.iter().map(finish).collect();
        let stats = handle.stats();
        assert!(
            stats
                .groups
                .iter()
                .all(|g| g.used == 0 && g.free == g.total),
            "{stats:?}"
        );
        let preemptions = ended.iter().map(|(_, preemptions)| preemptions).sum();
        (
            ended.into_iter().map(|(tokens, _)| tokens).collect(),
            preemptions,
        )
    }
}

/// Request `k`: prompts of different lengths, greedy and sampled in turns.
fn start(handle: &Handle, k: u32) -> mpsc::Receiver<Event> {
    let vocab = handle.limits().vocab as u32;
    let params = SamplingParams {
        temperature: if k.is_multiple_of(2) { 0.0 } else { 0.9 },
        seed: u64::from(k),
        ..SamplingParams::greedy()
    };
    let request = Request {
        prompt: (0..8 + 11 * k)
            .map(|i| (i * 37 + k * 101) % (vocab - 10) + 5)
            .collect(),
        params,
        sample: 0,
        max_tokens: TOKENS,
        min_tokens: 0,
        stop_ids: Vec::new(),
        logprobs: None,
        prompt_logprobs: None,
        pool: None,
        constraint: None,
        class: RequestClass::default(),
    };
    let (sender, receiver) = mpsc::sync_channel(TOKENS as usize + 2);
    handle.submit(request, Box::new(Sink(sender))).unwrap();
    receiver
}

/// All tokens, and how often the request was preempted.
fn finish(events: &mpsc::Receiver<Event>) -> (Vec<u32>, u32) {
    let mut tokens = Vec::new();
    loop {
        match events.recv().unwrap() {
            Event::Token(token) => tokens.push(token.id),
            Event::Done { usage, .. } => return (tokens, usage.preemptions),
            other => panic!("{other:?}"),
        }
    }
}

fn check(name: &str, world: &World) {
    let expected = world.alone();
    assert!(
        expected
            .iter()
            .all(|tokens| tokens.len() == TOKENS as usize),
        "{name}"
    );
    assert_eq!(
        world.together(),
        (expected.clone(), 0),
        "{name}: among seven others"
    );
    let uncached = World {
        prefix_key: None,
        ..world.clone()
    };
    assert_eq!(
        uncached.together(),
        (expected.clone(), 0),
        "{name}: no prefix shared"
    );
    assert_eq!(world.warm(), expected, "{name}: with cached prefixes");
    for step_rows in [1, 16, 61] {
        let chunked = World {
            step_rows,
            ..world.clone()
        };
        assert_eq!(
            chunked.together().0,
            expected,
            "{name}: at most {step_rows} tokens a step"
        );
    }
    // Eight requests want up to five blocks each, fewer where every layer slides.
    let mut preempted = 0;
    for blocks in [11, 6] {
        let (tokens, preemptions) = World {
            blocks,
            ..world.clone()
        }
        .together();
        assert_eq!(
            tokens, expected,
            "{name}: {blocks} blocks, {preemptions} preemptions"
        );
        preempted += preemptions;
    }
    // Where every layer slides, a running request never grows, so nothing has to make room.
    let config = Checkpoint::open(&world.path).unwrap().config;
    let grows = config.sliding.is_empty() || config.sliding.contains(&false);
    assert!(preempted > 0 || !grows, "{name}: nothing was preempted");
}

fn world(path: PathBuf, tier: Tier, threads: usize) -> World {
    let blocks = CONTEXT.div_ceil(BLOCK_TOKENS) * SEQUENCES;
    World {
        path,
        tier,
        threads,
        step_rows: 256,
        prefix_key: Some([11; 16]),
        blocks,
    }
}

#[test]
fn tokens_do_not_depend_on_company_chunks_or_preemption() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut checked = 0;
    for tier in detect::CpuFeatures::detect().tiers() {
        for entry in std::fs::read_dir(golden.join("tiny")).unwrap() {
            let path = entry.unwrap().path();
            check(
                &format!("{tier} {}", path.display()),
                &world(path.clone(), tier, 1),
            );
            checked += 1;
        }
    }
    assert!(checked >= 12, "only {checked} checkpoints");
}

#[test]
fn smollm2_tokens_do_not_depend_on_company_chunks_or_preemption() {
    let Some(folder) = std::env::var_os("UCUZ_TEST_MODELS") else {
        eprintln!(
            "skipped: UCUZ_TEST_MODELS does not name the folder that scripts/models.sh fills"
        );
        return;
    };
    let path = PathBuf::from(folder).join("SmolLM2-135M-Instruct.Q4_1.gguf");
    let tier = detect::CpuFeatures::detect().best_tier();
    check("smollm2", &world(path, tier, 2));
}

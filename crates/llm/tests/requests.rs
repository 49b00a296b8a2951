//! Whole requests through the facade, on tiny real checkpoints: the same tokens alone, among others, chunked, preempted,
//! restarted; what is counted and where an answer ends; distance between models.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::SystemTime;

use ucuz_cpu::{CpuBackend, CpuOptions};
use ucuz_formats::Checkpoint;
use ucuz_llm::FinishReason;
use ucuz_llm::score::lockstep;
use ucuz_llm::{
    Closed, Event, EventSink, Finished, GenerateRequest, Generation, Input, Llm, LlmOptions,
    Output, Prepared, SamplingOptions, Scheduling,
};
use ucuz_models::registry::LoadOptions;
use ucuz_models::{ModelRunner, RunnerOptions};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::reference::ReferenceBackend;
use ucuz_tensor::{Backend, KvDtype, WeightOptions};

const MODELS: [&str; 3] = ["llama-gqa-q8_0", "qwen3-f32", "llama-gqa-mixed"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tiny-gguf")
        .join(name)
        .join("model.gguf")
}

fn backend() -> Arc<dyn Backend> {
    Arc::new(
        CpuBackend::new(CpuOptions {
            tier: None,
            threads: Some(1),
            pin: false,
            spin: false,
        })
        .unwrap(),
    )
}

fn options(name: &str) -> LlmOptions {
    LlmOptions {
        name: name.to_owned(),
        kv_dtype: KvDtype::Bf16,
        weights: WeightOptions::default(),
        context: Some(160),
        max_sequences: 8,
        step_rows: 256,
        kv_memory_bytes: None,
        available_memory_bytes: 1 << 30,
        max_waiting: 64,
        scheduling: Scheduling::default(),
    }
}

fn load(name: &str, change: impl Fn(&mut LlmOptions)) -> Llm {
    let mut options = options(name);
    change(&mut options);
    let checkpoint = Checkpoint::open(&path(name)).unwrap();
    Llm::load(&checkpoint, backend(), options, &mut |_| {}).unwrap()
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

/// Requests that differ in length and sampling; the last samples with penalties.
fn requests() -> Vec<GenerateRequest> {
    (0..8u32)
        .map(|k| {
            let ids = (0..10 + 7 * k)
                .map(|i| 40 + (i * 13 + k * 29) % 200)
                .collect();
            GenerateRequest {
                sampling: SamplingOptions {
                    temperature: Some(if k % 2 == 0 { 0.0 } else { 0.9 }),
                    top_k: Some(if k == 3 { 12 } else { 0 }),
                    top_p: Some(if k == 5 { 0.9 } else { 1.0 }),
                    frequency_penalty: Some(if k == 7 { 0.5 } else { 0.0 }),
                    seed: Some(u64::from(k) + 5),
                    ..SamplingOptions::default()
                },
                max_tokens: Some(60),
                ignore_eos: true,
                ..GenerateRequest::new(Input::Tokens(ids))
            }
        })
        .collect()
}

fn start(llm: &Llm, request: &GenerateRequest) -> (Generation, mpsc::Receiver<Event>) {
    let prepared: Prepared = llm.prepare(request, 1, SystemTime::UNIX_EPOCH).unwrap();
    let (sender, receiver) = mpsc::sync_channel(prepared.max_tokens as usize + 4);
    (
        llm.start(&prepared, 0, Box::new(Sink(sender))).unwrap(),
        receiver,
    )
}

fn finish((mut generation, events): (Generation, mpsc::Receiver<Event>)) -> (Vec<u32>, Finished) {
    let mut tokens = Vec::new();
    for event in events {
        match generation.push(event) {
            Output::Delta(delta) => tokens.extend(delta.tokens),
            Output::Finished(delta, finished) => {
                tokens.extend(delta.tokens);
                return (tokens, finished);
            }
            Output::Failed { text, .. } => panic!("{text}"),
            Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
        }
    }
    panic!("no end");
}

fn alone(llm: &Llm) -> Vec<Vec<u32>> {
    requests()
        .iter()
        .map(|request| finish(start(llm, request)).0)
        .collect()
}

/// All requests at once; tokens and how often any was preempted.
fn together(llm: &Llm) -> (Vec<Vec<u32>>, u32) {
    let started: Vec<_> = requests()
        .iter()
        .map(|request| start(llm, request))
        .collect();
    let ended: Vec<_> = started.into_iter().map(finish).collect();
    let preemptions = ended
        .iter()
        .map(|(_, finished)| finished.usage.preemptions)
        .sum();
    (
        ended.into_iter().map(|(tokens, _)| tokens).collect(),
        preemptions,
    )
}

/// Precisions of the cache that are served.
const CACHES: [KvDtype; 2] = [KvDtype::Bf16, KvDtype::Int8];

/// Runs `check(what, loader)` for every model and precision of the cache.
fn for_all(check: impl Fn(&str, &dyn Fn(&dyn Fn(&mut LlmOptions)) -> Llm)) {
    for name in MODELS {
        for dtype in CACHES {
            let what = format!("{name}, {} keys and values", dtype.name());
            check(&what, &|change| {
                load(name, |options| {
                    options.kv_dtype = dtype;
                    change(options);
                })
            });
        }
    }
}

#[test]
fn alone_equals_among_seven_others() {
    for_all(|what, load| {
        let llm = load(&|_| {});
        let expected = alone(&llm);
        assert!(expected.iter().all(|tokens| tokens.len() == 60), "{what}");
        assert_eq!(together(&llm), (expected, 0), "{what}");
    });
}

#[test]
fn whole_prompt_equals_chunks() {
    for_all(|what, load| {
        let expected = alone(&load(&|_| {}));
        for step_rows in [1, 16, 61] {
            let llm = load(&|options| options.step_rows = step_rows);
            assert_eq!(
                alone(&llm),
                expected,
                "{what}: at most {step_rows} tokens a step"
            );
            assert_eq!(
                together(&llm).0,
                expected,
                "{what}: at most {step_rows} tokens a step, together"
            );
        }
    });
}

#[test]
fn undisturbed_equals_preempted_and_resumed() {
    for_all(|what, load| {
        let roomy = load(&|_| {});
        let expected = alone(&roomy);
        // Room for about ten blocks of 32 tokens; the eight requests want up to four each.
        let bytes = roomy.info().kv_bytes_per_token as u64 * 32 * 10;
        let tight = load(&|options| options.kv_memory_bytes = Some(bytes));
        let (tokens, preemptions) = together(&tight);
        assert!(preemptions > 0, "{what}: nothing was preempted");
        assert_eq!(tokens, expected, "{what}");
        let stats = tight.stats();
        assert!(
            stats.groups.iter().all(|group| group.total <= 10),
            "{what}: {stats:?}"
        );
    });
}

#[test]
fn restart_equals_restart() {
    for_all(|what, load| {
        assert_eq!(alone(&load(&|_| {})), alone(&load(&|_| {})), "{what}");
    });
}

#[test]
fn int8_keys_and_values_are_told_counted_and_fingerprinted() {
    let name = "llama-gqa-q8_0";
    let bf16 = load(name, |_| {});
    let int8 = load(name, |options| options.kv_dtype = KvDtype::Int8);
    let (bf16, int8) = (bf16.info(), int8.info());
    assert_eq!(
        (bf16.kv_dtype, int8.kv_dtype),
        (KvDtype::Bf16, KvDtype::Int8)
    );
    let checkpoint = Checkpoint::open(&path(name)).unwrap();
    let config = &checkpoint.config;
    let heads = 2 * config.layers * config.kv_heads;
    assert_eq!(bf16.kv_bytes_per_token, heads * config.head_dim * 2);
    assert_eq!(int8.kv_bytes_per_token, heads * (config.head_dim + 4));
    assert_eq!(int8.kv_pool_bytes % (32 * int8.kv_bytes_per_token), 0);
    assert_ne!(bf16.fingerprint, int8.fingerprint);
}

/// Text of a greedy answer, and how it ended.
fn answer(llm: &Llm, request: &GenerateRequest) -> (String, Finished) {
    let (mut generation, events) = start(llm, request);
    // The engine runs to its end before anybody listens, as it may ahead of a busy task.
    let ended = llm.stats().totals.ended();
    while llm.stats().totals.ended() == ended && llm.stats().running + llm.stats().waiting > 0 {
        std::thread::yield_now();
    }
    let mut text = String::new();
    for event in events {
        match generation.push(event) {
            Output::Delta(delta) => text.push_str(&delta.text),
            Output::Finished(delta, finished) => {
                text.push_str(&delta.text);
                return (text, finished);
            }
            other => assert_eq!(other, Output::Nothing),
        }
    }
    panic!("no end");
}

fn greedy(max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        sampling: SamplingOptions {
            temperature: Some(0.0),
            ..SamplingOptions::default()
        },
        max_tokens: Some(max_tokens),
        ignore_eos: true,
        ..GenerateRequest::new(Input::Tokens(vec![70, 71, 72]))
    }
}

#[test]
fn tokens_after_a_stop_string_are_not_counted_however_late_the_engine_hears_of_it() {
    let llm = load("llama-gqa-f32", |_| {});
    let (whole, finished) = answer(&llm, &greedy(12));
    assert_eq!(
        (finished.reason, finished.usage.completion_tokens),
        (FinishReason::Length, 12)
    );
    let first: String = whole.chars().take(1).collect();
    let stopped = GenerateRequest {
        stop: vec![first],
        ..greedy(12)
    };
    let (text, finished) = answer(&llm, &stopped);
    assert_eq!((text.as_str(), finished.reason), ("", FinishReason::Stop));
    assert!(finished.usage.completion_tokens < 12, "{finished:?}");
    for _ in 0..10 {
        assert_eq!(
            answer(&llm, &stopped).1.usage.completion_tokens,
            finished.usage.completion_tokens
        );
    }
}

#[test]
fn stop_strings_wait_for_min_tokens() {
    let llm = load("llama-gqa-f32", |_| {});
    let (whole, _) = answer(&llm, &greedy(12));
    let first: String = whole.chars().take(1).collect();
    let patient = GenerateRequest {
        stop: vec![first],
        min_tokens: 12,
        ..greedy(12)
    };
    let (text, finished) = answer(&llm, &patient);
    assert_eq!((text, finished.reason), (whole, FinishReason::Length));
}

#[test]
fn the_context_is_what_the_pool_can_hold() {
    let per_token = load("llama-gqa-f32", |_| {}).info().kv_bytes_per_token as u64;
    let small = |options: &mut LlmOptions| {
        options.context = None;
        options.kv_memory_bytes = Some(per_token * 32 * 2);
    };
    let llm = load("llama-gqa-f32", small);
    assert_eq!(llm.info().context, 64);
    let silent = GenerateRequest {
        max_tokens: None,
        ..greedy(1)
    };
    assert_eq!(answer(&llm, &silent).1.usage.completion_tokens, 61);
    let checkpoint = Checkpoint::open(&path("llama-gqa-f32")).unwrap();
    let mut options = options("asked");
    options.kv_memory_bytes = Some(per_token * 32 * 2);
    let error = Llm::load(&checkpoint, backend(), options, &mut |_| {})
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("holds 64 tokens") && error.contains("--kv-memory"),
        "{error}"
    );
}

#[test]
fn lockstep_finds_no_distance_between_equals_and_little_from_the_reference() {
    let checkpoint = Checkpoint::open(&path("llama-gqa-mixed")).unwrap();
    let runner = |backend: &dyn Backend, dtype| {
        let cache = ucuz_models::cache_spec(&checkpoint.config, dtype);
        let load = LoadOptions {
            backend,
            cache,
            context: 128,
            weights: WeightOptions::default(),
            progress: Box::new(|_| {}),
        };
        let model = ucuz_models::load(&checkpoint, load).unwrap();
        let limits = Limits {
            step_rows: 32,
            sequences: 1,
            logit_rows: 8,
            context: 128,
            cols_max: model.spec().cols_max(),
            vocab: model.spec().config.vocab,
        };
        ModelRunner::new(
            backend,
            model,
            RunnerOptions {
                limits,
                blocks: vec![4],
            },
        )
        .unwrap()
    };
    let ids: Vec<u32> = (0..100).map(|i| 40 + (i * 17) % 200).collect();
    let cpu = backend();
    let (mut a, mut b) = (
        runner(cpu.as_ref(), KvDtype::Bf16),
        runner(cpu.as_ref(), KvDtype::Bf16),
    );
    let same = lockstep(&mut a, &mut b, &ids, 32)
        .unwrap()
        .summary()
        .unwrap();
    assert_eq!(
        (same.positions, same.kl_max, same.agreement.value),
        (100, 0.0, 1.0)
    );
    let mut oracle = runner(&ReferenceBackend::new(1), KvDtype::F32);
    let far = lockstep(&mut oracle, &mut a, &ids, 16)
        .unwrap()
        .summary()
        .unwrap();
    println!("{far:?}");
    // bf16 keys, values and softmax weights round at 2^-9; two layers of that stay far below a hundredth of a nat.
    assert!(far.kl_mean > 0.0 && far.kl_mean < 1e-2, "{far:?}");
    let mut int8 = runner(cpu.as_ref(), KvDtype::Int8);
    let far = lockstep(&mut oracle, &mut int8, &ids, 16)
        .unwrap()
        .summary()
        .unwrap();
    println!("{far:?}");
    // Codes of int8 are off by at most 1/254 of the largest number of their head, which is as coarse.
    assert!(far.kl_mean > 0.0 && far.kl_mean < 1e-2, "{far:?}");
}

//! The same tokens alone, among others, chunked, preempted, restarted: through the whole engine, on tiny real checkpoints.
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
use ucuz_llm::{
    Closed, Event, EventSink, Finished, GenerateRequest, Generation, Input, Llm, LlmOptions,
    Output, Prepared, SamplingOptions,
};
use ucuz_tensor::{Activations, KvDtype};

const MODELS: [&str; 3] = ["llama-gqa-q8_0", "qwen3-f32", "llama-gqa-mixed"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/tiny-gguf")
        .join(name)
        .join("model.gguf")
}

fn load(name: &str, change: impl Fn(&mut LlmOptions)) -> Llm {
    let options = CpuOptions {
        tier: None,
        threads: Some(1),
        pin: false,
        spin: false,
    };
    let backend = Arc::new(CpuBackend::new(options).unwrap());
    let mut options = LlmOptions {
        name: name.to_owned(),
        kv_dtype: KvDtype::Bf16,
        activations: Activations::default(),
        context: Some(160),
        max_sequences: 8,
        step_rows: 256,
        kv_memory_bytes: None,
        available_memory_bytes: 1 << 30,
        max_waiting: 64,
    };
    change(&mut options);
    Llm::load(
        &Checkpoint::open(&path(name)).unwrap(),
        backend,
        options,
        &mut |_| {},
    )
    .unwrap()
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
            Output::Nothing | Output::Prompt(_) => {}
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

#[test]
fn alone_equals_among_seven_others() {
    for name in MODELS {
        let llm = load(name, |_| {});
        let expected = alone(&llm);
        assert!(expected.iter().all(|tokens| tokens.len() == 60), "{name}");
        assert_eq!(together(&llm), (expected, 0), "{name}");
    }
}

#[test]
fn whole_prompt_equals_chunks() {
    for name in MODELS {
        let expected = alone(&load(name, |_| {}));
        for step_rows in [1, 16, 61] {
            let llm = load(name, |options| options.step_rows = step_rows);
            assert_eq!(
                alone(&llm),
                expected,
                "{name}: at most {step_rows} tokens a step"
            );
            assert_eq!(
                together(&llm).0,
                expected,
                "{name}: at most {step_rows} tokens a step, together"
            );
        }
    }
}

#[test]
fn undisturbed_equals_preempted_and_resumed() {
    for name in MODELS {
        let roomy = load(name, |_| {});
        let expected = alone(&roomy);
        // Room for about ten blocks of 32 tokens; the eight requests want up to four each.
        let bytes = roomy.info().kv_bytes_per_token as u64 * 32 * 10;
        let tight = load(name, |options| options.kv_memory_bytes = Some(bytes));
        let (tokens, preemptions) = together(&tight);
        assert!(preemptions > 0, "{name}: nothing was preempted");
        assert_eq!(tokens, expected, "{name}");
        let stats = tight.stats();
        assert!(
            stats.groups.iter().all(|group| group.total <= 10),
            "{name}: {stats:?}"
        );
    }
}

#[test]
fn restart_equals_restart() {
    for name in MODELS {
        assert_eq!(
            alone(&load(name, |_| {})),
            alone(&load(name, |_| {})),
            "{name}"
        );
    }
}

//! What golden and exactness tests share: sequences on a runner, golden files, log-probabilities.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use ucuz_cpu::{Tier, detect, emulator};
use ucuz_formats::Checkpoint;
use ucuz_models::registry::LoadOptions;
use ucuz_models::{ModelRunner, RunnerOptions, cache_spec};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::reference::ReferenceBackend;
use ucuz_tensor::{Activations, Backend, Batch, KvDtype, OnLoad, SeqSlot, WeightOptions};

/// `tests/golden` of the project.
pub fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(path)
}

/// A JSON file.
pub fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Token ids of a JSON array.
pub fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

/// Every tiny checkpoint: folders of safetensors, and GGUF files.
pub fn tiny_checkpoints() -> Vec<(String, PathBuf, Value)> {
    let mut all = Vec::new();
    for (folder, file) in [("tiny", ""), ("tiny-gguf", "model.gguf")] {
        let mut names: Vec<_> = fs::read_dir(golden(folder))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        for name in names {
            let name = name.to_string_lossy().into_owned();
            let base = golden(folder).join(&name);
            let values = json(&base.join("values.json"));
            let path = if file.is_empty() {
                base
            } else {
                base.join(file)
            };
            all.push((format!("{folder}/{name}"), path, values));
        }
    }
    assert!(all.len() >= 16, "only {} tiny checkpoints", all.len());
    all
}

/// The plain backend.
pub fn reference(threads: usize) -> Arc<dyn Backend> {
    Arc::new(ReferenceBackend::new(threads))
}

/// One CPU tier; unpinned, without spinning, tiles emulated where there are none.
pub fn cpu(tier: Tier, threads: usize) -> Arc<dyn Backend> {
    Arc::new(emulator::backend(tier, threads).expect("a tier of this machine, or emulated"))
}

/// The tiers that this processor has; says which it lacks.
pub fn tiers() -> Vec<Tier> {
    let features = detect::CpuFeatures::detect();
    for tier in Tier::ALL {
        if let Some(why) = features.missing(tier) {
            eprintln!("skipped: tier {tier}: {why}");
        }
    }
    features.tiers()
}

/// What can be chosen of the arithmetic: the default, the faster one, and the fastest.
pub const PAIR: WeightOptions = WeightOptions {
    activations: Activations::Int8Pair,
    on_load: OnLoad::AsStored,
};
pub const INT8: WeightOptions = WeightOptions {
    activations: Activations::Int8,
    on_load: OnLoad::AsStored,
};
pub const W8A8: WeightOptions = WeightOptions {
    activations: Activations::Int8,
    on_load: OnLoad::W8A8,
};

/// Sizes of a test runner.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub step_rows: usize,
    pub sequences: usize,
    pub context: usize,
    pub weights: WeightOptions,
}

/// A runner with room for `sequences` sequences of `context` tokens; sequence `s` owns its own blocks.
pub struct Bench {
    pub runner: ModelRunner,
    sizes: Sizes,
}

impl Bench {
    pub fn open(path: &Path, backend: &Arc<dyn Backend>, dtype: KvDtype, sizes: Sizes) -> Self {
        let checkpoint =
            Checkpoint::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self::load(&checkpoint, backend, dtype, sizes)
    }

    pub fn load(
        checkpoint: &Checkpoint,
        backend: &Arc<dyn Backend>,
        dtype: KvDtype,
        sizes: Sizes,
    ) -> Self {
        let cache = cache_spec(&checkpoint.config, dtype);
        let groups = cache.groups.len();
        let load = LoadOptions {
            backend: backend.as_ref(),
            cache,
            context: sizes.context,
            weights: sizes.weights,
            progress: Box::new(|_| {}),
        };
        let model = ucuz_models::load(checkpoint, load).unwrap();
        let limits = Limits {
            step_rows: sizes.step_rows,
            sequences: sizes.sequences,
            logit_rows: 16,
            context: sizes.context,
            cols_max: model.spec().cols_max(),
            vocab: model.spec().config.vocab,
        };
        let blocks = vec![sizes.context.div_ceil(BLOCK_TOKENS) * sizes.sequences; groups];
        let runner =
            ModelRunner::new(backend.as_ref(), model, RunnerOptions { limits, blocks }).unwrap();
        Self { runner, sizes }
    }

    /// Blocks of a sequence, scattered over the pool so that neighbours in time are not neighbours in memory.
    fn blocks(&self, sequence: usize, tokens: usize) -> Vec<u32> {
        let n = self.sizes.sequences;
        (0..tokens.div_ceil(BLOCK_TOKENS))
            .rev()
            .map(|i| (i * n + sequence) as u32)
            .rev()
            .collect()
    }

    /// Runs `(sequence, all its ids, start)` together: tokens `start..` of each; logits of every new row, per sequence.
    pub fn feed(&mut self, parts: &[(usize, &[u32], usize)]) -> Vec<Vec<Vec<f32>>> {
        let mut rows = self.feed_wanted(parts, |_| true).into_iter();
        parts
            .iter()
            .map(|(_, ids, start)| rows.by_ref().take(ids.len() - start).collect())
            .collect()
    }

    /// As [`Bench::feed`], but only the logits of the step's rows that are `wanted`, in order.
    pub fn feed_wanted(
        &mut self,
        parts: &[(usize, &[u32], usize)],
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<Vec<f32>> {
        let mut batch = Batch {
            seq_starts: vec![0],
            ..Batch::default()
        };
        let mut table = GroupTables {
            blocks: Vec::new(),
            starts: vec![0],
        };
        for (sequence, ids, start) in parts {
            batch.tokens.extend_from_slice(&ids[*start..]);
            batch.positions.extend(*start as u32..ids.len() as u32);
            batch.seq_starts.push(batch.tokens.len() as u32);
            batch.kv_lens.push(ids.len() as u32);
            batch.slots.push(SeqSlot(*sequence as u32));
            table.blocks.extend(self.blocks(*sequence, ids.len()));
            table.starts.push(table.blocks.len() as u32);
        }
        batch.groups = vec![table; self.runner.cache().groups.len()];
        batch.logit_rows = (0..batch.tokens.len() as u32)
            .filter(|row| wanted(*row))
            .collect();
        let mut rows = Vec::new();
        self.runner
            .logits(&batch, &mut |logits| rows.push(logits.to_vec()))
            .unwrap();
        rows
    }

    /// Logits of every token of one sequence, in chunks.
    pub fn logits(&mut self, sequence: usize, ids: &[u32], chunk: usize) -> Vec<Vec<f32>> {
        let mut all = Vec::new();
        for start in (0..ids.len()).step_by(chunk) {
            let end = (start + chunk).min(ids.len());
            all.extend(self.feed(&[(sequence, &ids[..end], start)]).remove(0));
        }
        all
    }
}

/// Natural log-probabilities of a row of logits.
pub fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let max = f64::from(logits.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x)));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - max).exp()).sum();
    logits
        .iter()
        .map(|x| f64::from(*x) - max - sum.ln())
        .collect()
}

/// The first id with the largest logit.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Distances from golden values.
#[derive(Debug, Default, Clone, Copy)]
pub struct Distance {
    pub max: f64,
    pub sum: f64,
    pub count: usize,
}

impl Distance {
    pub fn push(&mut self, got: f64, expected: f64) {
        let distance = (got - expected).abs();
        assert!(distance.is_finite(), "got {got}, expected {expected}");
        self.max = self.max.max(distance);
        self.sum += distance;
        self.count += 1;
    }

    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }
}

/// What one golden prompt comes to.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outcome {
    pub logprobs: Distance,
    pub top20: Distance,
    /// Greedy tokens equal before the first that differs.
    pub greedy_equal: usize,
    /// Margin in nats where greedy decoding first left the golden path.
    pub left_at_margin: Option<f64>,
}

/// Runs one golden entry: `ids`, `logprobs`, `last_top20`, greedy tokens with margins.
pub fn compare(bench: &mut Bench, golden: &Value) -> Outcome {
    let mut ids = ids(&golden["ids"]);
    let step_rows = bench.sizes.step_rows;
    let rows = bench.logits(0, &ids, step_rows);
    let mut outcome = Outcome::default();
    for (i, expected) in golden["logprobs"].as_array().unwrap().iter().enumerate() {
        let got = log_softmax(&rows[i])[ids[i + 1] as usize];
        outcome.logprobs.push(got, expected.as_f64().unwrap());
    }
    let last = log_softmax(rows.last().unwrap());
    for pair in golden["last_top20"].as_array().unwrap() {
        let id = pair[0].as_u64().unwrap() as usize;
        outcome.top20.push(last[id], pair[1].as_f64().unwrap());
    }
    let tokens = golden
        .get("greedy_ids")
        .or_else(|| golden.get("greedy"))
        .expect("greedy tokens");
    let margins = golden["greedy_margin"].as_array().unwrap();
    let mut row = rows.last().unwrap().clone();
    for (expected, margin) in self::ids(tokens).into_iter().zip(margins) {
        let token = argmax(&row);
        if token != expected {
            outcome.left_at_margin = margin.as_f64();
            break;
        }
        outcome.greedy_equal += 1;
        ids.push(token);
        row = bench.feed(&[(0, &ids, ids.len() - 1)]).remove(0).remove(0);
    }
    outcome
}

//! The three real models against golden values, as a table: reference queue and CPU tiers.
//!
//! Needs the models (`scripts/models.sh`) in the folder that `UCUZ_TEST_MODELS` names; says so and passes without them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{
    Bench, Distance, INT8, PAIR, Sizes, W8A8, compare, cpu, golden, ids, json, reference, tiers,
};
use serde_json::Value;
use ucuz_formats::Checkpoint;
use ucuz_report::{Divergence, TokenDivergence};
use ucuz_tensor::{Backend, KvDtype};

const SIZES: Sizes = Sizes {
    step_rows: 256,
    sequences: 1,
    context: 1280,
    weights: PAIR,
};
const NAMES: [&str; 3] = ["smollm2", "gemma3-270m", "qwen2.5-coder-0.5b"];

fn models() -> Option<PathBuf> {
    let folder = std::env::var_os("UCUZ_TEST_MODELS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!(
            "skipped: UCUZ_TEST_MODELS does not name the folder that scripts/models.sh fills"
        );
    }
    folder
}

/// Every prompt of a model's golden files: short ones, chats, the long one.
fn prompts(name: &str) -> (String, Vec<Value>) {
    let short = json(&golden(&format!("real/{name}.json")));
    let long = json(&golden(&format!("real/{name}.long.json")));
    let file = short["model_file"].as_str().unwrap().to_owned();
    let all = [&short["prompts"], &short["chat"], &long["prompts"]];
    (
        file,
        all.iter()
            .flat_map(|list| list.as_array().cloned().unwrap_or_default())
            .collect(),
    )
}

struct Row {
    logprobs: Distance,
    greedy: (usize, usize),
    left: Vec<f64>,
}

fn run(bench: &mut Bench, prompts: &[Value]) -> Row {
    let mut row = Row {
        logprobs: Distance::default(),
        greedy: (0, 0),
        left: Vec::new(),
    };
    for prompt in prompts {
        let outcome = compare(bench, prompt);
        for part in [outcome.logprobs, outcome.top20] {
            row.logprobs.max = row.logprobs.max.max(part.max);
            row.logprobs.sum += part.sum;
            row.logprobs.count += part.count;
        }
        row.greedy.0 += outcome.greedy_equal;
        row.greedy.1 += prompt["greedy_margin"].as_array().unwrap().len();
        row.left.extend(outcome.left_at_margin);
    }
    row
}

fn print(name: &str, backend: &str, row: &Row, divergence: &str) {
    let left: Vec<String> = row
        .left
        .iter()
        .map(|margin| format!("{margin:.4}"))
        .collect();
    println!(
        "| {name} | {backend} | {:.2e} | {:.2e} | {}/{} | {} | {divergence} |",
        row.logprobs.mean(),
        row.logprobs.max,
        row.greedy.0,
        row.greedy.1,
        if left.is_empty() {
            "-".to_owned()
        } else {
            left.join(" ")
        }
    );
}

/// KL divergence of `other` from the reference over the model's long prompt.
fn divergence(reference_rows: &[Vec<f32>], other: &mut Bench, ids: &[u32]) -> String {
    let rows = other.logits(0, ids, 256);
    let mut all = Divergence::default();
    for (i, (p, q)) in reference_rows.iter().zip(&rows).enumerate() {
        all.push(TokenDivergence::new(p, q, ids.get(i + 1).copied()));
    }
    let s = all.summary().unwrap();
    assert!(
        s.kl_mean < 0.05,
        "mean KL divergence {} is more than int8 activations explain",
        s.kl_mean
    );
    format!(
        "{:.2e} / {:.2e} | {:.1} % | {:.3} / {:.3}",
        s.kl_mean,
        s.kl_max,
        s.agreement.value * 100.0,
        s.perplexity_reference,
        s.perplexity_other
    )
}

#[test]
fn real_models_meet_the_golden_values() {
    let Some(folder) = models() else { return };
    println!(
        "| model | backend | mean nat | max nat | greedy equal | left at margin | KL mean / max | agreement | perplexity ref / this |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for name in NAMES {
        let (file, prompts) = prompts(name);
        let checkpoint = Checkpoint::open(&folder.join(file)).unwrap();
        let long = ids(&prompts.last().unwrap()["ids"]);
        let mut oracle = Bench::load(&checkpoint, &reference(2), KvDtype::F32, SIZES);
        let row = run(&mut oracle, &prompts);
        print(name, "reference", &row, "- | - | -");
        assert!(
            row.logprobs.max < 1e-3,
            "{name}: a log-probability is off by {} nat",
            row.logprobs.max
        );
        assert!(
            row.left.iter().all(|margin| *margin < 2e-3),
            "{name}: left the greedy path at {:?}",
            row.left
        );
        let oracle_rows = oracle.logits(0, &long, 256);
        drop(oracle);
        let mut first: Option<Vec<Vec<f32>>> = None;
        for tier in tiers().into_iter().rev() {
            let backend: Arc<dyn Backend> = cpu(tier, 2);
            let mut bench = Bench::load(&checkpoint, &backend, KvDtype::Bf16, SIZES);
            // One arithmetic for all tiers: the slower ones are held to the fastest one's bits on a shorter text.
            let head = &long[..long.len().min(96)];
            let rows = bench.logits(0, head, 48);
            match &first {
                Some(expected) => {
                    assert!(*expected == rows, "{name}: tier {tier} differs");
                    println!(
                        "| {name} | {tier} | equal to the tier above, bit for bit, on {} positions | | | | | | |",
                        head.len()
                    );
                }
                None => {
                    let row = run(&mut bench, &prompts);
                    print(
                        name,
                        tier.name(),
                        &row,
                        &divergence(&oracle_rows, &mut bench, &long),
                    );
                    if name == "smollm2" {
                        // What one code an activation costs; the README quotes it.
                        let sizes = Sizes {
                            weights: INT8,
                            ..SIZES
                        };
                        let mut int8 = Bench::load(&checkpoint, &backend, KvDtype::Bf16, sizes);
                        let row = run(&mut int8, &prompts);
                        let far = divergence(&oracle_rows, &mut int8, &long);
                        print(name, &format!("{tier} int8"), &row, &far);
                    }
                    // The fastest: weights rounded once more, one scale a row and a token.
                    let sizes = Sizes {
                        weights: W8A8,
                        ..SIZES
                    };
                    let mut w8a8 = Bench::load(&checkpoint, &backend, KvDtype::Bf16, sizes);
                    let far = divergence(&oracle_rows, &mut w8a8, &long);
                    println!("| {name} | {tier} w8a8 | | | | | {far} |");
                    first = Some(rows);
                }
            }
        }
    }
}

#[test]
fn smollm2_keeps_the_exactness_contract() {
    let Some(folder) = models() else { return };
    let (file, prompts) = prompts("smollm2");
    let checkpoint = Checkpoint::open(&folder.join(file)).unwrap();
    let long = ids(&prompts.last().unwrap()["ids"]);
    let text = &long[..200];
    let sizes = Sizes {
        step_rows: 512,
        sequences: 8,
        context: 320,
        weights: PAIR,
    };
    let best = tiers().pop().unwrap();
    let mut bench = Bench::load(&checkpoint, &cpu(best, 2), KvDtype::Bf16, sizes);
    let whole = bench.logits(0, text, 200);
    for chunk in [1, 16, 61] {
        assert!(bench.logits(1, text, chunk) == whole, "chunks of {chunk}");
    }
    let others: Vec<Vec<u32>> = (1..8)
        .map(|k| long[k * 50..k * 50 + 20 + k].to_vec())
        .collect();
    let mut parts: Vec<(usize, &[u32], usize)> = vec![(0, text, 0)];
    parts.extend(
        others
            .iter()
            .enumerate()
            .map(|(k, ids)| (k + 1, ids.as_slice(), 0)),
    );
    assert!(
        bench.feed(&parts).remove(0) == whole,
        "in a batch of 7 others"
    );
    let mut single = Bench::load(&checkpoint, &cpu(best, 1), KvDtype::Bf16, sizes);
    assert!(single.logits(0, text, 200) == whole, "1 thread = 2 threads");
    let mut again = Bench::load(&checkpoint, &cpu(best, 2), KvDtype::Bf16, sizes);
    assert!(again.logits(0, text, 200) == whole, "restart = restart");
}

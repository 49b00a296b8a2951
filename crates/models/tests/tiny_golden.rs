//! Every architecture and rope variant against an independent implementation's values, on tiny random checkpoints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Bench, PAIR, Sizes, compare, cpu, log_softmax, reference, tiers, tiny_checkpoints};
use ucuz_tensor::KvDtype;

const SIZES: Sizes = Sizes {
    step_rows: 48,
    sequences: 1,
    context: 160,
    weights: PAIR,
};

/// The golden values carry 7 significant digits of log-probabilities below 20 nats; f32 over at most 6 layers adds less.
const F32_NATS: f64 = 1e-3;

#[test]
fn reference_meets_the_golden_values() {
    let backend = reference(1);
    for (name, path, values) in tiny_checkpoints() {
        let mut bench = Bench::open(&path, &backend, KvDtype::F32, SIZES);
        let outcome = compare(&mut bench, &values);
        println!("{name}: {outcome:?}");
        assert!(outcome.logprobs.max < F32_NATS, "{name}: {outcome:?}");
        assert!(outcome.top20.max < F32_NATS, "{name}: {outcome:?}");
        assert!(
            outcome.left_at_margin.is_none_or(|margin| margin < 2e-3),
            "{name}: {outcome:?}"
        );
    }
}

#[test]
fn final_logits_equal_the_golden_ones_up_to_a_shift() {
    let backend = reference(1);
    for (name, path, values) in tiny_checkpoints() {
        let ids = common::ids(&values["ids"]);
        let expected: Vec<f32> = values["last_logits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|x| x.as_f64().unwrap() as f32)
            .collect();
        let mut bench = Bench::open(&path, &backend, KvDtype::F32, SIZES);
        let got = bench.logits(0, &ids, ids.len().min(48)).pop().unwrap();
        let (got, expected) = (log_softmax(&got), log_softmax(&expected));
        let worst = got
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        assert!(worst < F32_NATS, "{name}: {worst}");
    }
}

#[test]
fn cpu_tiers_with_f32_weights_and_cache_meet_the_golden_values() {
    for tier in tiers() {
        let backend = cpu(tier, 1);
        for (name, path, values) in tiny_checkpoints() {
            let rounded = ["q8_0", "mixed", "bf16"]
                .iter()
                .any(|kind| name.contains(kind));
            let mut bench = Bench::open(&path, &backend, KvDtype::F32, SIZES);
            let outcome = compare(&mut bench, &values);
            println!("{tier} {name}: {outcome:?}");
            // Activations in int8 or bf16 move log-probabilities by about their rounding; f32 weights do not.
            let bound = if rounded { 0.5 } else { F32_NATS };
            assert!(outcome.logprobs.max < bound, "{tier} {name}: {outcome:?}");
            assert!(outcome.top20.max < bound, "{tier} {name}: {outcome:?}");
        }
    }
}

//! The exactness contract on every architecture and tier, with `==` on logits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;

use common::{Bench, INT8, PAIR, Sizes, W8A8, cpu, tiers, tiny_checkpoints};
use ucuz_cpu::{Tier, emulator};
use ucuz_tensor::{Backend, KvDtype, WeightOptions};

const SIZES: Sizes = Sizes {
    step_rows: 320,
    sequences: 8,
    context: 160,
    weights: PAIR,
};
/// What can be chosen: precision of the cache, and the arithmetic of weights.
const CHOICES: [(KvDtype, WeightOptions); 5] = [
    (KvDtype::Bf16, PAIR),
    (KvDtype::Bf16, INT8),
    (KvDtype::Bf16, W8A8),
    (KvDtype::Int8, PAIR),
    (KvDtype::F32, PAIR),
];

fn sizes(weights: WeightOptions) -> Sizes {
    Sizes { weights, ..SIZES }
}

/// Runs `check` for every tiny checkpoint, tier and KV precision.
fn for_all(check: impl Fn(&str, &mut Bench, &[u32])) {
    for tier in tiers() {
        let backend = cpu(tier, 1);
        for_all_on(&backend, |name, bench, ids| {
            check(&format!("{tier} {name}"), bench, ids)
        });
    }
}

fn for_all_on(backend: &Arc<dyn Backend>, check: impl Fn(&str, &mut Bench, &[u32])) {
    for (name, path, values) in tiny_checkpoints() {
        for (dtype, weights) in CHOICES {
            let mut bench = Bench::open(&path, backend, dtype, sizes(weights));
            check(
                &format!("{name} {} {weights:?}", dtype.name()),
                &mut bench,
                &common::ids(&values["ids"]),
            );
        }
    }
}

#[test]
fn with_cache_equals_recomputed_whole() {
    for_all(|name, bench, ids| {
        let cached = bench.logits(0, ids, 1);
        for end in [1, 2, 31, 32, 33, ids.len()] {
            let whole = bench.logits(1, &ids[..end], end).pop().unwrap();
            assert!(whole == cached[end - 1], "{name}: {end} tokens");
        }
    });
}

#[test]
fn wanted_rows_have_the_bits_they_have_among_all() {
    for_all(|name, bench, ids| {
        let whole = bench.logits(0, ids, ids.len());
        for (sequence, step) in [(1, 7), (2, ids.len() as u32)] {
            let wanted = |row: u32| row % step == step - 1;
            let expected: Vec<Vec<f32>> = (0u32..)
                .zip(&whole)
                .filter(|(row, _)| wanted(*row))
                .map(|(_, logits)| logits.clone())
                .collect();
            let got = bench.feed_wanted(&[(sequence, ids, 0)], wanted);
            assert!(got == expected, "{name}: every {step}th row");
        }
        // Nothing is asked of the first chunk; its keys and values must be there all the same.
        let middle = ids.len() / 2;
        assert!(
            bench
                .feed_wanted(&[(3, &ids[..middle], 0)], |_| false)
                .is_empty()
        );
        let rest = bench.feed(&[(3, ids, middle)]).remove(0);
        assert!(rest == whole[middle..], "{name}: after a silent chunk");
    });
}

#[test]
fn whole_prompt_equals_chunks() {
    for_all(|name, bench, ids| {
        let whole = bench.logits(0, ids, ids.len());
        for (sequence, chunk) in [(1, 1), (2, 16), (3, 61)] {
            assert!(
                bench.logits(sequence, ids, chunk) == whole,
                "{name}: chunks of {chunk}"
            );
        }
    });
}

#[test]
fn alone_equals_in_a_batch_of_eight() {
    for_all(|name, bench, ids| {
        let alone = bench.logits(0, ids, ids.len());
        // Seven others of other lengths, some in the middle of their prompts; ours is fed in two steps among them.
        let others: Vec<Vec<u32>> = (1..8)
            .map(|k| ids.iter().cycle().skip(k).take(5 * k).copied().collect())
            .collect();
        let middle = ids.len() / 2;
        let mut together = Vec::new();
        for end in [middle, ids.len()] {
            let start = together.len();
            let mut parts: Vec<(usize, &[u32], usize)> = vec![];
            for (k, other) in others.iter().enumerate() {
                let (from, to) = if start == 0 {
                    (0, other.len() / 2)
                } else {
                    (other.len() / 2, other.len())
                };
                parts.push((k + 1, &other[..to], from));
            }
            parts.insert(3, (0, &ids[..end], start));
            together.extend(bench.feed(&parts).remove(3));
        }
        assert!(together == alone, "{name}");
    });
}

#[test]
fn every_tier_and_thread_count_equals_generic_on_one_thread() {
    let mut expected = std::collections::BTreeMap::new();
    let generic = cpu(Tier::Generic, 1);
    for (name, path, values) in tiny_checkpoints() {
        for (dtype, weights) in CHOICES {
            let ids = common::ids(&values["ids"]);
            let mut bench = Bench::open(&path, &generic, dtype, sizes(weights));
            expected.insert(
                (name.clone(), dtype.name(), format!("{weights:?}")),
                bench.logits(0, &ids, ids.len()),
            );
        }
    }
    for tier in emulator::tiers() {
        for threads in [1, 2] {
            let backend = cpu(tier, threads);
            for (name, path, values) in tiny_checkpoints() {
                for (dtype, weights) in CHOICES {
                    let ids = common::ids(&values["ids"]);
                    let mut bench = Bench::open(&path, &backend, dtype, sizes(weights));
                    let got = bench.logits(0, &ids, ids.len());
                    assert!(
                        got == expected[&(name.clone(), dtype.name(), format!("{weights:?}"))],
                        "{tier}, {threads} threads: {name} {}",
                        dtype.name()
                    );
                }
            }
        }
    }
}

#[test]
fn kv_bytes_allocated_equal_the_formula() {
    let backend = cpu(Tier::Generic, 1);
    let mut shapes = std::collections::BTreeSet::new();
    for (name, path, _) in tiny_checkpoints() {
        for (dtype, weights) in CHOICES {
            let bench = Bench::open(&path, &backend, dtype, sizes(weights));
            let config = &bench.runner.model().spec().config;
            // int8 has one f32 scale for each key and each value.
            let head_bytes = match dtype {
                KvDtype::F32 => config.head_dim * 4,
                KvDtype::Bf16 => config.head_dim * 2,
                KvDtype::Int8 => config.head_dim + 4,
            };
            let per_token = 2 * config.layers * config.kv_heads * head_bytes;
            assert_eq!(bench.runner.cache().token_bytes(), per_token, "{name}");
            let blocks = bench.runner.blocks()[0];
            assert!(bench.runner.blocks().iter().all(|n| *n == blocks));
            assert_eq!(
                bench.runner.pool().len_bytes(),
                per_token * blocks * 32,
                "{name}"
            );
            shapes.insert((
                config.layers,
                config.kv_heads,
                config.head_dim,
                dtype.bytes(),
            ));
        }
    }
    assert!(shapes.len() >= 6, "only {} shapes", shapes.len());
}

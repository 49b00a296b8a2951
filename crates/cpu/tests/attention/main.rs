//! Attention: one arithmetic whatever the tier, batch, chunking, threads and blocks; and close to softmax.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at the first surprise"
)]

mod world;

use std::ops::Range;

use ucuz_cpu::detect::{CpuFeatures, Tier};
use ucuz_cpu::emulator::tiers;
use ucuz_cpu::ops::attention::check_cache;
use ucuz_tensor::cache::PagedGroup;
use ucuz_tensor::{CacheSpec, KvDtype, Tensor};

use world::World;

#[track_caller]
fn same(got: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    for (sequence, (got, expected)) in got.iter().zip(expected).enumerate() {
        let differ = got
            .iter()
            .zip(expected)
            .filter(|(a, b)| a.to_bits() != b.to_bits())
            .count();
        assert_eq!(
            differ,
            0,
            "{what}: {differ} of {} in sequence {sequence}",
            got.len()
        );
        assert!(got.iter().all(|v| v.is_finite()), "{what}: not finite");
    }
}

/// Heads, kv heads, dim: groups of 1, 3, 4, 7, 40 and every width.
const SHAPES: [(usize, usize, usize); 9] = [
    (3, 3, 16),
    (6, 2, 32),
    (4, 1, 48),
    (9, 3, 64),
    (7, 1, 80),
    (4, 1, 256),
    (14, 2, 128),
    (40, 1, 16),
    (2, 2, 96),
];

/// Precisions that every tier has kernels for.
const CACHES: [KvDtype; 2] = [KvDtype::Bf16, KvDtype::Int8];

#[test]
fn every_tier_computes_the_contract_bit_for_bit() {
    for shape in SHAPES {
        for (dtype, window) in [
            (KvDtype::Bf16, None),
            (KvDtype::Bf16, Some(5)),
            (KvDtype::Bf16, Some(300)),
            (KvDtype::Int8, None),
            (KvDtype::Int8, Some(5)),
            (KvDtype::Int8, Some(300)),
            (KvDtype::F32, None),
            (KvDtype::F32, Some(32)),
        ] {
            let mut world = World::new(shape, &[1, 33, 530]);
            (world.dtype, world.window) = (dtype, window);
            let mut expected = None;
            for tier in tiers() {
                let got = world.run(tier, 1, &world.all());
                same(&got, expected.get_or_insert_with(|| got.clone()), "tiers");
            }
            let got = expected.unwrap();
            let dim = world.heads.head_dim;
            for (sequence, position) in [(0, 0), (1, 31), (1, 32), (2, 255), (2, 256), (2, 529)] {
                for head in [0, world.heads.heads - 1] {
                    let at = (position * world.heads.heads + head) * dim;
                    let oracle = world.oracle(sequence, position, head);
                    assert_eq!(
                        got[sequence][at..at + dim],
                        oracle,
                        "{shape:?} {dtype:?} {window:?} at {position}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_length_up_to_600_agrees_between_tiers() {
    for dtype in CACHES {
        let mut world = World::new((3, 1, 32), &[600]);
        world.dtype = dtype;
        let expected = world.run(Tier::Generic, 1, &world.all());
        for tier in tiers() {
            same(
                &world.run(tier, 1, &world.chunks(1)),
                &expected,
                "one row at a time",
            );
            same(&world.run(tier, 2, &world.all()), &expected, "whole");
        }
    }
}

#[test]
fn chunks_threads_and_batches_change_no_bit() {
    let tier = CpuFeatures::detect().best_tier();
    for (shape, window, dtype) in [
        ((9, 3, 64), None, KvDtype::Bf16),
        ((4, 1, 256), Some(512), KvDtype::Bf16),
        ((4, 1, 32), Some(32), KvDtype::Bf16),
        ((14, 2, 64), Some(5), KvDtype::Bf16),
        ((9, 3, 64), None, KvDtype::Int8),
        ((4, 1, 48), Some(33), KvDtype::Int8),
    ] {
        let mut world = World::new(shape, &[70, 1, 700, 257, 31]);
        (world.window, world.dtype) = (window, dtype);
        let expected = world.run(tier, 1, &world.all());
        for threads in [1, 2, 5] {
            same(&world.run(tier, threads, &world.all()), &expected, "whole");
            for size in [1, 16, 61, 300] {
                let what = format!("{shape:?} chunks of {size} on {threads} threads");
                same(
                    &world.run(tier, threads, &world.chunks(size)),
                    &expected,
                    &what,
                );
            }
        }
        for (sequence, rows) in world.sequences.iter().enumerate() {
            let alone = world.run(tier, 2, &[vec![(sequence, 0..rows.num_rows())]]);
            same(
                &alone[sequence..=sequence],
                &expected[sequence..=sequence],
                "alone",
            );
        }
    }
}

/// A tile unit multiplies hidden values by +0, which is right unless they are not finite.
#[test]
fn what_memory_held_before_changes_no_bit() {
    for (shape, window) in [
        ((9, 3, 64), None),
        ((4, 1, 48), Some(300)),
        ((7, 1, 80), Some(5)),
        ((4, 1, 256), None),
    ] {
        let mut world = World::new(shape, &[1, 33, 300]);
        world.window = window;
        let expected = world.run(Tier::Generic, 1, &world.all());
        for fresh in [0x00, 0x3f, 0xff] {
            world.fresh = fresh;
            for tier in tiers() {
                let what = format!("{shape:?} {window:?} {tier} over {fresh:02x}");
                same(&world.run(tier, 1, &world.all()), &expected, &what);
            }
        }
    }
}

/// Runs the world with one column range of one token replaced.
fn with_token(
    world: &mut World,
    (position, columns): (usize, Range<usize>),
    value: f32,
    tier: Tier,
) -> Vec<Vec<f32>> {
    let cols = world.heads.qkv_cols();
    let mut values = world.sequences[0].values().to_vec();
    values[position * cols..][columns].fill(value);
    let broken = Tensor::from_values(&values, cols, "qkv").unwrap();
    let good = std::mem::replace(&mut world.sequences[0], broken);
    let got = world.run(tier, 1, &world.all());
    world.sequences[0] = good;
    got
}

#[test]
fn a_broken_token_stays_invisible_to_the_rows_before_it() {
    for (dtype, bad) in [
        (KvDtype::Bf16, f32::NAN),
        (KvDtype::Int8, f32::NAN),
        (KvDtype::Int8, f32::INFINITY),
        (KvDtype::Int8, f32::NEG_INFINITY),
    ] {
        let mut world = World::new((6, 2, 64), &[90]);
        world.dtype = dtype;
        for tier in tiers() {
            let expected = world.run(tier, 1, &world.all());
            // One number of the second key head, then one of the second value head.
            for column in [7 * 64 + 5, 9 * 64 + 63] {
                let place = (70, column..column + 1);
                let got = with_token(&mut world, place, bad, tier);
                for (at, (got, expected)) in got[0].iter().zip(&expected[0]).enumerate() {
                    let (position, head) = (at / (6 * 64), at / 64 % 6);
                    let spreads = column < 8 * 64 || dtype == KvDtype::Int8;
                    let touched =
                        position >= 70 && head >= 3 && (spreads || at % 64 == column % 64);
                    let what = format!("{tier} {dtype:?} {bad}, column {column}, output {at}");
                    if touched {
                        assert!(got.is_nan(), "{what}: {got}");
                    } else {
                        assert_eq!(got.to_bits(), expected.to_bits(), "{what}");
                    }
                }
            }
        }
    }
}

/// Every tier against generic and generic against the contract, at some positions of the last head.
fn check_contract(world: &World, what: &str) {
    let expected = world.run(Tier::Generic, 1, &world.all());
    for tier in tiers() {
        same(&world.run(tier, 2, &world.chunks(61)), &expected, what);
    }
    let (heads, dim) = (world.heads.heads, world.heads.head_dim);
    for position in [0, 7, 300, 599] {
        let end = (position + 1) * heads * dim;
        let oracle = world.oracle(0, position, heads - 1);
        assert_eq!(expected[0][end - dim..end], oracle, "{what} at {position}");
    }
}

#[test]
fn scores_far_apart_keep_their_order_of_magnitude() {
    for dtype in CACHES {
        let mut world = World::new((2, 1, 32), &[600]);
        world.dtype = dtype;
        let cols = world.heads.qkv_cols();
        let mut values = world.sequences[0].values().to_vec();
        for (position, row) in values.chunks_exact_mut(cols).enumerate() {
            row[..96]
                .iter_mut()
                .for_each(|v| *v *= if position % 7 == 0 { 40.0 } else { 0.1 });
        }
        world.sequences[0] = Tensor::from_values(&values, cols, "qkv").unwrap();
        check_contract(&world, &format!("far apart {dtype:?}"));
    }
}

#[test]
fn values_of_any_magnitude_keep_the_contract() {
    for dtype in CACHES {
        for exponents in [[-140, -112, -105], [-99, -90, -48], [0, 60, 100]] {
            let mut world = World::new((2, 1, 32), &[600]);
            world.dtype = dtype;
            let cols = world.heads.qkv_cols();
            let mut values = world.sequences[0].values().to_vec();
            for (position, row) in values.chunks_exact_mut(cols).enumerate() {
                let power = 2f64.powi(exponents[position % 3]) as f32;
                row[96..].iter_mut().for_each(|v| *v *= power);
            }
            world.sequences[0] = Tensor::from_values(&values, cols, "qkv").unwrap();
            check_contract(&world, &format!("values at 2^{exponents:?} {dtype:?}"));
        }
    }
}

#[test]
fn results_are_softmax_attention_within_the_derived_bound() {
    for (dtype, unit) in [
        (KvDtype::Bf16, 2f64.powi(-9)),
        // Only what values are weighted by is rounded, not the sum of weights.
        (KvDtype::Int8, 2f64.powi(-9)),
        (KvDtype::F32, 2f64.powi(-23)),
    ] {
        let mut world = World::new((9, 3, 64), &[600]);
        world.dtype = dtype;
        let tier = CpuFeatures::detect().best_tier();
        let got = world.run(tier, 1, &world.all());
        let (mut worst, mut worst_share) = (0f64, 0f64);
        for position in [0, 1, 100, 255, 256, 599] {
            for head in 0..9 {
                let (exact, products, largest) = world.softmax(0, position, head);
                // A score is off by `(dim/2 + 4)` roundings of the products' sum, a weight by that and its own rounding,
                // numerator and denominator by the weights' error and `16 + 8 + spans` additions each.
                let score = products * (32.0 + 4.0) * 2f64.powi(-24);
                let sums = 30.0 * 2f64.powi(-24);
                let bound = 2.0 * (score + unit + sums) * largest;
                let at = (position * 9 + head) * 64;
                for (got, exact) in got[0][at..at + 64].iter().zip(&exact) {
                    let error = (f64::from(*got) - exact).abs();
                    assert!(
                        error <= bound,
                        "{dtype:?} at {position}: {error:e} over {bound:e}"
                    );
                    worst = worst.max(error);
                    worst_share = worst_share.max(error / bound);
                }
            }
        }
        println!("{dtype:?}: largest error {worst:e}, {worst_share:.3} of its bound");
    }
}

#[test]
fn shapes_that_cannot_be_computed_are_refused_by_name() {
    let group = World::new((3, 1, 32), &[1]).group();
    let check = |group: PagedGroup| {
        check_cache(&CacheSpec {
            groups: vec![group],
            layers: vec![],
        })
    };
    for dtype in KvDtype::ALL {
        let group = PagedGroup {
            dtype,
            ..group.clone()
        };
        assert!(check(group).is_ok(), "{dtype:?}");
    }
    for (bad, text) in [
        (
            PagedGroup {
                k_dim: 24,
                v_dim: 24,
                ..group.clone()
            },
            "keys of 24",
        ),
        (
            PagedGroup {
                k_dim: 272,
                v_dim: 272,
                ..group.clone()
            },
            "keys of 272",
        ),
        (
            PagedGroup {
                k_dim: 64,
                ..group.clone()
            },
            "keys of 64 and values of 32",
        ),
        (
            PagedGroup {
                k_dim: 0,
                v_dim: 0,
                ..group
            },
            "keys of 0",
        ),
    ] {
        let error = check(bad).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

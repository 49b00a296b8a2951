//! Norms, rotations and activations: all tiers equal with `==`, in the written order, close to f64.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at the first surprise"
)]

use ucuz_cpu::detect::Tier;
use ucuz_cpu::emulator;
use ucuz_cpu::ops::activation::{gelu_mul, silu_mul};
use ucuz_cpu::ops::norm::rms_norm;
use ucuz_cpu::ops::rope::{QkCall, qk_norm_rope};
use ucuz_cpu::pool::ThreadPool;
use ucuz_cpu::table::Kernels;
use ucuz_tensor::backend::{HeadShape, QkNorms, RopeStyle, RopeTable};
use ucuz_tensor::numerics::{self, inverse_frequencies, rope_table};
use ucuz_tensor::{Batch, Tensor};

const LENGTHS: [usize; 13] = [1, 2, 15, 16, 17, 31, 32, 33, 100, 576, 1000, 2049, 4099];

fn random(n: usize, mut seed: u64) -> Vec<f32> {
    let mut next = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next() * 4.0).collect()
}

fn tensor(values: &[f32], cols: usize) -> Tensor {
    Tensor::from_values(values, cols, "test").unwrap()
}

/// Every tier of this machine with 1 and 3 threads.
fn each(mut body: impl FnMut(&ThreadPool, &'static Kernels)) {
    for tier in Tier::ALL {
        match emulator::kernels(tier) {
            None => println!("skipped: no {tier} on this machine"),
            Some(kernels) => {
                for threads in [1, 3] {
                    body(&ThreadPool::new(threads, false, false), kernels);
                }
            }
        }
    }
}

#[test]
fn rms_norm_follows_the_written_order_on_every_tier() {
    for cols in LENGTHS {
        let rows = 9;
        let (x, weight) = (random(rows * cols, 1), random(cols, 2));
        let eps = 1e-5;
        let mut expected = Vec::new();
        for x in x.chunks_exact(cols) {
            let scale = 1.0 / (numerics::square_sum16(x) / cols as f32 + eps).sqrt();
            expected.extend(x.iter().zip(&weight).map(|(x, w)| (x * scale) * w));
            let squares: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
            let exact = 1.0 / (squares / cols as f64 + f64::from(eps)).sqrt();
            let bound = (cols as f64 / 16.0 + 10.0) * 2f64.powi(-24);
            assert!((f64::from(scale) / exact - 1.0).abs() <= bound, "{cols}");
        }
        each(|pool, kernels| {
            let mut dst = Tensor::zeroed(rows, cols, "test").unwrap();
            rms_norm(
                pool,
                kernels,
                dst.view_mut(),
                tensor(&x, cols).view(),
                &weight,
                eps,
            );
            assert_eq!(dst.values(), expected, "{cols} on {:?}", kernels.tier);
        });
    }
}

#[test]
fn gated_activations_are_the_scalar_functions_on_every_tier() {
    for cols in LENGTHS {
        let rows = 3;
        let mut gate_up = random(rows * 2 * cols, 3);
        for (value, special) in gate_up
            .iter_mut()
            .zip([-0.0, 90.0, -90.0, 1e30, -1e30, 1e-30])
        {
            *value = special;
        }
        let scalar = |f: fn(f32) -> f32| -> Vec<f32> {
            let rows = gate_up.chunks_exact(2 * cols).map(|row| row.split_at(cols));
            rows.flat_map(|(gate, up)| gate.iter().zip(up).map(|(g, u)| f(*g) * u))
                .collect()
        };
        let (silu, gelu) = (scalar(numerics::silu), scalar(numerics::gelu_tanh));
        each(|pool, kernels| {
            let x = tensor(&gate_up, 2 * cols);
            let mut dst = Tensor::zeroed(rows, cols, "test").unwrap();
            silu_mul(pool, kernels, dst.view_mut(), x.view());
            assert_eq!(dst.values(), silu, "silu of {cols} on {:?}", kernels.tier);
            gelu_mul(pool, kernels, dst.view_mut(), x.view());
            assert_eq!(dst.values(), gelu, "gelu of {cols} on {:?}", kernels.tier);
        });
    }
}

#[test]
fn a_number_that_is_none_stays_one() {
    each(|pool, kernels| {
        let x = tensor(&[f32::NAN, 1.0, f32::INFINITY, 1.0], 4);
        let mut dst = Tensor::zeroed(1, 2, "test").unwrap();
        silu_mul(pool, kernels, dst.view_mut(), x.view());
        assert!(dst.values()[0].is_nan());
        let mut dst = Tensor::zeroed(1, 4, "test").unwrap();
        rms_norm(pool, kernels, dst.view_mut(), x.view(), &[1.0; 4], 1e-5);
        assert!(dst.values()[0].is_nan() && dst.values()[1].is_nan());
    });
}

/// One row, written plainly.
fn norm_and_rotate(row: &mut [f32], call: &QkCall<'_>, position: usize) {
    let dim = call.heads.head_dim;
    let (cos, sin) = (
        call.rope.cos.view().row(position),
        call.rope.sin.view().row(position),
    );
    let half = cos.len();
    let rotated = (call.heads.heads + call.heads.kv_heads) * dim;
    for (index, head) in row[..rotated].chunks_exact_mut(dim).enumerate() {
        if let Some(norms) = call.norms {
            let weight = if index < call.heads.heads {
                norms.q
            } else {
                norms.k
            }
            .values();
            let scale = 1.0 / (numerics::square_sum16(head) / dim as f32 + norms.eps).sqrt();
            head.iter_mut()
                .zip(weight)
                .for_each(|(x, w)| *x = (*x * scale) * w);
        }
        for i in 0..half {
            let (at_a, at_b) = match call.rope.style {
                RopeStyle::Half => (i, i + half),
                RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            };
            let (a, b) = (head[at_a], head[at_b]);
            head[at_a] = a * cos[i] - b * sin[i];
            head[at_b] = b * cos[i] + a * sin[i];
        }
    }
}

#[test]
fn queries_and_keys_are_normed_and_rotated_alike_on_every_tier() {
    for (head_dim, rotary_dim) in [(16, 16), (32, 32), (48, 24), (64, 64), (80, 32), (128, 128)] {
        let heads = HeadShape {
            heads: 5,
            kv_heads: 2,
            head_dim,
        };
        let (cos, sin) = rope_table(&inverse_frequencies(1e4, rotary_dim), 50, 1.1).unwrap();
        let mut rope = RopeTable {
            cos,
            sin,
            style: RopeStyle::Half,
        };
        let (q, k) = (
            tensor(&random(head_dim, 4), head_dim),
            tensor(&random(head_dim, 5), head_dim),
        );
        let positions = vec![0, 1, 2, 49, 7, 30, 31, 32, 33];
        let values = random(positions.len() * heads.qkv_cols(), 6);
        for style in [RopeStyle::Half, RopeStyle::Interleaved] {
            rope.style = style;
            for norms in [
                None,
                Some(QkNorms {
                    q: &q,
                    k: &k,
                    eps: 1e-6,
                }),
            ] {
                let call = QkCall {
                    heads,
                    norms,
                    rope: &rope,
                };
                let batch = Batch {
                    positions: positions.clone(),
                    ..Batch::default()
                };
                let mut expected = values.clone();
                let rows = expected.chunks_exact_mut(heads.qkv_cols());
                for (row, position) in rows.zip(&positions) {
                    norm_and_rotate(row, &call, *position as usize);
                }
                each(|pool, kernels| {
                    let mut qkv = tensor(&values, heads.qkv_cols());
                    qk_norm_rope(pool, kernels, qkv.view_mut(), &call, &batch);
                    assert_eq!(
                        qkv.values(),
                        expected,
                        "{head_dim} {style:?} {:?}",
                        kernels.tier
                    );
                });
            }
        }
    }
}

//! Checks of norms, rotations, activations, copies, and of what is refused.

use super::bounds::{EPS, Expected, assert_same, assert_within};
use super::data::{LIMITS, Noise, activations, plain_batch, queue, weight};
use crate::backend::{Backend, Gate, HeadShape, QkNorms, RopeStyle, RopeTable};
use crate::error::{TensorError, TensorResult};
use crate::format::Format;
use crate::tensor::Tensor;

/// Sizes around vectors of 4, 8 and 16.
const SIZES: [usize; 6] = [16, 33, 48, 100, 576, 896];

fn tensor(values: &[f32], cols: usize) -> Tensor {
    Tensor::from_values(values, cols, "conformance").unwrap()
}

fn expect_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<Expected> {
    let squares: f64 = x.iter().map(|v| f64::from(*v).powi(2)).sum();
    let scale = 1.0 / (squares / x.len() as f64 + f64::from(eps)).sqrt();
    let values = x
        .iter()
        .zip(weight)
        .map(|(x, w)| f64::from(*x) * scale * f64::from(*w));
    values
        .map(|value| Expected {
            value,
            bound: (x.len() + 8) as f64 * EPS * value.abs() + 1e-38,
        })
        .collect()
}

/// Any size, against f64.
pub fn rms_norm_stays_within_its_bound(backend: &dyn Backend) {
    for cols in SIZES {
        for rows in [1, 3, 17] {
            let mut noise = Noise::new(cols as u64);
            let x = activations(&mut noise, rows, cols);
            let norm = tensor(&noise.units(cols), cols);
            let mut dst = Tensor::zeroed(rows, cols, "dst").unwrap();
            queue(backend)
                .rms_norm(dst.view_mut(), x.view(), &norm, 1e-6)
                .expect("shapes that agree");
            let expected: Vec<_> = x
                .values()
                .chunks(cols)
                .flat_map(|x| expect_norm(x, norm.values(), 1e-6))
                .collect();
            assert_within(
                &format!("rms_norm {rows} x {cols}"),
                dst.values(),
                &expected,
            );
        }
    }
}

fn rope_table(positions: usize, pairs: usize, style: RopeStyle) -> RopeTable {
    let angles: Vec<f64> = (0..positions * pairs)
        .map(|i| (i / pairs) as f64 * 10000f64.powf(-((i % pairs) as f64) / pairs as f64))
        .collect();
    let table = |f: fn(f64) -> f64| {
        let values: Vec<f32> = angles.iter().map(|a| f(*a) as f32).collect();
        tensor(&values, pairs)
    };
    RopeTable {
        cos: table(f64::cos),
        sin: table(f64::sin),
        style,
    }
}

/// One head: normed if asked for, then rotated, with its bound.
fn expect_head(
    x: &[f32],
    norm: Option<&[f32]>,
    rope: &RopeTable,
    position: usize,
) -> Vec<Expected> {
    let exact = |x: &f32| Expected {
        value: f64::from(*x),
        bound: 0.0,
    };
    let mut out = match norm {
        Some(norm) => expect_norm(x, norm, 1e-6),
        None => x.iter().map(exact).collect(),
    };
    let (cos, sin) = (rope.cos.view().row(position), rope.sin.view().row(position));
    for (i, (cos, sin)) in cos.iter().zip(sin).enumerate() {
        let (a, b) = match rope.style {
            RopeStyle::Half => (i, i + rope.cos.num_cols()),
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
        };
        let (cos, sin) = (f64::from(*cos), f64::from(*sin));
        let turn = |u: Expected, v: Expected, cos: f64, sin: f64| Expected {
            value: u.value * cos + v.value * sin,
            bound: (u.bound + 4.0 * EPS * u.value.abs()) * cos.abs()
                + (v.bound + 4.0 * EPS * v.value.abs()) * sin.abs(),
        };
        let (u, v) = (out[a], out[b]);
        out[a] = turn(u, v, cos, -sin);
        out[b] = turn(v, u, cos, sin);
    }
    out
}

/// Both pairings, whole and part of a head, with and without norms; values stay as they are.
pub fn rope_rotates_both_styles_with_and_without_norms(backend: &dyn Backend) {
    for style in [RopeStyle::Half, RopeStyle::Interleaved] {
        for (head_dim, pairs) in [(64, 32), (48, 24), (128, 64), (64, 16)] {
            for with_norms in [false, true] {
                check_rope(backend, head_dim, &rope_table(40, pairs, style), with_norms);
            }
        }
    }
}

fn check_rope(backend: &dyn Backend, head_dim: usize, rope: &RopeTable, with_norms: bool) {
    let heads = HeadShape {
        heads: 4,
        kv_heads: 2,
        head_dim,
    };
    let mut noise = Noise::new(head_dim as u64);
    let before = activations(&mut noise, 33, heads.qkv_cols());
    let (q, k) = (
        tensor(&noise.units(head_dim), head_dim),
        tensor(&noise.units(head_dim), head_dim),
    );
    let norms = QkNorms {
        q: &q,
        k: &k,
        eps: 1e-6,
    };
    let mut step = plain_batch(33);
    // Rows stand at positions that are not their numbers.
    step.positions.iter_mut().for_each(|p| *p += 7);
    step.kv_lens[0] += 7;
    step.groups[0].blocks.push(crate::cache::NO_BLOCK);
    step.groups[0].starts[1] += 1;
    let mut queue = queue(backend);
    let mut qkv = tensor(before.values(), heads.qkv_cols());
    let inputs = queue.begin(&step).expect("a step within the limits");
    queue
        .qk_norm_rope(
            qkv.view_mut(),
            &heads,
            with_norms.then_some(norms),
            rope,
            &inputs,
        )
        .expect("shapes that agree");
    let mut expected = Vec::new();
    for row in 0..33 {
        for (head, x) in before.view().row(row).chunks(head_dim).enumerate() {
            let norm = if head < heads.heads { &q } else { &k };
            if head < heads.heads + heads.kv_heads {
                expected.extend(expect_head(
                    x,
                    with_norms.then_some(norm.values()),
                    rope,
                    row + 7,
                ));
            } else {
                expected.extend(x.iter().map(|x| Expected {
                    value: f64::from(*x),
                    bound: 0.0,
                }));
            }
        }
    }
    let what = format!("rope {:?}, {head_dim}, norms {with_norms}", rope.style);
    assert_within(&what, qkv.values(), &expected);
}

/// Gates from very negative to very large.
fn gate_up(noise: &mut Noise, rows: usize, n: usize) -> Tensor {
    let special = [0.0, -0.0, 1e-6, -87.0, -100.0, 90.0, 1e4, -1e4, 5.0, -5.0];
    let mut values = noise.units(rows * 2 * n);
    for row in values.chunks_mut(2 * n) {
        for (i, gate) in row[..n].iter_mut().enumerate() {
            *gate = if i < special.len() {
                special[i]
            } else {
                *gate * 8.0
            };
        }
    }
    tensor(&values, 2 * n)
}

/// A rounding of the exponent's argument is `|g|` roundings of the result; tanh near -1 is off by roundings of 1.
pub fn activations_stay_within_their_bound(backend: &dyn Backend) {
    for n in SIZES {
        let x = gate_up(&mut Noise::new(n as u64), 3, n);
        let mut silu = Tensor::zeroed(3, n, "dst").unwrap();
        let mut gelu = Tensor::zeroed(3, n, "dst").unwrap();
        let mut queue = queue(backend);
        queue
            .silu_mul(silu.view_mut(), x.view())
            .expect("shapes that agree");
        queue
            .gelu_mul(gelu.view_mut(), x.view())
            .expect("shapes that agree");
        let (mut silu_expected, mut gelu_expected) = (Vec::new(), Vec::new());
        for row in x.values().chunks(2 * n) {
            for (gate, up) in row[..n].iter().zip(&row[n..]) {
                let (g, up) = (f64::from(*gate), f64::from(*up));
                let value = g / (1.0 + (-g).exp()) * up;
                let bound = (16.0 + 2.0 * g.abs()) * EPS * value.abs() + 1e-30 * up.abs();
                silu_expected.push(Expected { value, bound });
                let inner = std::f64::consts::FRAC_2_PI.sqrt() * (g + 0.044715 * g.powi(3));
                let value = 0.5 * g * (1.0 + inner.tanh()) * up;
                let bound = 8.0 * EPS * (g * up).abs() + 1e-30;
                gelu_expected.push(Expected { value, bound });
            }
        }
        assert_within(&format!("silu_mul {n}"), silu.values(), &silu_expected);
        assert_within(&format!("gelu_mul {n}"), gelu.values(), &gelu_expected);
    }
}

/// Norms and activations of a row do not see the other rows.
pub fn pointwise_row_alone_equals_row_in_a_batch(backend: &dyn Backend) {
    let mut queue = queue(backend);
    for cols in SIZES {
        let mut noise = Noise::new(cols as u64 + 1);
        let x = activations(&mut noise, 17, cols);
        let gates = gate_up(&mut noise, 17, cols);
        let norm = tensor(&noise.units(cols), cols);
        let mut run = |rows: std::ops::Range<usize>| {
            let mut out = [0; 3].map(|_| Tensor::zeroed(rows.len(), cols, "dst").unwrap());
            let [normed, silu, gelu] = &mut out;
            let gates = gates.rows(rows.clone());
            queue
                .rms_norm(normed.view_mut(), x.rows(rows), &norm, 1e-5)
                .unwrap();
            queue.silu_mul(silu.view_mut(), gates).unwrap();
            queue.gelu_mul(gelu.view_mut(), gates).unwrap();
            out
        };
        let whole = run(0..17);
        for rows in [0..1, 3..4, 5..8, 16..17, 1..17] {
            for (got, whole) in run(rows.clone()).iter().zip(&whole) {
                let what = format!("rows {rows:?} of {cols} columns");
                assert_same(&what, got.values(), whole.rows(rows.clone()).values());
            }
        }
    }
}

/// Copies and sums have no freedom.
pub fn add_and_take_rows_are_exact(backend: &dyn Backend) {
    let mut noise = Noise::new(8);
    let mut queue = queue(backend);
    for cols in SIZES {
        let (a, b) = (
            activations(&mut noise, 17, cols),
            activations(&mut noise, 17, cols),
        );
        let mut sum = tensor(a.values(), cols);
        queue
            .add(sum.view_mut(), b.view())
            .expect("shapes that agree");
        let expected: Vec<f32> = a
            .values()
            .iter()
            .zip(b.values())
            .map(|(a, b)| a + b)
            .collect();
        assert_same("add", sum.values(), &expected);

        let mut step = plain_batch(17);
        step.logit_rows = vec![0, 2, 9, 16];
        let inputs = queue.begin(&step).expect("a step within the limits");
        for which in [0..4, 1..3, 3..4] {
            let mut taken = Tensor::zeroed(which.len(), cols, "dst").unwrap();
            queue
                .take_rows(taken.view_mut(), a.view(), which.clone(), &inputs)
                .expect("rows that exist");
            for (i, row) in step.logit_rows[which].iter().enumerate() {
                let row = *row as usize;
                assert_same("take_rows", taken.view().row(i), a.view().row(row));
            }
        }
    }
}

fn assert_refused(what: &str, result: TensorResult<()>) {
    match result {
        Err(TensorError::Shape { .. }) => {}
        other => panic!("{what}: expected a shape error, got {other:?}"),
    }
}

/// Shapes that disagree, tokens and positions outside: errors, never panics.
pub fn shapes_that_disagree_are_errors(backend: &dyn Backend) {
    let mut noise = Noise::new(9);
    let mut queue = queue(backend);
    let (w, _) = weight(backend, &mut noise, 64, &[(Format::Q8_0, 16, false)]);
    let x = activations(&mut noise, 3, 64);
    let wide = activations(&mut noise, 3, 96);
    let out = |rows, cols| Tensor::zeroed(rows, cols, "dst").unwrap();
    let (mut d16, mut d17, mut d64) = (out(3, 16), out(3, 17), out(3, 64));
    let mut rows = out(2, 16);
    assert_refused(
        "input columns",
        queue.linear(d16.view_mut(), wide.view(), &w),
    );
    assert_refused("output columns", queue.linear(d17.view_mut(), x.view(), &w));
    assert_refused("output rows", queue.linear(rows.view_mut(), x.view(), &w));
    assert_refused("linear_add", queue.linear_add(d17.view_mut(), x.view(), &w));
    assert_refused("add", queue.add(d64.view_mut(), wide.view()));
    assert_refused("silu_mul", queue.silu_mul(d64.view_mut(), wide.view()));
    assert_refused("gelu_mul", queue.gelu_mul(d64.view_mut(), wide.view()));
    // Few rows and many may take different ways; both look at the room they are given.
    for rows in [1, 16] {
        let x = activations(&mut noise, rows, 64);
        for (what, room_rows, room_cols) in
            [("cols", rows, 8), ("no row", 0, 16), ("rows", rows + 1, 16)]
        {
            let (mut dst, mut room) = (out(rows, 8), out(room_rows, room_cols));
            let gated =
                queue.linear_gated(dst.view_mut(), room.view_mut(), x.view(), &w, Gate::Silu);
            assert_refused(&format!("room of a gated product: {what}"), gated);
        }
    }
    assert_refused(
        "norm weight",
        queue.rms_norm(d64.view_mut(), x.view(), &tensor(&[1.0; 32], 32), 1e-6),
    );
    let mut step = plain_batch(3);
    step.tokens = vec![0, 16, 1];
    step.logit_rows = vec![2];
    let inputs = queue.begin(&step).expect("a step within the limits");
    assert_refused(
        "token past the table",
        queue.embed(d64.view_mut(), &w, 1.0, &inputs),
    );
    assert_refused(
        "logit rows",
        queue.take_rows(d64.view_mut(), x.view(), 0..3, &inputs),
    );
    let heads = HeadShape {
        heads: 2,
        kv_heads: 1,
        head_dim: 16,
    };
    let rope = rope_table(2, 8, RopeStyle::Half);
    let result = queue.qk_norm_rope(d64.view_mut(), &heads, None, &rope, &inputs);
    assert_refused("position past the table", result);
    let large = plain_batch(LIMITS.step_rows + 1);
    assert!(
        queue.begin(&large).is_err(),
        "a step above the limits was taken"
    );
}

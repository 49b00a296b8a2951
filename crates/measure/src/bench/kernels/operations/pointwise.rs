//! Operations on activations alone: everything they touch was just written and lies in a cache.
//!
//! Operations are those of the canonical definitions, a division or a root counted as one; bytes are read and written once.

use anyhow::Result;
use ucuz_tensor::backend::{QkNorms, RopeStyle, RopeTable};
use ucuz_tensor::{CeilingKind, Tensor};

use super::super::case::{Body, Case, Cost, Label};
use super::super::operation::Operation;
use super::super::{Options, data};

/// A square, its sum, two multiplications.
const RMS_NORM_OPERATIONS: usize = 4;
/// A norm, then three for each number of a rotated pair.
const QK_NORM_ROPE_OPERATIONS: usize = RMS_NORM_OPERATIONS + 3;
/// `exp` takes 22: 4 reduce, 10 are its polynomial, 4 put it together, 4 scale and test; then `x / (1 + e) · up`, and a sign.
const SILU_MUL_OPERATIONS: usize = 26;
/// As [`SILU_MUL_OPERATIONS`], with four for the argument instead of the sign.
const GELU_MUL_OPERATIONS: usize = 29;
/// Inner size of a feed-forward layer, in hidden sizes.
const GATE_FACTOR: usize = 4;
/// Added to the mean square.
const EPS: f32 = 1e-5;

/// What a number of the output costs.
struct Counts {
    /// Numbers read and written for it.
    numbers: usize,
    operations: usize,
}

/// A case on `[rows, cols]` numbers.
fn case(operation: Operation, (rows, cols): (usize, usize), counts: Counts, body: Body) -> Case {
    let mut batch = data::step(1, rows, rows);
    batch.logit_rows = (0..rows as u32).collect();
    Case {
        label: Label::new(operation, "", rows, cols.to_string()),
        cost: Cost {
            memory_bytes: 0,
            cache_bytes: (rows * cols * counts.numbers * 4) as u64,
            operations: (rows * cols * counts.operations) as u64,
            unit: CeilingKind::Float32,
        },
        limits: data::limits(rows, 1, rows),
        batch,
        body,
    }
}

/// One of the operations on rows of the hidden size.
///
/// # Errors
/// Memory.
pub fn hidden(options: &Options, operation: Operation) -> Result<Vec<Case>> {
    let cols = options.shape.cols;
    let build = |rows: usize| -> Result<Case> {
        let x = data::activations(rows, cols)?;
        let mut dst = Tensor::zeroed(rows, cols, "results")?;
        let weight = Tensor::from_values(&vec![1.0; cols], cols, "norm weight")?;
        let (numbers, operations, body): (usize, usize, Body) = match operation {
            Operation::Add => (
                3,
                1,
                Box::new(move |queue, _| queue.add(dst.view_mut(), x.view())),
            ),
            Operation::TakeRows => (
                2,
                0,
                Box::new(move |queue, inputs| {
                    queue.take_rows(dst.view_mut(), x.view(), 0..rows, inputs)
                }),
            ),
            _ => (
                2,
                RMS_NORM_OPERATIONS,
                Box::new(move |queue, _| queue.rms_norm(dst.view_mut(), x.view(), &weight, EPS)),
            ),
        };
        let counts = Counts {
            numbers,
            operations,
        };
        Ok(case(operation, (rows, cols), counts, body))
    };
    options.rows.iter().map(|rows| build(*rows)).collect()
}

/// A gated activation.
///
/// # Errors
/// Memory.
pub fn gated(options: &Options, operation: Operation) -> Result<Vec<Case>> {
    let cols = options.shape.cols * GATE_FACTOR;
    let build = |rows: usize| -> Result<Case> {
        let gate_up = data::activations(rows, 2 * cols)?;
        let mut dst = Tensor::zeroed(rows, cols, "results")?;
        let is_gelu = operation == Operation::GeluMul;
        let body: Body = Box::new(move |queue, _| match is_gelu {
            true => queue.gelu_mul(dst.view_mut(), gate_up.view()),
            false => queue.silu_mul(dst.view_mut(), gate_up.view()),
        });
        let counts = Counts {
            numbers: 3,
            operations: if is_gelu {
                GELU_MUL_OPERATIONS
            } else {
                SILU_MUL_OPERATIONS
            },
        };
        Ok(case(operation, (rows, cols), counts, body))
    };
    options.rows.iter().map(|rows| build(*rows)).collect()
}

/// Norms and rotation of packed queries and keys. The values behind them are not touched, and so not counted.
///
/// # Errors
/// Memory.
pub fn qk_norm_rope(options: &Options) -> Result<Vec<Case>> {
    let heads = options.heads();
    let cols = (heads.heads + heads.kv_heads) * heads.head_dim;
    let build = |rows: usize| -> Result<Case> {
        let mut qkv = data::activations(rows, heads.qkv_cols())?;
        let rope = rope_table(rows, heads.head_dim)?;
        let ones = vec![1.0; heads.head_dim];
        let norm = Tensor::from_values(&ones, heads.head_dim, "norm weight")?;
        let body: Body = Box::new(move |queue, inputs| {
            let norms = QkNorms {
                q: &norm,
                k: &norm,
                eps: EPS,
            };
            queue.qk_norm_rope(qkv.view_mut(), &heads, Some(norms), &rope, inputs)
        });
        let counts = Counts {
            numbers: 2,
            operations: QK_NORM_ROPE_OPERATIONS,
        };
        Ok(case(Operation::QkNormRope, (rows, cols), counts, body))
    };
    options.rows.iter().map(|rows| build(*rows)).collect()
}

/// Rotations by one radian a position: their angles do not change the speed.
fn rope_table(positions: usize, head_dim: usize) -> Result<RopeTable> {
    let half = head_dim / 2;
    let angles = || (0..positions).flat_map(|p| std::iter::repeat_n(p as f32, half));
    let (cos, sin): (Vec<f32>, Vec<f32>) = angles().map(|a| (a.cos(), a.sin())).unzip();
    Ok(RopeTable {
        cos: Tensor::from_values(&cos, half, "cosines")?,
        sin: Tensor::from_values(&sin, half, "sines")?,
        style: RopeStyle::Half,
    })
}

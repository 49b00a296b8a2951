//! What a step should cost, counted from the model's shapes: bytes that must be read once, multiply-accumulates.
//!
//! - **Weights**: every byte of every layer in the backend's own layout, once a step, and the head's if logits are wanted.
//!   A tied embedding is read as the head; an embedding of its own is not counted, since a token reads one row of it.
//! - **Keys and values**: what a layer's queries see of the cache, once a step and sequence: `min(window, ...)` tokens of a
//!   sliding layer, all of another.
//! - **Multiply-accumulates**: one a weight and row; `2 · head_dim` a head and visible key (score, and weighted value).
//! - **Scores**: one a head and visible key: an entry of the matrix that the textbook writes out and this engine does not.
//!
//! Norms, rotations, activations and sampling are left out: they are below a hundredth of either.

use std::ops::{Add, AddAssign};

use anyhow::{Context, Result};
use serde::Serialize;
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::{Arithmetic, Backend, CeilingKind, Format, OnLoad};

use super::setup::Setup;

/// Positions of one sequence that a step computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First position.
    pub start: usize,
    /// One past the last: the tokens in the cache afterwards.
    pub end: usize,
}

/// What is read and multiplied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Bytes of keys and values.
    pub kv_bytes: u64,
    /// Multiply-accumulates with weights.
    pub linear_macs: u64,
    /// Multiply-accumulates of attention.
    pub attention_macs: u64,
    /// Entries of the score matrix.
    pub scores: u64,
    /// Multiply-accumulates that the device does with 8-bit integers: two for one of the model's where activations are two
    /// codes.
    pub int8_macs: u64,
    /// Multiply-accumulates that it does in floating point, attention's among them.
    pub float_macs: u64,
}

impl Work {
    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.weight_bytes + self.kv_bytes
    }

    /// Multiply-accumulates of the model, whatever the device makes of them.
    pub fn macs(&self) -> u64 {
        self.linear_macs + self.attention_macs
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            weight_bytes: self.weight_bytes + other.weight_bytes,
            kv_bytes: self.kv_bytes + other.kv_bytes,
            linear_macs: self.linear_macs + other.linear_macs,
            attention_macs: self.attention_macs + other.attention_macs,
            scores: self.scores + other.scores,
            int8_macs: self.int8_macs + other.int8_macs,
            float_macs: self.float_macs + other.float_macs,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// One matrix or all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Matrices {
    bytes: u64,
    macs: u64,
    int8_macs: u64,
    float_macs: u64,
}

impl Matrices {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.macs += other.macs;
        self.int8_macs += other.int8_macs;
        self.float_macs += other.float_macs;
    }
}

/// One layer's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LayerAttention {
    window: usize,
    kv_token_bytes: u64,
}

/// Counts steps of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    layers: Matrices,
    head: Matrices,
    attention: Vec<LayerAttention>,
    heads: u64,
    head_dim: u64,
}

impl Counter {
    /// Counts the model of `setup`.
    ///
    /// # Errors
    /// A tensor that the backend cannot lay out.
    pub fn new(setup: &Setup<'_>) -> Result<Self> {
        let checkpoint = setup.checkpoint;
        let config = &checkpoint.config;
        let head_name = match checkpoint.tensor("output.weight") {
            Some(_) => "output.weight",
            None => "token_embd.weight",
        };
        let (mut layers, mut head) = (Matrices::default(), Matrices::default());
        for tensor in checkpoint.tensors() {
            let end = ["output.weight", "token_embd.weight"].contains(&tensor.name);
            let on_load = if end {
                OnLoad::AsStored
            } else {
                setup.weights.on_load
            };
            let matrices = matrices(setup, on_load, (tensor.format, tensor.shape))
                .with_context(|| format!("cannot count {}", tensor.stored_name))?;
            match tensor.name {
                name if name == head_name => head.add(matrices),
                "token_embd.weight" => {}
                _ => layers.add(matrices),
            }
        }
        let cache = setup.cache();
        let attention = cache.layers.iter().map(|place| {
            let group = &cache.groups[place.group];
            LayerAttention {
                window: group.window.unwrap_or(usize::MAX),
                kv_token_bytes: (group.token_bytes() / group.layers) as u64,
            }
        });
        Ok(Self {
            layers,
            head,
            attention: attention.collect(),
            heads: config.heads as u64,
            head_dim: config.head_dim as u64,
        })
    }

    /// What one step over `spans`, one a sequence, costs when `logit_rows` rows of logits are wanted.
    pub fn step(&self, spans: &[Span], logit_rows: usize) -> Work {
        let rows: u64 = spans.iter().map(|s| (s.end - s.start) as u64).sum();
        let logit_rows = logit_rows as u64;
        let head_bytes = if logit_rows > 0 { self.head.bytes } else { 0 };
        let mut work = Work {
            weight_bytes: self.layers.bytes + head_bytes,
            linear_macs: rows * self.layers.macs + logit_rows * self.head.macs,
            int8_macs: rows * self.layers.int8_macs + logit_rows * self.head.int8_macs,
            float_macs: rows * self.layers.float_macs + logit_rows * self.head.float_macs,
            ..Work::default()
        };
        for layer in &self.attention {
            for span in spans {
                work.scores += self.heads * pairs(*span, layer.window);
                let oldest = (span.start + 1).saturating_sub(layer.window);
                work.kv_bytes += (span.end - oldest) as u64 * layer.kv_token_bytes;
            }
        }
        work.attention_macs = work.scores * 2 * self.head_dim;
        work.float_macs += work.attention_macs;
        work
    }

    /// What a sequence's positions `span` cost, `step_rows` at a time, with logits of the last one.
    pub fn prefill(&self, span: Span, step_rows: usize) -> Work {
        let mut work = Work::default();
        let mut start = span.start;
        while start < span.end {
            let end = (start + step_rows.max(1)).min(span.end);
            work += self.step(&[Span { start, end }], usize::from(end == span.end));
            start = end;
        }
        work
    }
}

/// The rate that bounds products in `arithmetic`, and how many of the device's stand for one of the model's: two where
/// activations are two digits.
pub const fn products(arithmetic: Arithmetic) -> (CeilingKind, u64) {
    match arithmetic {
        Arithmetic::I8 | Arithmetic::I8Row => (CeilingKind::Int8, 1),
        Arithmetic::I12 => (CeilingKind::Int8, 2),
        Arithmetic::Bf16Code | Arithmetic::Bf16 => (CeilingKind::Bf16, 1),
        Arithmetic::F32 => (CeilingKind::Float32, 1),
    }
}

/// Pairs of a query in `span` and a key that it sees: `Σ min(position + 1, window)`.
fn pairs(span: Span, window: usize) -> u64 {
    let triangle = |n: usize| n as u64 * (n as u64 + 1) / 2;
    // Positions below `full` see all that is before them, the others a whole window.
    let full = window.clamp(span.start, span.end);
    triangle(full) - triangle(span.start) + (span.end - full) as u64 * window.min(span.end) as u64
}

fn matrices(
    setup: &Setup<'_>,
    on_load: OnLoad,
    (stored, shape): (Format, &[usize]),
) -> Result<Matrices> {
    let [rows, cols] = *shape else {
        let numbers: usize = shape.iter().product();
        return Ok(Matrices {
            bytes: numbers as u64 * 4,
            ..Matrices::default()
        });
    };
    let backend: &dyn Backend = setup.backend;
    let format = on_load.format(stored);
    let layout = PanelLayout::converted(stored, format, rows, cols)?;
    let bytes = backend.layout_bytes(&layout)? as u64;
    let macs = rows as u64 * cols as u64;
    let (unit, products) = products(setup.weights.activations.arithmetic(format));
    let (int8_macs, float_macs) = match unit {
        CeilingKind::Int8 => (macs * products, 0),
        _ => (0, macs),
    };
    Ok(Matrices {
        bytes,
        macs,
        int8_macs,
        float_macs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_those_counted_one_by_one() {
        for (start, end) in [(0, 1), (0, 7), (3, 9), (6, 7), (10, 40), (5, 5)] {
            for window in [1, 2, 5, 7, 8, 100, usize::MAX] {
                let expected: usize = (start..end).map(|p| (p + 1).min(window)).sum();
                let span = Span { start, end };
                assert_eq!(pairs(span, window), expected as u64, "{span:?} {window}");
            }
        }
    }

    fn counter(windows: &[usize]) -> Counter {
        let attention = windows.iter().map(|&window| LayerAttention {
            window,
            kv_token_bytes: 10,
        });
        Counter {
            layers: Matrices {
                bytes: 1000,
                macs: 2000,
                int8_macs: 3000,
                float_macs: 500,
            },
            head: Matrices {
                bytes: 70,
                macs: 60,
                int8_macs: 0,
                float_macs: 60,
            },
            attention: attention.collect(),
            heads: 3,
            head_dim: 4,
        }
    }

    #[test]
    fn a_decode_step_reads_weights_once_and_each_sequence_its_own_past() {
        let counter = counter(&[usize::MAX, 8]);
        let spans = [Span { start: 9, end: 10 }, Span { start: 19, end: 20 }];
        let work = counter.step(&spans, 2);
        assert_eq!(work.weight_bytes, 1070);
        assert_eq!(work.kv_bytes, (10 + 8 + 20 + 8) * 10);
        assert_eq!(work.scores, 3 * (10 + 8 + 20 + 8));
        assert_eq!(work.attention_macs, work.scores * 8);
        assert_eq!(work.linear_macs, 2 * (2000 + 60));
        assert_eq!(work.int8_macs, 2 * 3000);
        assert_eq!(work.float_macs, 2 * (500 + 60) + work.attention_macs);
    }

    #[test]
    fn chunks_multiply_the_bytes_and_not_the_products() {
        let counter = counter(&[usize::MAX]);
        let span = Span { start: 0, end: 100 };
        let (whole, chunks) = (counter.prefill(span, 100), counter.prefill(span, 32));
        assert_eq!(whole.macs(), chunks.macs());
        assert_eq!(whole.weight_bytes, 1070);
        assert_eq!(chunks.weight_bytes, 4 * 1000 + 70);
        assert_eq!(chunks.kv_bytes, (32 + 64 + 96 + 100) * 10);
    }
}

//! Seeded inputs: numbers, stored weights, batches.

use std::sync::Arc;

use half::f16;

use crate::backend::{Backend, Limits, Queue};
use crate::batch::{Batch, GroupTables, SeqSlot};
use crate::cache::NO_BLOCK;
use crate::format::{Activations, Arithmetic, Coding, FORMATS, Format, GROUP, OnLoad};
use crate::quant::{self, Group};
use crate::tensor::Tensor;
use crate::weight::{RawPart, Weight, WeightOptions};

/// Sizes of every queue here.
pub const LIMITS: Limits = Limits {
    step_rows: 640,
    sequences: 8,
    logit_rows: 64,
    context: 1024,
    cols_max: 1024,
    vocab: 512,
};

/// A queue of `backend` with [`LIMITS`].
pub fn queue(backend: &dyn Backend) -> Box<dyn Queue> {
    backend.queue(&LIMITS).expect("a queue")
}

/// xorshift64*: enough for tests, the same everywhere.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next_u32(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// Uniform in -1..1.
    pub fn unit(&mut self) -> f32 {
        self.next_u32() as f32 / (1u64 << 31) as f32 - 1.0
    }

    pub fn units(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.unit()).collect()
    }

    /// Uniform below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.next_u32() as usize % n
    }

    /// `0..n` in random order.
    pub fn shuffled(&mut self, n: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            all.swap(i, self.below(i + 1));
        }
        all
    }
}

/// `[rows, cols]` like hidden states: rows of different size, rare outliers, stretches of zeros.
pub fn activations(noise: &mut Noise, rows: usize, cols: usize) -> Tensor {
    let mut values = Vec::with_capacity(rows * cols);
    for row in 0..rows {
        let size = [1.0, 0.02, 7.0][row % 3];
        for col in 0..cols {
            let x = noise.unit() * size;
            values.push(match noise.below(64) {
                0 => x * 20.0,
                _ if row % 5 == 4 && col / GROUP == 1 => 0.0,
                _ => x,
            });
        }
    }
    Tensor::from_values(&values, cols, "activations").expect("whole rows")
}

/// Byte offsets of a block's f16 numbers, each with the largest magnitude to put there.
fn f16_fields(format: Format) -> &'static [(usize, f32)] {
    match format {
        Format::Q4_0 | Format::Q5_0 | Format::IQ4_NL => &[(0, 0.02)],
        Format::Q8_0 => &[(0, 0.002)],
        Format::Q4_1 | Format::Q5_1 => &[(0, 0.02), (2, 0.2)],
        Format::Q2_K => &[(80, 0.02), (82, 0.02)],
        Format::Q3_K => &[(108, 0.002)],
        Format::Q4_K | Format::Q5_K => &[(0, 0.001), (2, 0.01)],
        Format::Q6_K => &[(208, 0.0001)],
        Format::IQ4_XS => &[(0, 0.0001)],
        Format::F32 | Format::F16 | Format::BF16 | Format::MXFP4 | Format::Int8Row => &[],
    }
}

/// Random stored rows: any code bytes, sane scales.
pub fn stored_rows(noise: &mut Noise, format: Format, rows: usize, cols: usize) -> Vec<u8> {
    let info = format.info();
    if format == Format::Int8Row {
        let mut row = || {
            let codes = (0..cols).map(|_| noise.next_u32() as u8);
            let mut row: Vec<u8> = codes.collect();
            row.extend((noise.unit() * 0.002).to_le_bytes());
            row
        };
        return (0..rows).flat_map(|_| row()).collect();
    }
    let blocks = rows * cols / info.block_elements;
    let mut bytes = Vec::with_capacity(blocks * info.block_bytes);
    for _ in 0..blocks {
        let start = bytes.len();
        match format {
            Format::F32 => bytes.extend(noise.unit().to_le_bytes()),
            Format::F16 => bytes.extend(f16::from_f32(noise.unit()).to_le_bytes()),
            Format::BF16 => bytes.extend(half::bf16::from_f32(noise.unit()).to_le_bytes()),
            _ => bytes.extend((0..info.block_bytes).map(|_| noise.next_u32() as u8)),
        }
        for (offset, size) in f16_fields(format) {
            let scale = f16::from_f32(noise.unit() * size).to_le_bytes();
            bytes[start + offset..start + offset + 2].copy_from_slice(&scale);
        }
        if format == Format::MXFP4 {
            bytes[start] = 120 + noise.below(6) as u8;
        }
    }
    bytes
}

/// A part's values, and per element the magnitudes that a kernel adds up to reach it.
pub struct Exact {
    pub format: Format,
    pub arithmetic: Arithmetic,
    pub rows: usize,
    pub cols: usize,
    /// `[rows, cols]`.
    pub values: Vec<f32>,
    /// `|d · sub_scale · code| + |m · sub_min|`: `[rows, cols]`.
    pub magnitudes: Vec<f32>,
    pub bias: Option<Vec<f32>>,
}

impl Exact {
    fn decode(format: Format, rows: usize, cols: usize, stored: &[u8]) -> Self {
        let mut values = vec![0.0; rows * cols];
        let row_bytes = format.row_bytes(cols).expect("whole blocks");
        for (out, stored) in values.chunks_mut(cols).zip(stored.chunks(row_bytes)) {
            quant::decode_row(format, stored, out);
        }
        let mut magnitudes: Vec<f32> = values.iter().map(|v| v.abs()).collect();
        let info = format.info();
        if let (Some(unpack), Coding::Integer { minimum: true, .. }) = (info.unpack, info.coding) {
            let mut groups = vec![Group::ZERO; info.block_elements / GROUP];
            let blocks = stored.chunks_exact(info.block_bytes);
            for (block, out) in blocks.zip(magnitudes.chunks_exact_mut(info.block_elements)) {
                unpack(block, &mut groups);
                for (group, out) in groups.iter().zip(out.as_chunks_mut().0) {
                    group.write_scaled(out);
                    for (column, v) in out.iter_mut().enumerate() {
                        *v = v.abs() + (group.m * f32::from(group.sub_mins[column / 16])).abs();
                    }
                }
            }
        }
        Self {
            format,
            arithmetic: format.info().arithmetic,
            rows,
            cols,
            values,
            magnitudes,
            bias: None,
        }
    }
}

/// Loads a weight of parts `(format, rows, with bias)` and says exactly what it holds.
pub fn weight(
    backend: &dyn Backend,
    noise: &mut Noise,
    cols: usize,
    parts: &[(Format, usize, bool)],
) -> (Arc<Weight>, Vec<Exact>) {
    let stored: Vec<Vec<u8>> = parts
        .iter()
        .map(|(format, rows, _)| stored_rows(noise, *format, *rows, cols))
        .collect();
    let mut raw = Vec::new();
    let mut exact = Vec::new();
    for ((format, rows, with_bias), bytes) in parts.iter().zip(&stored) {
        let bias = with_bias.then(|| noise.units(*rows));
        raw.push(RawPart {
            name: format!("{format} {rows} x {cols}"),
            format: *format,
            rows: *rows,
            cols,
            bytes,
            bias: bias.clone(),
        });
        let decoded = Exact::decode(*format, *rows, cols, bytes);
        exact.push(Exact { bias, ..decoded });
    }
    // Weights take turns, so that both ways of meeting integers are checked with every format and shape.
    let activations = [Activations::Int8, Activations::Int8Pair][noise.below(2)];
    for part in &mut exact {
        part.arithmetic = activations.arithmetic(part.format);
    }
    let options = WeightOptions {
        activations,
        on_load: OnLoad::AsStored,
    };
    let weight =
        Weight::load(backend, "conformance", &raw, options).expect("a weight of this shape");
    (weight, exact)
}

/// Every format that can store a row of `cols`.
pub fn formats(cols: usize) -> impl Iterator<Item = Format> {
    FORMATS
        .iter()
        .map(|row| row.format)
        .filter(move |format| format.row_bytes(cols).is_some())
}

/// One sequence's share of a step: its first position, its rows, its block table.
#[derive(Clone)]
pub struct Share {
    pub first: usize,
    pub rows: usize,
    pub table: Vec<u32>,
}

/// A step of one cache group.
pub fn batch(shares: &[Share]) -> Batch {
    let mut batch = Batch::default();
    let mut tables = GroupTables {
        blocks: Vec::new(),
        starts: vec![0],
    };
    batch.seq_starts.push(0);
    for (i, share) in shares.iter().enumerate() {
        let positions = share.first..share.first + share.rows;
        batch.tokens.extend(positions.clone().map(|_| 0));
        batch.positions.extend(positions.map(|p| p as u32));
        batch.seq_starts.push(batch.tokens.len() as u32);
        batch.kv_lens.push((share.first + share.rows) as u32);
        batch.slots.push(SeqSlot(i as u32));
        tables.blocks.extend(&share.table);
        tables.starts.push(tables.blocks.len() as u32);
    }
    batch.groups.push(tables);
    batch
}

/// A step of `rows` tokens of one sequence from position 0, without a past.
pub fn plain_batch(rows: usize) -> Batch {
    let table = vec![NO_BLOCK; rows.div_ceil(32)];
    batch(&[Share {
        first: 0,
        rows,
        table,
    }])
}

//! The KV cache and attention, one query row and head at a time over the keys it sees.
//!
//! A layer's block is `[kv_head][k, v][token][dim]`, in int8 with one scale a token after each `[token][dim]`. Sums go by absolute position, so a row's result does not depend on
//! how the prompt was cut into steps. Scores are one vector a thread, never a matrix.

use std::ops::Range;

use bytemuck::Pod;

use super::threads::{SPREAD_WORK_MIN, spread};
use crate::backend::{AttentionCall, HeadShape};
use crate::batch::Batch;
use crate::cache::{BLOCK_TOKENS, KvDtype, KvPool, LayerCache, NO_BLOCK};
use crate::check;
use crate::error::{TensorError, TensorResult};
use crate::numerics::RowScale;
use crate::tensor::{View, ViewMut};

/// What one thread writes on.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Scores of one row: `[visible keys]`.
    pub scores: Vec<f32>,
    /// Values of one block, weighted and summed: `[head_dim]`.
    pub partial: Vec<f32>,
}

/// A number as the cache stores it.
trait Stored: Pod + Sync {
    /// Stores one token's numbers; returns what stored numbers are to be multiplied by.
    fn store(to: &mut [Self], x: &[f32]) -> f32;
    fn load(self) -> f32;
}

impl Stored for f32 {
    fn store(to: &mut [Self], x: &[f32]) -> f32 {
        to.copy_from_slice(x);
        1.0
    }
    fn load(self) -> f32 {
        self
    }
}

impl Stored for half::bf16 {
    fn store(to: &mut [Self], x: &[f32]) -> f32 {
        for (to, x) in to.iter_mut().zip(x) {
            *to = Self::from_f32(*x);
        }
        1.0
    }
    fn load(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

impl Stored for i8 {
    fn store(to: &mut [Self], x: &[f32]) -> f32 {
        let scale = RowScale::of(x);
        for (to, x) in to.iter_mut().zip(x) {
            *to = scale.code_or_zero(*x);
        }
        scale.scale
    }
    fn load(self) -> f32 {
        f32::from(self)
    }
}

/// Keys or values of one head in one block.
struct Part<'a, T> {
    /// `[token][dim]`.
    numbers: &'a [T],
    /// What a token's numbers are to be multiplied by; empty where that is 1.
    scales: &'a [f32],
}

impl<T> Part<'_, T> {
    fn scale(&self, token: usize) -> f32 {
        self.scales.get(token).copied().unwrap_or(1.0)
    }
}

/// Stores this step's keys and values.
pub fn kv_store(
    pool: &mut KvPool,
    layer: LayerCache,
    qkv: View<'_>,
    heads: &HeadShape,
    batch: &Batch,
) -> TensorResult<()> {
    check::kv_store(pool, layer, &qkv, heads, batch)?;
    match pool.spec.groups[layer.group].dtype {
        KvDtype::F32 => store_rows::<f32>(pool, layer, qkv, heads, batch),
        KvDtype::Bf16 => store_rows::<half::bf16>(pool, layer, qkv, heads, batch),
        KvDtype::Int8 => store_rows::<i8>(pool, layer, qkv, heads, batch),
    }
}

fn store_rows<T: Stored>(
    pool: &mut KvPool,
    layer: LayerCache,
    qkv: View<'_>,
    heads: &HeadShape,
    batch: &Batch,
) -> TensorResult<()> {
    let dim = heads.head_dim;
    let part_bytes = part_bytes(pool, layer, heads);
    let cache = pool.layer_mut(layer);
    for sequence in 0..batch.num_sequences() {
        for row in batch.sequence_rows(sequence) {
            let position = batch.positions[row] as usize;
            let Some((block, token)) = batch.slot_of(layer.group, sequence, position) else {
                return Err(TensorError::shape("KV block of a row", "a block", "none"));
            };
            let new = &qkv.row(row)[heads.heads * dim..];
            for (part, x) in new.chunks_exact(dim).enumerate() {
                let (side, head) = (part / heads.kv_heads, part % heads.kv_heads);
                let start = part_index(heads, block, head, side) * part_bytes;
                let (numbers, scales) = cache[start..start + part_bytes]
                    .split_at_mut(BLOCK_TOKENS * dim * size_of::<T>());
                let numbers: &mut [T] = bytemuck::cast_slice_mut(numbers);
                let scale = T::store(&mut numbers[token * dim..][..dim], x);
                if let Some(place) = bytemuck::cast_slice_mut(scales).get_mut(token) {
                    *place = scale;
                }
            }
        }
    }
    Ok(())
}

/// Bytes of the keys or values of one head in a block.
fn part_bytes(pool: &KvPool, layer: LayerCache, heads: &HeadShape) -> usize {
    pool.spec.groups[layer.group].layer_block_bytes() / (2 * heads.kv_heads)
}

/// Which part of a layer the keys (`side` 0) or values (1) of a head in a block are.
fn part_index(heads: &HeadShape, block: usize, kv_head: usize, side: usize) -> usize {
    (block * heads.kv_heads + kv_head) * 2 + side
}

/// One query: its sequence, position and head, and where its result goes.
struct Query<'a> {
    row: usize,
    sequence: usize,
    head: usize,
    out: &'a mut [f32],
}

/// Causal attention over the pool.
pub fn attention(
    dst: ViewMut<'_>,
    qkv: View<'_>,
    call: &AttentionCall<'_>,
    scratch: &mut [Scratch],
) -> TensorResult<()> {
    check::attention(&dst, &qkv, call)?;
    if call.options.window == Some(0) {
        return Err(TensorError::shape("attention window", "at least 1", 0));
    }
    match call.pool.spec.groups[call.layer.group].dtype {
        KvDtype::F32 => attend_rows::<f32>(dst, qkv, call, scratch),
        KvDtype::Bf16 => attend_rows::<half::bf16>(dst, qkv, call, scratch),
        KvDtype::Int8 => attend_rows::<i8>(dst, qkv, call, scratch),
    }
    Ok(())
}

fn attend_rows<T: Stored>(
    mut dst: ViewMut<'_>,
    qkv: View<'_>,
    call: &AttentionCall<'_>,
    scratch: &mut [Scratch],
) {
    let (heads, batch) = (call.heads, call.inputs.batch);
    let sequence_of_row = (0..batch.num_sequences()).flat_map(|sequence| {
        batch
            .sequence_rows(sequence)
            .map(move |row| (row, sequence))
    });
    let queries = sequence_of_row
        .flat_map(|(row, sequence)| (0..heads.heads).map(move |head| (row, sequence, head)))
        .zip(dst.values_mut().chunks_exact_mut(heads.head_dim))
        .map(|((row, sequence, head), out)| Query {
            row,
            sequence,
            head,
            out,
        });
    let keys: usize = batch.positions.iter().map(|p| *p as usize + 1).sum();
    let work = keys * heads.heads * heads.head_dim * 2;
    let threads = if work < SPREAD_WORK_MIN {
        1
    } else {
        scratch.len()
    };
    spread(&mut scratch[..threads], queries, |scratch, query| {
        attend::<T>(scratch, query, qkv, call);
    });
}

fn attend<T: Stored>(
    scratch: &mut Scratch,
    query: Query<'_>,
    qkv: View<'_>,
    call: &AttentionCall<'_>,
) {
    let (heads, batch) = (&call.heads, call.inputs.batch);
    let dim = heads.head_dim;
    let q = &qkv.row(query.row)[query.head * dim..][..dim];
    let kv_head = query.head * heads.kv_heads / heads.heads;
    let last = batch.positions[query.row] as usize;
    let visible = call
        .options
        .window
        .map_or(0, |window| (last + 1).saturating_sub(window))..last + 1;
    let table = batch.table(call.layer.group, query.sequence);
    let (cache, part_bytes) = (
        call.pool.layer(call.layer),
        part_bytes(call.pool, call.layer, heads),
    );
    let part = |block: u32, side| {
        let start = part_index(heads, block as usize, kv_head, side) * part_bytes;
        let (numbers, scales) =
            cache[start..start + part_bytes].split_at(BLOCK_TOKENS * dim * size_of::<T>());
        Part::<T> {
            numbers: bytemuck::cast_slice(numbers),
            scales: bytemuck::cast_slice(scales),
        }
    };
    let scores = &mut scratch.scores;
    scores.clear();
    for (block, tokens) in blocks(table, &visible) {
        if block == NO_BLOCK {
            scores.extend(tokens.map(|_| f32::NEG_INFINITY));
            continue;
        }
        let keys = part(block, 0);
        scores.extend(tokens.map(|t| {
            let product = dot(q, &keys.numbers[t * dim..][..dim]);
            call.options.scale * (product * keys.scale(t))
        }));
    }
    softmax(scores);
    query.out.fill(0.0);
    let mut weights = scores.iter();
    for (block, tokens) in blocks(table, &visible) {
        let weights = weights.by_ref().take(tokens.len());
        if block == NO_BLOCK {
            weights.for_each(drop);
            continue;
        }
        let values = part(block, 1);
        scratch.partial.clear();
        scratch.partial.resize(dim, 0.0);
        for (token, weight) in tokens.zip(weights) {
            let weight = weight * values.scale(token);
            let numbers = &values.numbers[token * dim..][..dim];
            for (sum, v) in scratch.partial.iter_mut().zip(numbers) {
                *sum += weight * v.load();
            }
        }
        for (out, sum) in query.out.iter_mut().zip(&scratch.partial) {
            *out += sum;
        }
    }
}

/// The blocks that hold `visible`, each with its visible tokens.
fn blocks<'a>(
    table: &'a [u32],
    visible: &Range<usize>,
) -> impl Iterator<Item = (u32, Range<usize>)> + 'a {
    let Range { start, end } = *visible;
    (start / BLOCK_TOKENS..end.div_ceil(BLOCK_TOKENS)).map(move |i| {
        let first = i * BLOCK_TOKENS;
        let tokens = start.max(first) - first..end.min(first + BLOCK_TOKENS) - first;
        (table[i], tokens)
    })
}

/// `q · k` in eight strided lanes.
fn dot<T: Stored>(q: &[f32], k: &[T]) -> f32 {
    let mut lanes = [0.0f32; 8];
    let (q8, q_rest) = q.as_chunks::<8>();
    let (k8, k_rest) = k.as_chunks::<8>();
    for (q, k) in q8.iter().zip(k8) {
        for (lane, (q, k)) in lanes.iter_mut().zip(q.iter().zip(k)) {
            *lane += q * k.load();
        }
    }
    for (lane, (q, k)) in lanes.iter_mut().zip(q_rest.iter().zip(k_rest)) {
        *lane += q * k.load();
    }
    lanes.iter().sum()
}

/// Scores to weights that sum to one; all masked gives zeros.
fn softmax(scores: &mut [f32]) {
    let max = scores.iter().fold(f32::NEG_INFINITY, |max, s| max.max(*s));
    if max == f32::NEG_INFINITY {
        return scores.fill(0.0);
    }
    let mut sum = 0.0f64;
    for score in scores.iter_mut() {
        *score = (*score - max).exp();
        sum += f64::from(*score);
    }
    let inverse = 1.0 / sum;
    for score in scores {
        *score = (f64::from(*score) * inverse) as f32;
    }
}

//! One span of attention over f32 keys and values, for tests of exactness and accuracy; every tier runs this one.
//!
//! The order is that of the bf16 kernels, written plainly: no rounding of queries and weights, each product rounded
//! before it is added.

use std::ops::Range;

use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::numerics;

use super::attention::{SPAN_BLOCKS, SPAN_TOKENS, SpanInput, SpanOutput};
use super::kv::Side;

/// One tile over one span of f32 keys and values, both `[32 tokens, head_dim]` in a block.
pub fn attention_span_f32(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    let cache = &input.cache;
    let dim = input.head_dim;
    span_plain(input, output, |side, position, d| {
        let (keys, values) = cache.block(position / BLOCK_TOKENS);
        let part = if side == Side::Key { keys } else { values };
        f32::from_bits(part[position % BLOCK_TOKENS * dim + d])
    });
}

/// The arithmetic of a span, one number at a time; `read(side, position, dim)` is the cache. Weights are not rounded.
fn span_plain(
    input: &SpanInput<'_>,
    output: &mut SpanOutput<'_>,
    read: impl Fn(Side, usize, usize) -> f32,
) {
    let first = input.span * SPAN_TOKENS;
    let dim = input.head_dim;
    for row in 0..input.visible.len() {
        let keys = input.row_keys(row);
        let q = input.q[row * dim / 16..(row + 1) * dim / 16].as_flattened();
        let scores = output.scores[row].as_flattened_mut();
        let mut greatest = f32::NEG_INFINITY;
        for key in keys.clone() {
            let product = |d: usize| q[d] * read(Side::Key, first + key, d);
            let s = paired_sum(0..dim, product) * input.scale_log2;
            scores[key] = s;
            greatest = if s > greatest { s } else { greatest };
        }
        let m = greatest.ceil();
        for (key, p) in scores.iter_mut().enumerate() {
            *p = if keys.contains(&key) {
                weight(*p - m)
            } else {
                0.0
            };
        }
        output.m[row] = m;
        output.l[row] = block_sums(&keys, |key| scores[key]);
        let o = &mut output.o[row * dim / 16..(row + 1) * dim / 16];
        for (d, o) in o.as_flattened_mut().iter_mut().enumerate() {
            *o = block_sums(&keys, |key| scores[key] * read(Side::Value, first + key, d));
        }
    }
}

/// Sum of `term` over the blocks of the span, hidden keys being 0.
fn block_sums(keys: &Range<usize>, term: impl Fn(usize) -> f32) -> f32 {
    (0..SPAN_BLOCKS).fold(0.0, |sum, block| {
        let all = block * BLOCK_TOKENS..(block + 1) * BLOCK_TOKENS;
        sum + paired_sum(all, |key| if keys.contains(&key) { term(key) } else { 0.0 })
    })
}

/// Sum in spans of 32: even and odd places ascending, then `sum + (even + odd)`.
fn paired_sum(places: Range<usize>, term: impl Fn(usize) -> f32) -> f32 {
    let mut sum = 0.0;
    for start in places.clone().step_by(32) {
        let mut parts = [0.0; 2];
        for place in start..(start + 32).min(places.end) {
            parts[place % 2] += term(place);
        }
        sum += parts[0] + parts[1];
    }
    sum
}

fn weight(t: f32) -> f32 {
    let n = t.floor();
    if n < -64.0 {
        0.0
    } else {
        numerics::exp2_fraction(t - n) * numerics::exp2_integer(n)
    }
}

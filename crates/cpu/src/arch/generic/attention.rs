//! One span of attention over bf16 or int8 keys and values: the canonical arithmetic, written once over [`Lanes`] and
//! `Stored`.
//!
//! A span is 256 absolute positions, eight blocks. For one tile of query rows that share a key-value head it yields, per
//! row, `m`, `l = Σ p` and `o = Σ p v`, to be folded left to right with the other spans of the row.
//!
//! ```text
//! score   c = Σ over 32 dims of (even + odd), even and odd ascending sums of q k;  s = c · scale_log2
//! weight  m = ceil(max of the visible s);  t = s - m;  n = floor(t);  p = bf16(2^(t - n)) · 2^n, 0 below 2^-64 or masked
//! sums    per block of 32 keys (even, odd) ascending, then l = l + (even + odd), o = o + (even + odd)
//! ```
//! Keys lie in lanes for the scores, dims for the sums; so no product crosses lanes. A block that some row of the tile
//! does not see whole takes the masked path, where hidden values read as 0: what an unwritten place holds, NaN included,
//! never reaches a sum. Codes of int8 are never NaN and need no such path. What int8 changes above: `stored.rs`.
//!
//! Cost of a row and a block at dim 64 on AVX-512: 128 + 128 multiply-adds, about 60 operations for the weights, 8 to 32 for `l`;
//! some 180 cycles. Eight rows share each load and split of a key or value vector. From int8 a split takes two operations
//! more a pair, and a row 24 more a block; decode, which waits for memory, reads half the bytes.

use std::ops::Range;

use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::numerics::EXP2_FRACTION;

use super::lanes::{Lanes, Portable};
use super::stored::{Bf16, Int8, Stored, Strip, WeightBlock};

/// Positions of one span.
pub const SPAN_TOKENS: usize = 256;
/// Blocks of one span.
pub const SPAN_BLOCKS: usize = SPAN_TOKENS / BLOCK_TOKENS;
/// Most query rows (positions times heads) of one tile.
pub const TILE_ROWS: usize = 32;

/// Up to so many rows wait for memory rather than compute: decode of 8 sequences at 1,024 tokens gains 10 %.
const PREFETCH_ROWS: usize = 8;

/// Scores or weights of one row over one span, in vectors of 16 keys.
pub type SpanRow = [[f32; 16]; SPAN_TOKENS / 16];

/// Where the keys and values of one head of one sequence lie.
#[derive(Debug, Clone, Copy)]
pub struct HeadCache<'a> {
    /// The layer's blocks, as 4-byte words: `[blocks][block_words]`.
    pub layer: &'a [u32],
    /// The sequence's block table.
    pub table: &'a [u32],
    /// Words of one block of the layer.
    pub block_words: usize,
    /// First word of the head within a block: its keys, then its values.
    pub head_start: usize,
    /// Words of the head's keys; its values take as many.
    pub part_words: usize,
}

impl<'a> HeadCache<'a> {
    /// Keys and values of one block of the table.
    #[inline(always)]
    pub fn block(&self, index: usize) -> (&'a [u32], &'a [u32]) {
        let start = self.table[index] as usize * self.block_words + self.head_start;
        self.layer[start..start + 2 * self.part_words].split_at(self.part_words)
    }

    /// Keys of one block of the table, if the table has it and the layer holds it.
    #[inline(always)]
    fn keys_if_any(&self, index: usize) -> Option<&'a [u32]> {
        let block = *self.table.get(index)? as usize;
        let start = block.checked_mul(self.block_words)? + self.head_start;
        self.layer.get(start..start + self.part_words)
    }
}

/// One tile of rows over one span.
#[derive(Debug, Clone, Copy)]
pub struct SpanInput<'a> {
    /// The head's cache.
    pub cache: HeadCache<'a>,
    /// Numbers of a head, a multiple of 16.
    pub head_dim: usize,
    /// Queries, rounded as the cache is: `[rows, head_dim]`.
    pub q: &'a [[f32; 16]],
    /// First and last-but-one key that each row sees, absolute: `[rows]`.
    pub visible: &'a [(usize, usize)],
    /// Which span of the sequence.
    pub span: usize,
    /// Softmax scale times log2(e).
    pub scale_log2: f32,
}

impl SpanInput<'_> {
    /// Keys that row `row` sees, relative to the span; empty when none.
    #[inline(always)]
    pub fn row_keys(&self, row: usize) -> Range<usize> {
        let start = self.span * SPAN_TOKENS;
        let (low, high) = self.visible[row];
        let low = low.clamp(start, start + SPAN_TOKENS) - start;
        let high = high.clamp(start, start + SPAN_TOKENS) - start;
        low..high.max(low)
    }

    /// Blocks of the span that any row sees.
    #[inline(always)]
    pub fn blocks(&self) -> Range<usize> {
        let (mut low, mut high) = (SPAN_TOKENS, 0);
        for row in 0..self.visible.len() {
            let keys = self.row_keys(row);
            if !keys.is_empty() {
                low = low.min(keys.start);
                high = high.max(keys.end);
            }
        }
        low / BLOCK_TOKENS..high.div_ceil(BLOCK_TOKENS)
    }
}

/// What a span yields for each row; a row that sees no key of the span holds nothing of meaning.
#[derive(Debug)]
pub struct SpanOutput<'a> {
    /// Room for scores and weights: `[rows, 256]`.
    pub scores: &'a mut [SpanRow],
    /// Weighted sums of values: `[rows, head_dim]`.
    pub o: &'a mut [[f32; 16]],
    /// Ceiled maxima of the scores, base 2.
    pub m: &'a mut [f32],
    /// Sums of the weights.
    pub l: &'a mut [f32],
}

/// One tile over one span of bf16 keys and values.
pub fn attention_span(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    span_over::<_, Bf16>(Portable, input, output);
}

/// One tile over one span of int8 keys and values.
pub fn attention_span_int8(input: &SpanInput<'_>, output: &mut SpanOutput<'_>) {
    span_over::<_, Int8>(Portable, input, output);
}

/// Calls `$body::<L, S, R>` for consecutive groups of at most `L::ROWS` rows.
macro_rules! for_row_groups {
    ($L:ident, $S:ident, $rows:expr, |$row:ident| $body:ident($($argument:expr),*)) => {
        let mut $row = 0;
        while $row < $rows {
            let group = ($rows - $row).min($L::ROWS);
            match group {
                1 => $body::<$L, $S, 1>($($argument),*),
                2 => $body::<$L, $S, 2>($($argument),*),
                3 => $body::<$L, $S, 3>($($argument),*),
                4 => $body::<$L, $S, 4>($($argument),*),
                5 => $body::<$L, $S, 5>($($argument),*),
                6 => $body::<$L, $S, 6>($($argument),*),
                7 => $body::<$L, $S, 7>($($argument),*),
                _ => $body::<$L, $S, 8>($($argument),*),
            }
            $row += group.min(8);
        }
    };
}

/// The body of every tier's kernel.
#[inline(always)]
pub(crate) fn span_over<L: Lanes, S: Stored>(
    lanes: L,
    input: &SpanInput<'_>,
    output: &mut SpanOutput<'_>,
) {
    let rows = input.visible.len();
    let blocks = input.blocks();
    let first_block = input.span * SPAN_BLOCKS;
    for block in blocks.clone() {
        let (keys, values) = input.cache.block(first_block + block);
        if rows <= PREFETCH_ROWS {
            lanes.prefetch(values);
            lanes.prefetch(
                input
                    .cache
                    .keys_if_any(first_block + block + 1)
                    .unwrap_or_default(),
            );
        }
        let (keys, scales) = S::part(keys);
        for (half, strips) in keys.chunks_exact(input.head_dim / 16).enumerate() {
            let keys = KeyVector::<S> {
                strips,
                scales,
                half,
                vector: 2 * block + half,
                scale_log2: input.scale_log2,
            };
            for_row_groups!(L, S, rows, |row| scores(
                lanes,
                &keys,
                input.q,
                row,
                output.scores
            ));
        }
    }
    for row in 0..rows {
        weights::<L, S>(lanes, input.row_keys(row), blocks.clone(), row, output);
        let sums = lanes.block_sums(&output.scores[row], blocks.clone());
        output.l[row] = sums[blocks.clone()].iter().fold(0.0, |l, sum| l + sum);
    }
    output.o[..rows * (input.head_dim / 16)].fill([0.0; 16]);
    for block in blocks {
        let (_, values) = input.cache.block(first_block + block);
        let (values, scales) = S::part(values);
        let all = block * BLOCK_TOKENS..(block + 1) * BLOCK_TOKENS;
        let mut whole = true;
        for row in 0..rows {
            let keys = input.row_keys(row);
            whole &= keys.start <= all.start && all.end <= keys.end;
            let weights = WeightBlock {
                weights: &mut output.scores[row],
                block,
                keys,
            };
            S::operands(lanes, weights, scales);
        }
        if whole || S::UNWRITTEN_IS_FINITE {
            for_row_groups!(L, S, rows, |row| sums(lanes, values, row, block, output));
        } else {
            for_row_groups!(L, S, rows, |row| masked_sums(
                lanes, values, row, block, input, output
            ));
        }
    }
}

/// The keys of half a block, and what turns their products into scores.
struct KeyVector<'a, S: Stored> {
    /// `[head_dim / 16]` strips.
    strips: &'a [Strip<S>],
    /// Scales of the block's keys.
    scales: S::Scales<'a>,
    /// Which half of the block.
    half: usize,
    /// Which vector of the span the scores fill.
    vector: usize,
    /// Softmax scale times log2(e).
    scale_log2: f32,
}

/// `R` consecutive elements from `start`.
#[inline(always)]
fn group<T, const R: usize>(all: &[T], start: usize) -> &[T; R] {
    &all[start..start + R].as_chunks().0[0]
}

/// As [`group`], writable.
#[inline(always)]
fn group_mut<T, const R: usize>(all: &mut [T], start: usize) -> &mut [T; R] {
    &mut all[start..start + R].as_chunks_mut().0[0]
}

/// Scores of 16 keys for `R` rows from `row`.
#[inline(always)]
fn scores<L: Lanes, S: Stored, const R: usize>(
    lanes: L,
    keys: &KeyVector<'_, S>,
    q: &[[f32; 16]],
    row: usize,
    scores: &mut [SpanRow],
) {
    let halves = keys.strips.len();
    let q: [&[[f32; 16]]; R] =
        std::array::from_fn(|r| &q[(row + r) * halves..(row + r + 1) * halves]);
    let zero = lanes.splat(0.0);
    let mut sum = [zero; R];
    let mut parts = [(zero, zero); R];
    for (half, strip) in keys.strips.iter().enumerate() {
        let q: [&[f32; 16]; R] = std::array::from_fn(|r| &q[r][half]);
        for (pair, keys) in strip.iter().enumerate() {
            let (even, odd) = S::split(lanes, keys);
            for r in 0..R {
                parts[r].0 = lanes.exact_mul_add(even, lanes.splat(q[r][2 * pair]), parts[r].0);
                parts[r].1 = lanes.exact_mul_add(odd, lanes.splat(q[r][2 * pair + 1]), parts[r].1);
            }
        }
        if half % 2 == 1 || half + 1 == halves {
            for r in 0..R {
                sum[r] = lanes.add(sum[r], lanes.add(parts[r].0, parts[r].1));
                parts[r] = (zero, zero);
            }
        }
    }
    let rows = group_mut::<_, R>(scores, row);
    for r in 0..R {
        let score = S::score(lanes, sum[r], keys.scales, keys.half);
        let place = &mut rows[r][keys.vector];
        lanes.store(place, lanes.mul(score, lanes.splat(keys.scale_log2)));
    }
}

/// Bits of the 16 keys of vector `vector` that lie in `keys`.
#[inline(always)]
pub(super) fn key_bits(keys: &Range<usize>, vector: usize) -> u16 {
    let below = |end: usize| {
        let count = end.saturating_sub(16 * vector).min(16);
        ((1u32 << count) - 1) as u16
    };
    below(keys.end) & !below(keys.start)
}

/// Turns the scores of one row into weights, in place, and sets its `m`.
#[inline(always)]
pub(crate) fn weights<L: Lanes, S: Stored>(
    lanes: L,
    keys: Range<usize>,
    blocks: Range<usize>,
    row: usize,
    output: &mut SpanOutput<'_>,
) {
    let first = 2 * blocks.start;
    let vectors = &mut output.scores[row][first..2 * blocks.end];
    // Only vectors that are seen in part, or not at all, need a mask.
    let whole = keys.start.div_ceil(16)..keys.end / 16;
    let seen = |x, vector: usize, hidden: f32| match whole.contains(&vector) {
        true => x,
        false => lanes.select(key_bits(&keys, vector), x, lanes.splat(hidden)),
    };
    let mut greatest = lanes.splat(f32::NEG_INFINITY);
    for (i, vector) in vectors.iter().enumerate() {
        let score = seen(lanes.load(vector), first + i, f32::NEG_INFINITY);
        greatest = lanes.max(score, greatest);
    }
    let m = lanes.greatest(greatest).ceil();
    for (i, vector) in vectors.iter_mut().enumerate() {
        let t = lanes.sub(lanes.load(vector), lanes.splat(m));
        lanes.store(vector, seen(weight::<L, S>(lanes, t), first + i, 0.0));
    }
    output.m[row] = m;
}

/// `2^(t - floor t) · 2^(floor t)`, the first factor rounded as the precision has it.
#[inline(always)]
fn weight<L: Lanes, S: Stored>(lanes: L, t: L::F) -> L::F {
    let n = lanes.floor(t);
    let f = lanes.sub(t, n);
    let mut p = lanes.splat(EXP2_FRACTION[0]);
    for coefficient in &EXP2_FRACTION[1..] {
        p = lanes.add(lanes.mul(p, f), lanes.splat(*coefficient));
    }
    p = lanes.add(lanes.mul(p, f), lanes.splat(1.0));
    lanes.scale(S::weight(lanes, p), n)
}

/// Adds one block's values, all visible, to `R` rows from `row`.
#[inline(always)]
fn sums<L: Lanes, S: Stored, const R: usize>(
    lanes: L,
    values: &[Strip<S>],
    row: usize,
    block: usize,
    output: &mut SpanOutput<'_>,
) {
    let p = group::<_, R>(output.scores, row);
    let groups = values.len() / 2;
    for (dims, values) in values.as_chunks::<2>().0.iter().enumerate() {
        let mut parts = [(lanes.splat(0.0), lanes.splat(0.0)); R];
        for (half, values) in values.iter().enumerate() {
            let p: [&[f32; 16]; R] = std::array::from_fn(|r| &p[r][2 * block + half]);
            for (pair, values) in values.iter().enumerate() {
                let (even, odd) = S::split(lanes, values);
                for r in 0..R {
                    parts[r].0 = lanes.exact_mul_add(even, lanes.splat(p[r][2 * pair]), parts[r].0);
                    let p = lanes.splat(p[r][2 * pair + 1]);
                    parts[r].1 = lanes.exact_mul_add(odd, p, parts[r].1);
                }
            }
        }
        for (r, (even, odd)) in parts.into_iter().enumerate() {
            let o = &mut output.o[(row + r) * groups + dims];
            lanes.store(o, lanes.add(lanes.load(o), lanes.add(even, odd)));
        }
    }
}

/// As [`sums`] where some row does not see the whole block: its hidden values read as 0.
#[inline(always)]
fn masked_sums<L: Lanes, S: Stored, const R: usize>(
    lanes: L,
    values: &[Strip<S>],
    row: usize,
    block: usize,
    input: &SpanInput<'_>,
    output: &mut SpanOutput<'_>,
) {
    let masks: [[[u32; 16]; 2]; R] = std::array::from_fn(|r| {
        let keys = input.row_keys(row + r);
        std::array::from_fn(|half| {
            let bits = key_bits(&keys, 2 * block + half);
            std::array::from_fn(|key| if bits >> key & 1 == 1 { u32::MAX } else { 0 })
        })
    });
    let p = group::<_, R>(output.scores, row);
    let groups = values.len() / 2;
    for (dims, values) in values.as_chunks::<2>().0.iter().enumerate() {
        let mut parts = [(lanes.splat(0.0), lanes.splat(0.0)); R];
        for (half, values) in values.iter().enumerate() {
            let p: [&[f32; 16]; R] = std::array::from_fn(|r| &p[r][2 * block + half]);
            let masks: [&[u32; 16]; R] = std::array::from_fn(|r| &masks[r][half]);
            for (pair, values) in values.iter().enumerate() {
                let (even, odd) = S::split(lanes, values);
                for r in 0..R {
                    let (p, mask) = ((p[r][2 * pair], p[r][2 * pair + 1]), masks[r]);
                    let even = lanes.and(even, mask[2 * pair]);
                    let odd = lanes.and(odd, mask[2 * pair + 1]);
                    parts[r].0 = lanes.exact_mul_add(even, lanes.splat(p.0), parts[r].0);
                    parts[r].1 = lanes.exact_mul_add(odd, lanes.splat(p.1), parts[r].1);
                }
            }
        }
        for (r, (even, odd)) in parts.into_iter().enumerate() {
            let o = &mut output.o[(row + r) * groups + dims];
            lanes.store(o, lanes.add(lanes.load(o), lanes.add(even, odd)));
        }
    }
}
